"""A case: a random network, and all that is compared of it."""

import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from random_networks import random_images

from fuzzing.features import features_of, folded_features
from fuzzing.folded import check_folded
from fuzzing.networks import KINDS, random_kind
from fuzzing.unrolled import check_unrolled, random_options
from sbnn_hw.engine.folded import LANES, foldable
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.agreement import check_agreement

__all__ = ["Case", "Result"]

Array = npt.NDArray[Any]

#: How many cases there are to one that goes through Verilator.
VERILATED = 1000


@dataclass
class Result:
    """What a case showed."""

    kind: str
    #: Stages by their operations, those that compute nothing left out.
    layers: Counter[str] = field(default_factory=Counter)
    #: Comparisons by what was compared with the netlist.
    ways: Counter[str] = field(default_factory=Counter)
    features: set[str] = field(default_factory=set)
    #: What differs, a sentence each.
    wrong: list[str] = field(default_factory=list)

    def note(self, way: str, wrong: str) -> None:
        """Count a comparison, and keep what is wrong."""
        self.ways[way] += 1
        if wrong:
            self.wrong.append(wrong)


@dataclass(frozen=True)
class Case:
    """A random network with random images, of a seed of its own."""

    seed: int

    @property
    def verilated(self) -> bool:
        """Whether it goes through Verilator too."""
        return self.seed % VERILATED == VERILATED - 1

    def make(self) -> tuple[np.random.Generator, str, Network, Array]:
        """Return the state of chance, the kind of network, the network and images."""
        rng = np.random.default_rng(self.seed)
        kind = random_kind(rng)
        network = KINDS[kind][0](rng)
        return rng, kind, network, random_images(rng, network, int(rng.integers(16, 65)))

    def run(self) -> Result:
        """Make the case and compare; whatever is raised on the way is wrong too."""
        result = Result("")
        try:
            self._run(result)
        except Exception:
            # The last line of a traceback says what, the one before where.
            result.wrong.append(" ".join(traceback.format_exc().split("\n")[-4:]).strip())
        return result

    def _run(self, result: Result) -> None:
        rng, result.kind, network, pixels = self.make()
        kinds = (stage.operation.kind for stage in network.stages)
        result.layers.update(kind for kind in kinds if kind != "flatten")
        values = _values(network, pixels)
        scores = values[len(network.stages) - 1]
        result.features = features_of(network, scores)
        for form, folded, wrong in check_folded(rng, network, values):
            result.note(f"engine: {form}", wrong)
            if folded is not None:
                result.features |= folded_features(folded)
        # Tables of wide layers take long to find.
        if network.connections < 600 and (result.kind != "chain" or rng.random() < 0.25):
            for kind, wrong in check_unrolled(rng, network, values, random_options(rng)):
                result.note(f"unrolled: {kind}", wrong)
        if self.verilated:
            for way, wrong in _simulate(rng, network, pixels):
                result.note(way, wrong)


def _values(network: Network, pixels: Array) -> dict[int, Array]:
    """Return what each stage hands on, by its number; the input's is −1."""
    found = {INPUT: network.check_pixels(pixels)}
    for number, stage in enumerate(network.stages):
        inputs = [found[source] for source in stage.sources]
        found[number] = stage.operation.compute(*inputs, *network.edges_into(number))
    return found


def _simulate(
    rng: np.random.Generator, network: Network, pixels: Array
) -> Iterator[tuple[str, str]]:
    """Yield what Verilator says of the unrolled network, or where there is one of its engine."""
    options = random_options(rng)
    form = "unrolled"
    if not foldable(network):
        form = str(rng.choice(list(LANES)))
        options = Options(family=options.family, form=form, lanes=int(rng.choice(LANES[form])))
    try:
        made = generate(network, options)
    except ModelRejected:
        return
    found = check_agreement(
        network, made.verilog, made.design, pixels, stalls=True, inside=True,
        seed=int(rng.integers(1 << 16)),
    )  # fmt: skip
    wrong = "; ".join(found.differences)
    yield f"Verilator: {form}", f"{options}: {wrong}" if wrong else ""
