"""The integer network: a directed acyclic graph of stages that computes itself."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.netlist.canonical import canonical_stages
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array
from sbnn_hw.netlist.layer import Tapped
from sbnn_hw.netlist.meaning import Meaning
from sbnn_hw.netlist.operation import Mask
from sbnn_hw.netlist.stage import INPUT, Stage

__all__ = ["Network", "Outcome"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the network says of a batch: scores, classes, and the values that were asked for."""

    #: The scores of each image, one for each class.
    scores: npt.NDArray[np.int64]
    #: The class of each image: that of its first largest score.
    classes: npt.NDArray[np.int64]
    #: The values of stages, by their names.
    values: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Network:
    """The integer network: a graph of stages that computes exactly what the hardware computes.

    Each stage comes after its sources; the last one gives the scores.
    """

    #: What the network receives: raw pixels.
    input: Edge
    #: Its operations, each with its sources.
    stages: tuple[Stage, ...]
    #: What its classes and columns are called, and how values become integers, if that is known.
    #: Not in the digest.
    meaning: Meaning | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise ModelRejected("A network must have one stage or more")
        names = [stage.name for stage in self.stages]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ModelRejected(f"Stage names must differ, but several are {twice[0]!r}")
        read: set[int] = set()
        edges: list[Edge] = []
        for number, stage in enumerate(self.stages):
            for source in stage.sources:
                if source not in range(INPUT, number):
                    raise ModelRejected(
                        f"Stage {stage.name} must receive from an earlier stage, not {source!r:.80}"
                    )
                read.add(source)
            into = [self.input if source == INPUT else edges[source] for source in stage.sources]
            with naming(f"Stage {stage.name}: "):
                edges.append(stage.operation.infer(*into))
                stage.operation.check_counts(stage.ones, stage.kernels, *into)
        last = len(self.stages) - 1
        if not self.stages[last].operation.scoring:
            raise ModelRejected(f"The last stage, {names[last]}, must give scores")
        unread = [names[n] for n in range(last) if n not in read]
        if unread or INPUT not in read:
            raise ModelRejected(
                f"Stage {unread[0] if unread else 'input'} is not read by any later stage"
            )
        object.__setattr__(self, "_edges", tuple(edges))
        if self.meaning is not None:
            self.meaning.check(self.input.shape, self.input.bits, self.classes)

    # Its shape

    def edge_from(self, source: int) -> Edge:
        """Return the edge that a stage, or the input, hands on."""
        edges: tuple[Edge, ...] = self._edges  # type: ignore[attr-defined]
        return self.input if source == INPUT else edges[source]

    def edges_into(self, number: int) -> tuple[Edge, ...]:
        """Return the edges that a stage receives, one for each source."""
        return tuple(self.edge_from(source) for source in self.stages[number].sources)

    def edge_into(self, number: int) -> Edge:
        """Return the edge that a stage of one source receives."""
        (edge,) = self.edges_into(number)
        return edge

    def layers(self) -> Iterator[tuple[int, Stage, Tapped]]:
        """Yield the stages that have taps, with their numbers."""
        for number, stage in enumerate(self.stages):
            if isinstance(stage.operation, Tapped):
                yield number, stage, stage.operation

    @cached_property
    def read(self) -> tuple[Mask, ...]:
        """For each stage, which of its values matter to a later one; all of the last stage's do."""
        shapes = [self.edge_from(number).shape for number in range(len(self.stages))]
        masks = [np.zeros(shape, bool) for shape in shapes]
        masks[-1][:] = True
        for number in reversed(range(len(self.stages))):
            stage, edges = self.stages[number], self.edges_into(number)
            found = stage.operation.reads(masks[number], *edges)
            for source, mask in zip(stage.sources, found, strict=True):
                if source != INPUT:
                    masks[source] |= mask
        return tuple(masks)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.edge_from(len(self.stages) - 1).channels

    def class_name(self, number: int) -> str:
        """Return what a class is called: its name, or else its number."""
        return str(number) if self.meaning is None else self.meaning.classes[number]

    @property
    def connections(self) -> int:
        """Number of taps in all."""
        return sum(stage.operation.connections for stage in self.stages)

    @property
    def schema(self) -> int:
        """The first schema of files that can say the network."""
        return max(
            stage.operation.needs(*self.edges_into(number))
            for number, stage in enumerate(self.stages)
        )

    @cached_property
    def canonical(self) -> "Network":
        """The one form of the network: the same function, and its stages' values if they are left.

        What the first schema can say has one form already.
        """
        if self.schema == 1:
            return self
        return replace(self, stages=canonical_stages(self.input, self.stages))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that decides what the network computes; names are not in it."""
        from sbnn_hw.netlist.file import encode

        description, arrays = encode(self.canonical, names=False)
        digest = hashlib.sha256(description)
        for array in arrays:
            digest.update(array.tobytes())
        return digest.hexdigest()

    # What it computes

    def check_pixels(self, pixels: Array) -> Array:
        """Return pixels as a batch of the input's shape, or say what is wrong with them."""
        pixels = np.asarray(pixels)
        if pixels.dtype.kind not in "ui" or pixels.shape[1:] != self.input.shape:
            raise ModelRejected(
                f"Images must be integers of shape (count, "
                f"{', '.join(map(str, self.input.shape))}), not {pixels.dtype} of {pixels.shape}"
            )
        if pixels.size and not (pixels.min() >= 0 and pixels.max() <= self.input.maximum):
            raise ModelRejected(f"Pixels must be between 0 and {self.input.maximum}")
        return pixels.astype(np.uint8, copy=False) if self.input.bits <= 8 else pixels

    def compute(self, pixels: Array, *, keep: Collection[str] = ()) -> Outcome:
        """Compute a batch; ``keep`` names the stages whose values are wanted too."""
        pixels = self.check_pixels(pixels)
        unknown = set(keep) - {stage.name for stage in self.stages}
        if unknown:
            raise ModelRejected(f"No stage is called {sorted(unknown)[0]!r}")
        parts = []
        last_reader = {s: n for n, stage in enumerate(self.stages) for s in stage.sources}
        # Wide maps are computed in pieces, so that memory does not grow with the batch.
        size = max(64, (1 << 25) // max(self.edge_from(n).size for n in range(len(self.stages))))
        for start in range(0, max(1, len(pixels)), size):
            values: dict[int, Array] = {INPUT: pixels[start : start + size]}
            kept: dict[str, Array] = {}
            for number, stage in enumerate(self.stages):
                inputs = [values[source] for source in stage.sources]
                values[number] = stage.operation.compute(*inputs, *self.edges_into(number))
                if stage.name in keep:
                    kept[stage.name] = values[number]
                # What no later stage reads makes room.
                for source in {source for source in stage.sources if last_reader[source] == number}:
                    del values[source]
            parts.append((values[len(self.stages) - 1], kept))
        scores = np.concatenate([scores for scores, _ in parts])
        values_kept = {name: np.concatenate([kept[name] for _, kept in parts]) for name in keep}
        # numpy's argmax takes the first maximum, as torch's does.
        return Outcome(scores, scores.argmax(axis=1), values_kept)

    def prepare(self, rows: Array) -> Array:
        """Return rows as the integers that the network takes, in its shape.

        Numbers of a table or a signal are scaled as the training rows were. Pixels are taken as
        they are.

        Parameters
        ----------
        rows : array
            Vectors, windows (length, channels) or images, one for each row.
        """
        rows = np.asarray(rows)
        shape = self.input.shape
        if not rows.ndim or rows.size != len(rows) * self.input.size:
            raise ModelRejected(
                f"Rows must have {self.input.size} values ({'×'.join(map(str, shape))}), not "
                f"{'×'.join(map(str, rows.shape[1:])) or 'none'}"
            )
        rows = rows.reshape(len(rows), *shape)
        if self.meaning is None or not self.meaning.columns:
            return self.check_pixels(rows)
        if any(column.kind == "category" for column in self.meaning.columns):
            raise ModelRejected(
                "The network takes names as well as numbers, so that its rows must come from a "
                "table; read it with open_data"
            )
        return self.meaning.scaled(rows.astype(np.float64), self.input.bits)

    def save(self, path: str | Path) -> None:
        """Write the network to a file (``.sbnn``), whole or not at all."""
        from sbnn_hw.netlist.file import save

        save(self, path)

    def accuracy(self, pixels: Array, labels: Array) -> float:
        """Return the share of images put in the right class."""
        return float((self.compute(pixels).classes == labels).mean())
