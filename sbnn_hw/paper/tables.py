"""Fill the tables: next to each published number what is counted or measured here."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from statistics import mean
from typing import TYPE_CHECKING, Any

from sbnn_hw.bops import bparams_pr
from sbnn_hw.paper.layout import LAYOUTS, Layout
from sbnn_hw.paper.measured import Measured, Run
from sbnn_hw.paper.published import Number, Published

if TYPE_CHECKING:
    from sbnn_hw.train.metrics import ModelCount

__all__ = ["Entry", "Row", "Table", "make_tables", "rounds_to"]


@dataclass(frozen=True)
class Entry:
    """One number of a cell. ``agrees`` says whether it is the published one at printed digits."""

    kind: str
    value: float
    text: str
    mark: str
    note: str = ""
    source: str = ""
    agrees: bool | None = None


@dataclass(frozen=True)
class Row:
    """A row: for each column that it can have the numbers that are there, published ones first."""

    key: str
    label: str
    cells: dict[str, tuple[Entry, ...]]


@dataclass(frozen=True)
class Table:
    """A table, with what is to be said under it."""

    layout: Layout
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "number": self.layout.number,
            "name": self.layout.key,
            "title": self.layout.title,
            "columns": [
                {"name": c.key, "title": c.title, "unit": c.unit} for c in self.layout.columns
            ],
            "rows": [
                {
                    "name": row.key,
                    "label": row.label,
                    "cells": {
                        key: [
                            {
                                "kind": entry.kind,
                                "value": entry.value,
                                "text": entry.text,
                                "source": entry.source or None,
                                "note": entry.note or None,
                                "agrees": entry.agrees,
                            }
                            for entry in entries
                        ]
                        for key, entries in row.cells.items()
                    },
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }


def rounds_to(value: float, printed: Decimal) -> bool:
    """Return whether a number, rounded to the digits of a printed one, is that one.

    Examples
    --------
    >>> rounds_to(0.8713, Decimal("0.87")), rounds_to(0.8713, Decimal("0.870"))
    (True, False)
    """
    return Decimal(value).quantize(printed, ROUND_HALF_UP) == printed


def make_tables(published: Published, measured: Measured, numbers: tuple[int, ...]) -> list[Table]:
    """Return the tables of these numbers, counted on the architectures themselves."""
    makers: dict[str, Callable[[_Maker], tuple[str, ...]]] = {
        "ablation": _ablation,
        "cifar10": _cifar10,
        "cifar100": _cifar100,
        "imagenet": _imagenet,
    }
    tables = []
    for layout in LAYOUTS:
        if layout.number in numbers:
            maker = _Maker(layout, published, measured)
            notes = makers[layout.key](maker)
            tables.append(maker.finish(notes))
    return tables


class _Maker:
    """Cells of one table: the published numbers are there from the start."""

    def __init__(self, layout: Layout, published: Published, measured: Measured) -> None:
        self.layout, self.published, self.measured = layout, published, measured
        self.cells: dict[tuple[str, str], list[Entry]] = {}
        for row in layout.rows:
            for column in layout.columns:
                self.cells[row, column.key] = [
                    Entry(
                        "published",
                        float(number.value),
                        str(number.value),
                        number.source.mark,
                        source=number.source.key,
                    )
                    for number in self.numbers(row, column.key)
                ]

    def numbers(self, row: str, column: str) -> tuple[Number, ...]:
        return self.published.cell(self.layout.key, row, column)

    def count(
        self, row: str, column: str, value: float, note: str = "", agrees: bool | None = None
    ) -> None:
        """Add what is counted, in the column's unit."""
        if agrees is None and (printed := self.numbers(row, column)):
            agrees = rounds_to(value, printed[0].value)
        entry = Entry("counted", value, f"{value:.2f}", "c", note, agrees=agrees)
        self.cells[row, column].append(entry)

    def measure(self, row: str, column: str, runs: tuple[Run, ...], what: str) -> None:
        """Add the mean of the runs' values, in percent, and half of their range."""
        if not runs:
            return
        kernels = ("bparams_pr", "bops_pr", "sparse_pr", "k0", "k1")
        values = [100 * getattr(run.kernels if what in kernels else run, what) for run in runs]
        half = (max(values) - min(values)) / 2
        text = f"{mean(values):.2f}" + (f"±{half:.2f}" if len(values) > 1 else "")
        note = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
        self.cells[row, column].append(Entry("measured", mean(values), text, "m", note))

    def finish(self, notes: tuple[str, ...]) -> Table:
        rows = tuple(
            Row(
                key,
                label,
                {
                    column: tuple(entries)
                    for (row, column), entries in self.cells.items()
                    if row == key
                },
            )
            for key, label in self.layout.rows.items()
        )
        return Table(self.layout, rows, (*notes, *self._trained_by_authors()))

    def drop(self, row: str, *columns: str) -> None:
        """Leave cells empty for good: nothing in them could be published or measured."""
        for column in columns:
            del self.cells[row, column]

    def _trained_by_authors(self) -> tuple[str, ...]:
        starred = any(label.endswith("*") for label in self.layout.rows.values())
        return ("* trained by the authors of the paper.",) if starred else ()

    def check_deltas(self) -> tuple[str, ...]:
        """Compare each printed Δ with the difference of the top-1 accuracies printed."""
        base = self.layout.baseline
        wrong, right = [], 0
        for row, label in self.layout.rows.items():
            printed = _printed(self, row, "delta", "top1")
            first = _printed(self, base, "top1")
            if not printed or not first:
                continue
            delta, top1 = printed
            if top1 - first[0] == delta:
                right += 1
                continue
            self.count(row, "delta", float(top1 - first[0]), "from top-1", False)
            wrong.append(f"{label} {delta}, but {top1} − {first[0]} = {top1 - first[0]}")
        rule = f"each Δ should be the top-1 of its row minus that of {self.layout.rows[base]}"
        return _contradictions(f"{rule}. {right} of them are", wrong)

    def check_operations(self) -> tuple[str, ...]:
        """Compare printed OPs with FLOPs + BOPs/64, all three being rounded."""
        wrong, right = [], 0
        for row, label in self.layout.rows.items():
            if not (printed := _printed(self, row, "bops", "flops", "ops")):
                continue
            bops, flops, ops = printed
            spans = [_span(number) for number in (bops, flops)]
            low, high = (spans[1][side] + spans[0][side] / 64 for side in (0, 1))
            if _meets(ops, low, high):
                right += 1
                continue
            wrong.append(f"{label} {ops}, but {flops} + {bops}/64 = {flops + bops / 64:.2f}")
        return _contradictions(
            f"OPs should be FLOPs + BOPs/64. {right} of them are, as rounded", wrong
        )

    def about_runs(self, runs: tuple[Run, ...]) -> str:
        """Say under which conditions the runs were made; none of them are the paper's."""
        if not runs:
            return "Measured here: not measured yet (bench/cifar_ablation.py measures it)."
        widths = ", ".join(sorted({f"{run.width:g}" for run in runs}))
        epochs = ", ".join(map(str, sorted({run.epochs for run in runs})))
        return (
            f"Measured here: {self.measured.what}; width {widths}, epochs {epochs}. The paper's "
            f"networks have width 1 and hundreds of epochs: the accuracies cannot be compared."
        )


#: Rows of the ablation without a sparsity constraint, and their domains.
_FREE = {"baseline": "symmetric", "free": "bnn"}


def _ablation(maker: _Maker) -> tuple[str, ...]:
    used: list[Run] = []
    for row in maker.layout.rows:
        if row in _FREE:
            chosen = {"": maker.measured.of(_FREE[row], 0.5, "none")}
            maker.drop(row, "top1_topk", "ones_topk")
        else:
            chosen = {
                "": maker.measured.of(row, 0.05, "penalty"),
                "_topk": maker.measured.of(row, 0.05, "topk"),
            }
        for by, runs in chosen.items():
            maker.measure(row, f"top1{by}", runs, "accuracy")
            maker.measure(row, f"ones{by}", runs, "ones")
            used += runs
    return (*maker.check_deltas(), _ABOUT_ABLATION, maker.about_runs(tuple(used)))


_ABOUT_ABLATION = (
    "The braces name the two values that the weights of a layer have; a one is a weight of the "
    "larger value. Either a penalty in the loss makes the ones rare, or top-k does: only the "
    "largest weights become ones. {−1, +1} without constraint was measured here in place of the "
    "baseline: the batch norm behind each layer undoes the factor β. Δ: top-1 minus that of the "
    "first row."
)

_ABOUT_KERNELS = (
    "A one is a weight of the larger of the two values. K0 and K1: shares of 3×3 kernels with no "
    "and with exactly one one. BOPs PR: share of binary operations saved if these kernels are "
    "dropped. BParams PR: share of storage saved, compared with 9 bits per kernel, if each kernel "
    "takes 2 bits, 4 more if it has exactly one one, and 9 more if it has several. Δ: top-1 minus "
    "that of the first row."
)


def _contradictions(rule: str, wrong: list[str]) -> tuple[str, ...]:
    """Say which printed numbers break a rule."""
    text = f"Contradictions in the paper: {rule}; these are not: {'; '.join(wrong)}."
    return (text,) if wrong else ()


def _sparse_rows(maker: _Maker) -> None:
    """Put the paper's rule for BParams PR next to what was published, where K0 and K1 were."""
    for row in maker.layout.rows:
        k0, k1, printed = (maker.numbers(row, key) for key in ("k0", "k1", "bparams_pr"))
        if k0 and k1:
            spans = [_span(share[0].value) for share in (k0, k1)]
            # The rule is linear and rises with both.
            low, value, high = (
                100 * bparams_pr(float(zeros) / 100, float(ones) / 100)
                for zeros, ones in (
                    (spans[0][0], spans[1][0]),
                    (k0[0].value, k1[0].value),
                    (spans[0][1], spans[1][1]),
                )
            )
            agrees = _meets(printed[0].value, low, high) if printed else None
            maker.count(row, "bparams_pr", value, "from K0, K1", agrees)


def _span(printed: Decimal) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value that is printed so when rounded."""
    half = Decimal((0, (5,), int(printed.as_tuple().exponent) - 1))
    return printed - half, printed + half


def _meets(printed: Decimal, low: float | Decimal, high: float | Decimal) -> bool:
    """Return whether a printed number can be one between two bounds."""
    least, most = _span(printed)
    slack = 1e-9  # of floating point
    return float(low) - slack <= float(most) and float(least) <= float(high) + slack


def _cifar10(maker: _Maker) -> tuple[str, ...]:
    _sparse_rows(maker)
    used: list[Run] = []
    reached: list[str] = []
    for row in maker.layout.rows:
        if not row.isdigit():
            maker.drop(row, "bparams_pr")
            continue
        runs = maker.measured.reaching("learned", 1 - int(row) / 100)
        used += runs
        maker.measure(row, "top1", runs, "accuracy")
        for column in ("bparams_pr", "bops_pr", "sparse_pr", "k0", "k1"):
            maker.measure(row, column, runs, column)
        if runs:
            by = {"none": "free", "penalty": "penalty", "topk": "top-k"}[runs[0].method]
            reached.append(f"{100 * mean(run.ones for run in runs):.2f} for {row} % ({by})")
    shares = (f"Shares of ones that the runs reached, %: {'; '.join(reached)}.",) if reached else ()
    about = (
        f"{_ABOUT_KERNELS} BOPs PR, sparse: if all zeros are skipped; the paper's text prints it "
        f"for SBNN 95 % only. BParams PR is not in this table of the paper."
    )
    return (
        *maker.check_deltas(),
        about,
        _about("resnet18", 10),
        maker.about_runs(tuple(used)),
        *shares,
    )


def _cifar100(maker: _Maker) -> tuple[str, ...]:
    _sparse_rows(maker)
    return (
        *maker.check_deltas(),
        _ABOUT_KERNELS,
        _about("reactnet18", 100),
        "Measured here: not measured (training needs a GPU; `sbnn-hw models` lists the recipes).",
    )


def _about(model: str, classes: int) -> str:
    from sbnn_hw.train.metrics import count_architecture

    counted = count_architecture(model, (32, 32, 3), classes)
    return (
        f"Counted here, {model} for 32×32×3: {counted.weights:,} binary weights, "
        f"{counted.binary_macs / 1e6:.1f} M binary MACs, {counted.flops / 1e6:.2f} M FLOPs, "
        f"{counted.ops / 1e6:.2f} M OPs per image. K0, K1 and both PR need trained weights: "
        f"`sbnn-hw info --model CKPT` counts them."
    )


def _imagenet(maker: _Maker) -> tuple[str, ...]:
    from sbnn_hw.train.metrics import count_architecture

    counts = {}
    for row in ("xnor_resnet18", "birealnet18", "reactnet18", "reactnet_a"):
        counted = counts[row] = count_architecture(row, (224, 224, 3), 1000)
        for column in ("bops", "flops", "ops"):
            value = counted.binary_macs if column == "bops" else getattr(counted, column)
            maker.count(row, column, value / 1e8)
    dense = counts["reactnet_a"]
    for row in ("sbnn75", "sbnn90"):
        # A quarter and a tenth of the weights are ones.
        sparse = dense.binary_macs * (100 - int(row.removeprefix("sbnn"))) / 100
        for note, binary in (("binary MACs", dense.binary_macs), ("sparse", sparse)):
            maker.count(row, "bops", binary / 1e8, note)
            maker.count(row, "ops", (dense.flops + binary / 64) / 1e8, note)
        maker.count(row, "flops", dense.flops / 1e8)
    units = (
        "BOPs are binary operations, FLOPs those on real values; OPs = FLOPs + BOPs/64. Counted "
        "here as multiply-accumulates (MACs), one each."
    )
    readings = (
        "SBNN rows: the paper's text assumes sparse operations, as on an FPGA. Two readings are "
        "counted: binary MACs, zeros included; and sparse operations, all zeros skipped, if every "
        "layer has the same share of ones. Neither gives the printed numbers: only the trained "
        "weights would tell where the ones are."
    )
    return (*maker.check_operations(), units, *_explain_flops(maker, counts), readings)


def _explain_flops(maker: _Maker, counts: dict[str, "ModelCount"]) -> tuple[str, ...]:
    """Name the terms of the FLOPs, and which of them the published numbers hold."""
    counted = counts["reactnet18"]
    terms = {
        "first convolution": counted.flops_of("conv1"),
        "1×1 shortcuts": counted.flops_of("shortcut"),
        "classifier": counted.flops_of("fc"),
    }
    binary = counted.binary_macs / 64 / 1e8
    listed = " + ".join(f"{name} {value / 1e8:.3f}" for name, value in terms.items())
    text = (
        f"18 layers, counted here: FLOPs = {listed} = {counted.flops / 1e8:.3f}; binary MACs/64 = "
        f"{binary:.3f}; OPs = {counted.ops / 1e8:.3f}. XNOR-Net's, Bi-Real Net's and ReActNet's "
        f"have the same counts; batch norms, scales and activations are not counted."
    )
    notes = [text]
    for row in ("xnor_resnet18", "birealnet18"):
        if printed := _printed(maker, row, "flops", "ops"):
            flops, ops = printed
            notes.append(
                f"{maker.layout.rows[row]}: the published FLOPs {flops} differ from those counted "
                f"by {float(flops) - counted.flops / 1e8:+.3f}, the OPs {ops} by "
                f"{float(ops) - counted.ops / 1e8:+.3f}."
            )
    if printed := _printed(maker, "reactnet18", "flops", "ops"):
        flops, ops = printed
        others = [n.value for n in maker.numbers("reactnet18", "ops") if n.value == flops]
        if others and rounds_to(float(flops) + binary, ops):
            notes.append(
                f"ReActNet-18: its published FLOPs {flops} are the OPs that ReActNet's own table "
                f"gives. The binary part was then added a second time: {flops} + {binary:.3f} = "
                f"{float(flops) + binary:.2f}, the published OPs."
            )
    return tuple(notes)


def _printed(maker: _Maker, row: str, *columns: str) -> tuple[Decimal, ...]:
    """Return the published numbers of a row's columns; nothing if one of them was not printed."""
    found = [maker.numbers(row, column) for column in columns]
    return tuple(numbers[0].value for numbers in found) if all(found) else ()
