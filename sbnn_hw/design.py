"""The description of a generated design, ``design.json``: what goes in and out, and what is inside.

Whoever makes a design tells here all that others need to know of it. Simulation, boards and reports
read it, and none of them guesses from kinds of stages or names of signals.
"""

import json
import re
import types
from dataclasses import asdict, dataclass, is_dataclass
from math import prod
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from sbnn_hw.cost.cost import Cost
from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import FAMILIES

__all__ = [
    "SCHEMA",
    "Design",
    "InputStream",
    "OutputStream",
    "ProgramPort",
    "QueueDesign",
    "StageDesign",
    "load_design",
]

#: The version of the description's form.
SCHEMA = 5


@dataclass(frozen=True)
class InputStream:
    """What brings images into a design."""

    beats: int  # Words that make an image.
    # Words of an image that must have come before it begins, if another is in front of it; 0 if
    # none are held back.
    held: int
    width: int  # Bits of a word.
    value_bits: int  # Bits of each value of an image.
    shape: tuple[int, ...]  # Of an image.
    # Images that are taken before the one in front of them is done: so many come at no fixed pace.
    ahead: int = 0

    def __post_init__(self) -> None:
        if self.beats * self.width != prod(self.shape) * self.value_bits:
            raise ValueError("widths of the input do not add up")


@dataclass(frozen=True)
class OutputStream:
    """What brings results out of a design, a word each."""

    width: int  # Bits of a word.
    index_bits: int  # Bits of the class's number.
    score_bits: int  # Bits of each score, in two's complement; 0 if no scores are given.
    classes: int  # Number of classes.

    def __post_init__(self) -> None:
        if self.width != self.index_bits + self.classes * self.score_bits:
            raise ValueError("widths of the output do not add up")


@dataclass(frozen=True)
class ProgramPort:
    """What brings a program into a design, in place of the one that it was built with."""

    bytes: int  # Bytes that make a program.
    shape: str  # Digest of the shape that a program must have, in 16 hexadecimal digits.
    longer: int = 0  # Cycles that an image may take longer by another program.

    def __post_init__(self) -> None:
        if self.bytes < 1 or not re.fullmatch("[0-9a-f]{16}", self.shape):
            raise ValueError("the program does not add up")


@dataclass(frozen=True)
class QueueDesign:
    """Where what a stage reads from one source waits: for the others, or until there is time."""

    source: str  # The stage that it comes from; the network's input has an empty name.
    depth: int  # Values that it holds.
    bits: int  # Bits of a value.
    cost: Cost  # What it takes; the stage's cost has it too.
    # A signal of one bit, by its path below the top module: 1 once a value too many has come.
    overflow: str


@dataclass(frozen=True)
class StageDesign:
    """The hardware of a stage."""

    # Of the stage in the netlist; the kind is for people.
    name: str
    kind: str
    sources: tuple[str, ...]  # The stages that it reads; the network's input has an empty name.
    queues: tuple[QueueDesign, ...]  # One for each source that may have to wait.
    cores: tuple[str, ...]  # Its modules.
    connections: int  # Connections that are evaluated for each word that the stage hands on.
    counted: int  # Inputs that are added up for q, for each word too.
    cost: Cost  # What it takes.
    latency: int  # Cycles through its modules.
    words: int  # Words that it hands on for each image.
    width: int  # Bits of a word that it hands on; 0 if it has no modules.
    value_bits: int  # Bits of each value in the word.
    signed: bool  # Whether they are two's complement.
    # Numbers of the values in a word that no later stage reads: they may be left out.
    unread: tuple[int, ...]
    # Signals of one bit, by their paths below the top module. The stage hands on a word in each
    # cycle in which all of them are 1; the first tells whether it has one. There are none where
    # nothing can be seen.
    strobes: tuple[str, ...]
    # The signal of the word, if its values are those that the netlist has for the stage.
    payload: str | None
    # The number of the netlist's value at each place of the words of an image, where they come in
    # another order; their count where a place holds none. Empty if they come in order.
    order: tuple[int, ...] = ()
    # Where connections are evaluated in turn: signals of one bit, some for each place where that
    # happens. One connection is evaluated in each cycle in which all signals of a place are 1, and
    # connections and counted above are those of an image.
    issues: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not all(self.issues):
            raise ValueError(f"issues of stage {self.name} must name signals")
        if self.payload is None:
            return
        if not self.strobes or not self.value_bits or self.width % self.value_bits:
            raise ValueError(f"payload of stage {self.name} does not add up")
        if self.order and len(self.order) * self.value_bits != self.words * self.width:
            raise ValueError(f"order of stage {self.name} does not add up")
        if any(number >= self.width // self.value_bits for number in self.unread):
            raise ValueError(f"stage {self.name} has no such values as are unread")


@dataclass(frozen=True)
class Design:
    """What is known of a generated design."""

    network: str  # The digest of the netlist that it computes.
    options: dict[str, str | int]  # How it was made, as plain values.
    # Its streams.
    input: InputStream
    output: OutputStream
    latency: int  # Cycles from the first word of an image to its result, for an image by itself.
    interval: int  # Cycles from one result to the next.
    stages: tuple[StageDesign, ...]  # The stages of the netlist, in order.
    program: ProgramPort | None = None  # There is none where programs cannot be loaded.

    def __post_init__(self) -> None:
        if self.options.get("family") not in FAMILIES:
            raise ValueError("unknown family")
        levels = self.options.get("levels_per_stage")
        if not isinstance(levels, int) or levels < 1:
            raise ValueError(f"options.levels_per_stage must not be {levels!r:.80}")
        if len({stage.name for stage in self.stages}) != len(self.stages):
            raise ValueError("stages must have different names")

    @property
    def family(self) -> str:
        """The family that it was made for."""
        return str(self.options["family"])

    @property
    def levels_per_stage(self) -> int:
        """Tables in a row between two registers."""
        return int(self.options["levels_per_stage"])

    @property
    def cost(self) -> Cost:
        """What all stages take."""
        return sum((stage.cost for stage in self.stages), Cost())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """Return the text of ``design.json``."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def load_design(path: Path) -> Design:
    """Read ``design.json``; refuse another form, or one that is damaged, in a sentence."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(plain, dict) or "schema" not in plain:
            raise ValueError("schema is missing")
        schema = plain.pop("schema")
        if schema == SCHEMA:
            return _read(Design, plain, "")  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as error:
        raise ModelRejected(f"{path} is damaged ({error}); generate the design again") from None
    raise ModelRejected(
        f"The design in {path.parent} has form {schema!r}, but this release reads {SCHEMA}; "
        "generate it again"
    )


def _read(kind: Any, plain: Any, path: str) -> Any:
    """Return a value of a kind made of plain ones; all must be there, and nothing else."""
    if isinstance(kind, types.UnionType) and isinstance(plain, dict):
        kind = get_args(kind)[0]
    if is_dataclass(kind) and isinstance(plain, dict):
        inner = get_type_hints(kind)
        for key in [*inner, *plain]:
            if (key in inner) != (key in plain):
                wrong = "missing" if key in inner else "unknown"
                raise ValueError(f"{_below(path, key)} is {wrong}")
        values = {key: _read(inner[key], plain[key], _below(path, key)) for key in inner}
        return kind(**values)  # type: ignore[operator]
    if get_origin(kind) is tuple and isinstance(plain, list):
        return tuple(_read(get_args(kind)[0], each, path) for each in plain)
    if get_origin(kind) is dict and isinstance(plain, dict):
        return {key: _read(get_args(kind)[1], plain[key], _below(path, key)) for key in plain}
    if not _fits(kind, plain):
        raise ValueError(f"{path or 'it'} must not be {plain!r:.80}")
    return plain


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _fits(kind: Any, plain: Any) -> bool:
    if kind in (int, float):
        number = int if kind is int else (int, float)
        right = isinstance(plain, number) and not isinstance(plain, bool)
        return right and 0 <= plain < 2**63
    return isinstance(kind, type | types.UnionType) and isinstance(plain, kind)
