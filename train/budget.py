"""How few look-up tables: keep the taps that are worth what they cost in hardware.

What a neuron costs is not its number of taps: up to six are one table, and beyond that the heaps'
exact table tells. Each neuron keeps the largest taps, as many as are worth their tables at a price
that is the same for all; the price is such that all tables together are the budget.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sbnn_hw.cost.by_taps import CLASS, class_costs, neuron_costs, remainder_tables, wide_costs
from sbnn_hw.cost.prices import comparison_cost, shared_sum
from sbnn_hw.families import Family, find_family
from sbnn_hw.train.columns import ColumnEncoder
from sbnn_hw.train.domains import Signed, Zero
from sbnn_hw.train.layers import (
    InputEncoder,
    LearnedEncoder,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryScores,
)

__all__ = ["LutBudget", "input_costs"]

#: Most taps that a hidden neuron may have while a budget is in force: none is given more, whatever
#: it is worth, and costs are looked up no further. Scores may have more, up to their cap.
LONGEST = 96
#: A ξ that is on no grid needs this many bits fewer than inputs times neurons have, or about so.
COARSER = 3


def input_costs(encoder: InputEncoder, channels: int = 1, *, family: str = "xc7") -> list[float]:
    """Return the tables of each bit that an encoder makes of a value, channel by channel."""
    kind, bits = find_family(family), encoder.most.bit_length()
    if encoder.kind == "integer":
        return [0.0] * channels
    if isinstance(encoder, LearnedEncoder) or (
        isinstance(encoder, ColumnEncoder) and encoder.learn
    ):
        # Where the thresholds will be is not known: most take this much.
        return [comparison_cost(1, bits, kind)] * (encoder.planes * channels)
    return [
        comparison_cost(threshold, bits, kind)
        for row in encoder.table(channels)
        for threshold in row
    ]


@dataclass(frozen=True)
class _SharedSum:
    """What q takes in a layer, for the ξ that the layer has."""

    #: Whole bits of q that each neuron adds to its taps.
    bits: int
    #: Of the sum of all inputs, and its product with Ξ.
    tables: float
    #: How many remainders there are to compare with, and the tables of such a comparison.
    remainders: int
    each: float

    def apart(self, neurons: int) -> float:
        """Return the tables of the remainders that neurons need; those with the same share it."""
        if not self.remainders:
            return 0.0
        return self.each * self.remainders * (1 - (1 - 1 / self.remainders) ** neurons)


def _shared_sum(layer: SparseBinaryLayer, input_bits: int, family: Family) -> _SharedSum | None:
    """Return what q takes in a layer as it is; nothing where ξ is zero."""
    if isinstance(layer, SparseBinaryScores) or isinstance(layer.domain, Signed | Zero):
        return None
    xi = layer.domain.exact().xi
    # The fold looks for the least k that decides alike, which no grid makes larger.
    off_grid = max(1, (layer.fan_in * len(layer.weight)).bit_length() - COARSER)
    k = min((xi.denominator - 1).bit_length(), off_grid)
    step = abs(round(xi * 2**k))
    if not step:
        return None
    sums = layer.groups if isinstance(layer, SparseBinaryConv2d) else 1
    bits, tables = shared_sum(layer.fan_in, input_bits, step, k, sums, family)
    most = layer.fan_in * (2**input_bits - 1)
    return _SharedSum(bits, tables, sums * min(most, 2**k - 1), remainder_tables(k, family))


class LutBudget:
    """Choose each neuron's taps so that a network takes a number of look-up tables.

    The scores are not priced: their latent weights are of another size than those before a batch
    norm, and every class needs its taps. Each class keeps its largest, up to the cap. Behind a map
    that arrives a pixel at a time taps are in tables that are there anyway, so that a class may
    have them all if they are signed. If not, classes with the same taps have the same score: half
    of them are the cap that is not given. Sums of all inputs (q) are counted for the ξ that
    each layer has when the budget is applied, and bits that an encoder makes for taps of a first
    layer that sees whole images; what convolutions need to keep lines, and to encode one pixel, is
    not.

    ``layers`` are all layers in order; the last gives the scores. ``caps`` are the most taps of a
    neuron, layer by layer (0 or missing: as many as pay). What the first layer reads has
    ``input_bits``, each of which is added up. ``encoded`` are the tables of each bit that an
    encoder makes of a pixel, channel by channel.
    """

    def __init__(
        self,
        layers: list[SparseBinaryLayer],
        *,
        caps: Sequence[int] = (),
        input_bits: int = 1,
        encoded: Sequence[float] = (),
        family: str = "xc7",
    ) -> None:
        self.layers = layers
        #: Tables of each input of the first layer, where all of them are there at once.
        self.encoded: Tensor | None = None
        if any(encoded) and not isinstance(layers[0], SparseBinaryConv2d):
            self.encoded = torch.tensor(encoded).repeat_interleave(layers[0].fan_in // len(encoded))
        self.family = find_family(family)
        self.input_bits = input_bits
        self.caps: list[int] = []
        #: The most taps of a neuron where there are no caps yet.
        self.longest: list[int] = []
        for number, layer in enumerate(layers):
            cap = caps[number] if number < len(caps) else 0
            longest = min(layer.fan_in, LONGEST)
            if isinstance(layer, SparseBinaryScores):
                longest = min(layer.fan_in, max(LONGEST, cap))
                if not layer.domain.signed:
                    # Classes that tap every input, or nearly, all say the same.
                    longest = min(longest, max(cap, layer.fan_in // 2, 1))
            self.longest.append(longest)
            self.caps.append(min(cap, longest) if cap else longest)
        self._known: dict[tuple[int, int], Tensor] = {}
        self.reprice()

    def reprice(self) -> None:
        """Take the costs for the ξ that each layer has now."""
        self.sums = [
            _shared_sum(layer, 1 if number else self.input_bits, self.family)
            for number, layer in enumerate(self.layers)
        ]
        self.costs = [
            self._costs(number, shared.bits if shared else 0)
            for number, shared in enumerate(self.sums)
        ]

    def _costs(self, number: int, q_bits: int) -> Tensor:
        """Return the tables of a neuron of a layer with 0, 1, … taps, and some bits of q."""
        if (number, q_bits) not in self._known:
            longest = self.longest[number]
            bits = 1 if number else self.input_bits
            if isinstance(self.layers[number], SparseBinaryScores):
                costs = class_costs(longest, self.family, self._map_before(number))
            elif bits == 1:
                costs = neuron_costs(longest, self.family, q_bits=q_bits)
            else:
                costs = wide_costs(longest, bits, self.family, q_bits=q_bits)
            self._known[number, q_bits] = torch.tensor(costs)
        return self._known[number, q_bits]

    def _map_before(self, number: int) -> tuple[int, int] | None:
        """Return pixels and channels of the map that a layer reads, if it comes by pixels."""
        before = self.layers[number - 1] if number else None
        if not isinstance(before, SparseBinaryConv2d):
            return None
        return self.layers[number].fan_in // before.out_channels, before.out_channels

    @property
    def fixed(self) -> float:
        """Tables that no choice of taps changes: the search for the largest score, and q."""
        return CLASS * len(self.layers[-1].weight) + sum(
            shared.tables for shared in self.sums if shared
        )

    @property
    def constant(self) -> bool:
        """Whether every class must tap every input, so that their scores are the same."""
        last = self.layers[-1]
        return not last.domain.signed and self.caps[-1] == last.fan_in > 1

    @property
    def least(self) -> float:
        """Tables that are taken whatever the budget is: what is fixed, and the scores' taps."""
        return self.fixed + float(self.costs[-1][self.caps[-1]]) * len(self.layers[-1].weight)

    @property
    def largest(self) -> float:
        """Tables if every neuron had as many taps as it may have before there are caps."""
        return self.fixed + sum(
            float(costs[-1]) * len(layer.weight)
            + (shared.apart(len(layer.weight)) if shared else 0.0)
            for layer, costs, shared in zip(self.layers, self.costs, self.sums, strict=True)
        )

    @torch.no_grad()
    def luts(self) -> float:
        """Return the tables of the network as it is, by the same costs."""
        self.reprice()
        present = [layer.signs() != (0 if layer.domain.signed else -1) for layer in self.layers]
        taps = [rows.flatten(1).sum(1) for rows in present]
        columns = [rows.flatten(1).nonzero() for rows in present]
        return self.fixed + self._spent(taps, columns)

    @torch.no_grad()
    def refresh(self, luts: float, *, slack: float = 0.0) -> None:
        """Set every neuron's cut so that the tables are at most ``luts``.

        ``slack`` between 0 and 1 widens the caps: 1 is no cap at all.
        """
        self.reprice()
        ranked = [
            self._rank(layer, cap + round((longest - cap) * slack))
            for layer, cap, longest in zip(self.layers, self.caps, self.longest, strict=True)
        ]
        room = luts - self.fixed

        def spent(price: float) -> float:
            kept = self._choose(ranked, price)
            columns = []
            for (_, places), taps in zip(ranked, kept, strict=True):
                at = (torch.arange(places.shape[1], device=taps.device) < taps[:, None]).nonzero()
                columns.append(torch.stack([at[:, 0], places[at[:, 0], at[:, 1]]], 1))
            return self._spent(kept, columns)

        low, high = 0.0, 1.0
        while spent(high) > room:
            low, high = high, 2 * high
            if high > 1e12:
                break
        for _ in range(20):
            price = (low + high) / 2
            if spent(price) > room:
                low = price
            else:
                high = price
        for layer, (values, _), kept in zip(
            self.layers, ranked, self._choose(ranked, high), strict=True
        ):
            # The smallest that is kept; nothing is above infinity.
            cut = values.gather(1, (kept - 1).clamp_min(0).unsqueeze(1)).squeeze(1)
            cut[kept == 0] = math.inf
            layer.cut.copy_(cut.view(layer.cut.shape))
            _break_ties(layer, kept)

    def _rank(self, layer: SparseBinaryLayer, most: int) -> tuple[Tensor, Tensor]:
        """Return the largest values of each neuron, as many as it may keep, and their places."""
        values = layer.weight.flatten(1)
        values = values.abs() if layer.domain.signed else values
        found = values.topk(most, 1)
        return found.values, found.indices

    def _choose(self, ranked: list[tuple[Tensor, Tensor]], price: float) -> list[Tensor]:
        """Return how many taps each neuron keeps at a price for a table.

        Layers are compared, so the size at which their latent weights start is taken out.
        """
        chosen = []
        for layer, (values, _), costs in zip(self.layers, ranked, self.costs, strict=True):
            worth = values.cumsum(1) * layer.fan_in**0.5
            worth -= price * costs[1 : values.shape[1] + 1].to(values)
            best = worth.max(1)
            chosen.append(torch.where(best.values > 0, best.indices + 1, 0))
        if isinstance(self.layers[-1], SparseBinaryScores):
            chosen[-1] = torch.full_like(chosen[-1], ranked[-1][0].shape[1])
        for number, (layer, (values, _)) in enumerate(zip(self.layers, ranked, strict=True)):
            if layer.domain.signed:
                # A weight of zero has no sign: it was taken away, and does not come back so.
                chosen[number] = torch.minimum(chosen[number], (values > 0).sum(1))
        return chosen

    def _spent(self, taps: list[Tensor], columns: list[Tensor]) -> float:
        """Return the tables of the neurons that are read; others are not built.

        ``columns`` holds for each layer the neuron and the input of each of its taps.
        """
        total = 0.0
        read = torch.ones_like(taps[-1], dtype=torch.bool)
        for number in reversed(range(len(self.layers))):
            costs = self.costs[number].to(read.device)
            total += float(costs[taps[number].clamp_max(len(costs) - 1)][read].sum())
            shared = self.sums[number]
            if shared:
                total += shared.apart(int((read & (taps[number] > 0)).sum()))
            neurons, inputs = columns[number].unbind(1)
            if not number:
                if self.encoded is not None:
                    # A sum of all inputs reads them all.
                    used = torch.full_like(self.encoded, shared is not None, dtype=torch.bool)
                    used[inputs[read[neurons]].cpu()] = True
                    total += float(self.encoded[used].sum())
                break
            before = self.layers[number - 1]
            # What a neuron of the layer before is to this one: an input, a channel of a window,
            # or all places of a channel behind a flatten.
            layer = self.layers[number]
            share = layer.fan_in // len(before.weight)
            if shared or (isinstance(layer, SparseBinaryConv2d) and layer.groups > 1):
                read = torch.ones(len(before.weight), dtype=torch.bool, device=read.device)
                continue
            seen = inputs[read[neurons]] // share
            read = torch.zeros(len(before.weight), dtype=torch.bool, device=read.device)
            read[seen] = True
        return total


def _break_ties(layer: SparseBinaryLayer, kept: Tensor) -> None:
    """Bring weights that are at the cut below it, where there are more than are to be kept."""
    rows = layer.weight.data.flatten(1)
    sizes = rows.abs() if layer.domain.signed else rows
    cut = layer.cut.flatten()
    excess = (sizes >= cut.unsqueeze(1)).sum(1) - kept
    for row in excess.nonzero().flatten().tolist():
        tied = (sizes[row] == cut[row]).nonzero().flatten()[-int(excess[row]) :]
        below = torch.nextafter(cut[row], cut.new_tensor(-math.inf))
        rows[row, tied] = below * rows[row, tied].sign() if layer.domain.signed else below
