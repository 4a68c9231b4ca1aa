"""Count: binary operations, ones, entropy, and the paper's measures of 3×3 kernels.

All of it is static, from the netlist alone. For one image: a dense binary layer takes N XNORs and
N additions a neuron, a sparse one takes an addition a connection, and N more once a window for q
where ξ ≠ 0. Positions that lie in the padding are counted like all others.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sbnn_hw.netlist import Network, Work

__all__ = [
    "Kernels",
    "LayerCount",
    "NetworkCount",
    "count",
    "count_kernels",
    "entropy",
    "inverse_entropy",
    "summarise",
]


def entropy(p: float) -> float:
    """Return h(p), the bits a weight takes if a share ``p`` of the weights is one.

    Examples
    --------
    >>> entropy(0.5), round(entropy(0.05), 4)
    (1.0, 0.2864)
    """
    if not 0 <= p <= 1:
        raise ValueError(f"A share must be between 0 and 1, not {p!r}")
    return sum(-x * math.log2(x) for x in (p, 1 - p) if x > 0)


def inverse_entropy(bits: float) -> float:
    """Return the share p ≤ 1/2 of ones at which h(p) is ``bits``.

    Examples
    --------
    >>> round(inverse_entropy(entropy(0.05)), 9)
    0.05
    """
    if not 0 <= bits <= 1:
        raise ValueError(f"Bits per weight must be between 0 and 1, not {bits!r}")
    if bits == 1:
        return 0.5  # where h is flat, and bisection would stop early
    low, high = 0.0, 0.5
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(middle) < bits else (low, middle)
    return high


@dataclass(frozen=True)
class LayerCount:
    """What a layer has and does for one image.

    ``binary_macs`` is N for each neuron evaluation, ``dense`` two operations for each of those,
    ``sparse`` one for each connection plus ``q``. A layer that adds pixels of 8 bits does no binary
    operations; its ``additions`` are counted apart.
    """

    name: str
    kind: str
    neurons: int
    inputs: int
    windows: int
    weights: int
    ones: int
    connections: int
    absent: int
    xi: int
    k: int
    binary_macs: int
    dense: int
    sparse: int
    q: int
    additions: int
    fan_in: tuple[int, ...]


@dataclass(frozen=True)
class Kernels:
    """Kernels of 3×3 weights: how many there are of each Hamming weight, and what that saves.

    ``k0`` and ``k1`` are the shares of kernels with no and with one weight of value one.
    ``bops_pr`` is the share of operations saved if all nine of those kernels are dropped,
    ``sparse_pr`` if all zeros are; each kernel is weighted by its output positions. ``bparams_pr``
    is the share of storage saved against nine bits a kernel: 2 bits, 4 more for a Hamming weight of
    one, 9 more above.
    """

    histogram: tuple[int, ...]
    k0: float
    k1: float
    bops_pr: float
    sparse_pr: float
    bparams_pr: float


@dataclass(frozen=True)
class NetworkCount:
    """The counts of a network, layer by layer and in all."""

    layers: tuple[LayerCount, ...]
    kernels: Kernels | None
    #: What stages without binary weights do, by their names.
    others: dict[str, Work]

    def total(self, field: str) -> int:
        """Return the sum of a count over all layers, and what all other stages do."""
        counted = (*self.others.values(), *self.layers)
        return sum(int(getattr(each, field, 0)) for each in counted)

    @property
    def by_connections(self) -> int:
        """Operations of layers whose weights are bits: what handshakes and connections measure."""
        return sum(layer.sparse + layer.additions for layer in self.layers)

    @property
    def density(self) -> float:
        """U/N as trained."""
        return self.total("ones") / max(1, self.total("weights"))


def count(network: Network) -> NetworkCount:
    """Count what a network has and does for one image."""
    layers = []
    kernels: list[tuple[tuple[int, ...], int]] = []
    for number, stage, layer in network.layers():
        if layer.wiring.weights is not None:
            continue  # its weights are no ones and zeros
        edge = network.edge_into(number)
        neurons, windows = len(layer.taps), layer.windows(edge)
        inputs, work = layer.inputs_per_neuron(edge), layer.work(edge)
        layers.append(
            LayerCount(
                name=stage.name,
                kind=layer.kind,
                neurons=neurons,
                inputs=inputs,
                windows=windows,
                weights=inputs * neurons,
                ones=layer.connections if stage.ones is None else stage.ones,
                connections=layer.connections,
                absent=len(stage.absent),
                xi=layer.xi,
                k=layer.k,
                binary_macs=work.binary_macs,
                dense=2 * work.binary_macs,
                sparse=work.sparse,
                q=work.q,
                additions=work.additions,
                fan_in=tuple(np.bincount(layer.taps.fan_in).tolist()),
            )
        )
        own = layer.kernels() if stage.kernels is None else stage.kernels
        if own is not None and edge.bits == 1:
            kernels.append((own, windows))
    tapped = {layer.name for layer in layers}
    others = {
        stage.name: stage.operation.work(*network.edges_into(number))
        for number, stage in enumerate(network.stages)
        if stage.name not in tapped
    }
    return NetworkCount(tuple(layers), count_kernels(kernels) if kernels else None, others)


def count_kernels(layers: list[tuple[tuple[int, ...], int]]) -> Kernels:
    """Return the measures of 3×3 kernels, given each layer's histogram and output positions."""
    histogram = np.zeros(10, np.int64)
    operations = dropped = skipped = 0
    for own, positions in layers:
        histogram += np.array(own)
        operations += 9 * positions * sum(own)
        dropped += 9 * positions * (own[0] + own[1])
        skipped += positions * sum((9 - weight) * number for weight, number in enumerate(own))
    total = int(histogram.sum())
    k0, k1 = int(histogram[0]) / total, int(histogram[1]) / total
    return Kernels(
        histogram=tuple(histogram.tolist()),
        k0=k0,
        k1=k1,
        bops_pr=dropped / operations,
        sparse_pr=skipped / operations,
        bparams_pr=bparams_pr(k0, k1),
    )


def bparams_pr(k0: float, k1: float) -> float:
    """Return the share of storage saved, given the shares of kernels of weight zero and one."""
    return 1 - (2 + 4 * k1 + 9 * (1 - k0 - k1)) / 9


def summarise(network: Network) -> dict[str, Any]:
    """Return all counts as plain values, for JSON."""
    counts = count(network)
    bops = ("binary_macs", "dense", "sparse", "q", "additions")
    layers = []
    for layer in counts.layers:
        values = asdict(layer)
        fan_in = values.pop("fan_in")
        values["bops"] = {field: values.pop(field) for field in bops}
        values["density"] = layer.ones / layer.weights
        values["fan_in"] = {
            "least": next((n for n, c in enumerate(fan_in) if c), 0),
            "most": len(fan_in) - 1,
            "histogram": {str(n): c for n, c in enumerate(fan_in) if c},
        }
        layers.append(values)
    edge = network.input
    return {
        "digest": network.digest,
        "input": {"shape": list(edge.shape), "bits": edge.bits},
        "classes": network.classes,
        "weights": counts.total("weights"),
        "ones": counts.total("ones"),
        "density": counts.density,
        "entropy": entropy(counts.density),
        "connections": network.connections,
        "neurons": counts.total("neurons"),
        "bops": {field: counts.total(field) for field in (*bops, "multiplications")},
        "by_connections": counts.by_connections,
        "kernels": asdict(counts.kernels) if counts.kernels else None,
        "stages": [_summarise_stage(network, number) for number in range(len(network.stages))],
        "layers": layers,
        "others": {name: asdict(work) for name, work in counts.others.items() if work != Work()},
    }


def _summarise_stage(network: Network, number: int) -> dict[str, Any]:
    """Return what a stage is and does, whether it has binary weights or not."""
    stage, edge = network.stages[number], network.edge_from(number)
    return {
        "name": stage.name,
        "kind": stage.operation.kind,
        "sources": list(stage.sources),
        "output": {"shape": list(edge.shape), "low": edge.low, "high": edge.high},
        "connections": stage.operation.connections,
        "work": asdict(stage.operation.work(*network.edges_into(number))),
    }
