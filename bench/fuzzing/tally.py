"""What a run has shown so far, kept in a file so that a stopped run goes on."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pages import table

from fuzzing.cases import Case, Result
from fuzzing.features import FEATURES
from sbnn_hw.files import write_text

__all__ = ["Tally"]

#: Cases that a seed has.
_EACH = 10**9


@dataclass
class Tally:
    """Cases that a run has been through, and what they showed."""

    seed: int
    #: Of the code that is tested.
    code: str
    cases: int = 0
    cpu_seconds: float = 0.0
    networks: Counter[str] = field(default_factory=Counter)
    layers: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    #: What differed, by the case.
    wrong: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, seed: int | None, code: str) -> "Tally":
        """Return the tally of a file, or where there is none a new one."""
        if not path.exists():
            return cls(seed or 0, code)
        text: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if text["code"] != code or seed not in (None, text["seed"]):
            what = "other code" if text["code"] != code else f"seed {text['seed']}"
            raise SystemExit(f"{path} holds a run of {what}; remove it, or name another --state")
        return cls.of(text)

    @classmethod
    def of(cls, text: dict[str, Any]) -> "Tally":
        """Return the tally that plain values tell."""
        counted = ("networks", "layers", "ways", "features")
        return cls(**text | {name: Counter(text[name]) for name in counted})

    def save(self, path: Path) -> None:
        """Write the tally, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n")

    def next_case(self) -> Case:
        """Return the case that comes next."""
        return Case(self.seed * _EACH + self.cases)

    def add(self, case: Case, result: Result, seconds: float) -> None:
        """Count a case."""
        self.cases += 1
        self.cpu_seconds += seconds
        self.networks[result.kind] += 1
        self.layers += result.layers
        self.ways += result.ways
        self.features.update(result.features)
        if result.wrong:
            self.wrong[str(case.seed)] = result.wrong

    @property
    def rate(self) -> float:
        """Layers for each second of a core, without what Verilator and compilers take."""
        return self.layers.total() / max(self.cpu_seconds, 1e-9)

    @property
    def missed(self) -> list[str]:
        """Features that no network had."""
        return [name for name in FEATURES if not self.features[name]]

    def tables(self) -> dict[str, str]:
        """Return the tables in Markdown, by their marks on the page."""
        verilated = sum(n for way, n in self.ways.items() if way.startswith("Verilator"))
        total = (
            f"**{self.layers.total():,} layers** of {self.cases:,} random networks, compared in "
            f"{self.ways.total():,} ways, {verilated:,} of them\nin Verilator: "
            f"**{len(self.wrong):,} mismatches**. Compilers and Verilator apart, a core does "
            f"{self.rate:.0f} layers a second.\n"
        )
        lanes = sorted((n for n in self.features if n.endswith(" lanes")), key=_number)
        names = [*FEATURES, *lanes]
        return {
            "bench/fuzz.py: total": total,
            "bench/fuzz.py: layers": _counts("layer", "random ones", self.layers),
            "bench/fuzz.py: ways": _counts("compared with the netlist", "times", self.ways),
            "bench/fuzz.py: features": table(
                ("feature", "networks") * 2,
                _two_columns([(_lane(name), f"{self.features[name]:,}") for name in names]),
            ),
        }


def _lane(name: str) -> str:
    return "1 lane" if name == "1 lanes" else name


def _number(lanes: str) -> int:
    return int(lanes.split()[0])


def _counts(head: str, of: str, counter: Counter[str]) -> str:
    rows = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    return table((head, of), [(name, f"{count:,}") for name, count in rows])


def _two_columns(rows: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    half = -(-len(rows) // 2)
    right = [*rows[half:], *[("", "")] * (2 * half - len(rows))]
    return [(*a, *b) for a, b in zip(rows[:half], right, strict=True)]
