"""The space of a search: read from a small TOML file, validated, turned into training runs."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from sbnn_hw.data.options import DataOptions
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.files import read_toml
from sbnn_hw.train.catalogue import BACKBONES, find_residual, find_topology, is_backbone
from sbnn_hw.train.config import METHODS, STREAMS, TrainConfig

__all__ = ["SHIPPED", "SPACES", "Choices", "Range", "Space", "Suggest", "load_space", "make_config"]

SHIPPED = Path(__file__).with_name("space.toml")
#: Other spaces of this package, by name.
SPACES = {name: SHIPPED.with_name(f"{name}.toml") for name in ("pixels", "tables", "residual")}

#: Thresholds of bytes that a thermometer may have.
_MOST_LEVELS = 16
#: Hidden layers at most, so that a slip of the pen does not fill the memory.
_MOST_LAYERS = 16

_NUMBERS: dict[str, tuple[type, float, float]] = {
    "depth": (int, 1, _MOST_LAYERS),
    "width": (int, 1, 65_536),
    "level": (int, 1, 255),
    "levels": (int, 1, _MOST_LEVELS),
    "luts": (int, 1, 10**7),
    "fan_in": (int, 1, 10**6),
    "score_fan_in": (int, 1, 10**6),
    "sparsity": (float, 0, 0.999999),
}
_ENCODERS = ("threshold", "thermometer", "learned", "quantile", "learned_quantile", "integer")
_TEXTS = {"encoder": _ENCODERS, "method": METHODS}
_TABLES = {
    "network": ("model", "depth", "width", "encoder", "level", "levels"),
    "sparsity": ("method", "luts", "fan_in", "score_fan_in", "sparsity"),
}
#: What the command, or the rest of the space, decides; files are not searched over either.
_NOT_HERE = {
    *("model", "data", "encoder", "thresholds", "ec", "method", "luts", "fan_in", "epochs"),
    *(
        "validation",
        "validation_seed",
        "measure_from",
        "threads",
        "workers",
        "device",
        "start",
        "teacher",
        "width",
    ),
    # Data are read once.
    *(field.name for field in fields(DataOptions)),
}
_DEFAULTS = {field.name: field.default for field in fields(TrainConfig)}
_TRAINING = {
    field.name: field.type
    for field in fields(TrainConfig)
    if field.name not in _NOT_HERE and _DEFAULTS[field.name] is not MISSING
}


@dataclass(frozen=True)
class Range:
    """Any number between two, both included; ``log`` tries ratios evenly."""

    low: int | float
    high: int | float
    log: bool = False


@dataclass(frozen=True)
class Choices:
    """One of several values."""

    values: tuple[bool | int | float | str, ...]


Entry = Range | Choices | bool | int | float | str


class Suggest(Protocol):
    """Whoever picks values: a name and what it may be, and back comes one of them."""

    def __call__(self, name: str, entry: Range | Choices) -> Any: ...


@dataclass(frozen=True)
class Space:
    """What is searched over, by name."""

    entries: Mapping[str, Entry]

    def plain(self) -> dict[str, Any]:
        """Return plain values, the same for the same space."""
        return {name: _plain(entry) for name, entry in sorted(self.entries.items())}


def _plain(entry: Entry) -> Any:
    if isinstance(entry, Range):
        return {"low": entry.low, "high": entry.high, "log": entry.log}
    return {"choices": list(entry.values)} if isinstance(entry, Choices) else entry


# Reading


def load_space(path: Path = SHIPPED) -> Space:
    """Read a space; what is wrong in it is told by name. Nothing in the file is executed."""
    content = read_toml(path, "a search space")
    known = (*_TABLES, "training")
    entries: dict[str, Entry] = {}
    for table, values in content.items():
        if table not in known or not isinstance(values, dict):
            raise UsageError(f"{path} must have the tables {', '.join(known)}, not {table!r}")
        names = _TABLES.get(table, tuple(_TRAINING))
        for name, value in values.items():
            if name not in names:
                raise UsageError(
                    f"{path}: [{table}] may have {', '.join(sorted(names))}, not {name!r}"
                )
            entries[name] = _entry(f"{path}: {name}", name, value)
    space = Space(entries)
    _check_complete(space, path)
    return space


def _entry(where: str, name: str, value: Any) -> Entry:
    if not isinstance(value, dict):
        return _value(where, name, value)
    if value.keys() == {"choices"}:
        chosen = value["choices"]
        if not isinstance(chosen, list) or not chosen:
            raise UsageError(f"{where} must list one choice or more, not {chosen!r}")
        values = tuple(_value(where, name, each) for each in chosen)
        if len(set(values)) != len(values):
            raise UsageError(f"{where} must list different choices, not {chosen!r}")
        return Choices(values)
    if not {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
        raise UsageError(
            f"{where} must be a value, {{ low = …, high = … }} (and log = true), or "
            f"{{ choices = […] }}, not {value!r}"
        )
    low, high = (_value(where, name, value[key]) for key in ("low", "high"))
    log = value.get("log", False)
    if isinstance(low, str | bool) or isinstance(high, str | bool):
        raise UsageError(f"{where} must have numbers as low and high, not {low!r} and {high!r}")
    if low > high:
        raise UsageError(f"{where} must have low up to high, not {low!r} and {high!r}")
    if not isinstance(log, bool) or (log and low <= 0):
        raise UsageError(f"{where} must have log = true only above zero, not from {low!r}")
    return Range(low, high, log)


def _value(where: str, name: str, value: Any) -> bool | int | float | str:
    """Return a value of the right kind; an int may stand where a float is expected."""
    if name in _TEXTS:
        if value not in _TEXTS[name]:
            raise UsageError(f"{where} must be one of {', '.join(_TEXTS[name])}, not {value!r}")
        return str(value)
    if name == "model":
        return _network(where, value)
    if name in _NUMBERS:
        kind, least, most = _NUMBERS[name]
        number = _number(where, value, kind)
        if not least <= number <= most:
            raise UsageError(f"{where} must be between {least} and {most}, not {value!r}")
        return number
    default = _DEFAULTS[name]
    if isinstance(default, bool | str):
        if type(value) is not type(default):
            kind_name = "true or false" if isinstance(default, bool) else "a text"
            raise UsageError(f"{where} must be {kind_name}, not {value!r}")
        checked: bool | int | float | str = value
    else:
        checked = _number(where, value, float if isinstance(default, float) else int)
    # The trainer's own limits; some hold only together with others, which trials will tell.
    options: dict[str, Any] = {"model": "mlp:64", "data": "digits", "method": "none"}
    if name in STREAMS:
        options |= {"model": "resnet:16x1", "stream_bits": 8}
    try:
        TrainConfig(**options | {name: checked}).model_config((28, 28, 1), 10)
    except ModelRejected as error:
        raise UsageError(f"{where}: {error}") from None
    return checked


def _network(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where} must be text, not {value!r}")
    try:
        if value not in BACKBONES and find_residual(value) is None:
            find_topology(value)
    except ModelRejected as error:
        raise UsageError(f"{where}: {error}") from None
    return value


def _number(where: str, value: Any, kind: type) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where} must be a number, not {value!r}")
    if kind is int and not isinstance(value, int):
        raise UsageError(f"{where} must be a whole number, not {value!r}")
    if not math.isfinite(value):
        raise UsageError(f"{where} must be finite, not {value!r}")
    return float(value) if kind is float else value


def _possible(entry: Entry | None) -> tuple[Any, ...]:
    if entry is None:
        return ()
    return entry.values if isinstance(entry, Choices) else (entry,)


def _check_complete(space: Space, path: Path) -> None:
    """Refuse a space in which some trial would have nothing to go by."""
    entries = space.entries
    needs: list[tuple[str, str]] = [("method", "")]
    for name in ("depth", "width"):
        if "model" not in entries:
            needs.append((name, ", or model"))
        elif name in entries:
            raise UsageError(
                f"{path} must not have both model and {name}: the model already sets it"
            )
    methods = _possible(entries.get("method"))
    if "luts" in methods:
        needs.append(("luts", " for the method luts"))
    if {"topk", "penalty"} & set(methods):
        needs.append(("sparsity", " for the methods topk and penalty"))
    if {"thermometer", "learned"} & set(_possible(entries.get("encoder"))):
        needs.append(("levels", " for the encoders thermometer and learned"))
    for name, why in needs:
        if name not in entries:
            raise UsageError(f"{path} must say {name}{why}")
    if "penalty" in methods and "signed" in _possible(entries.get("domain", "learned")):
        raise UsageError(
            f"{path} must not have both the method penalty and the domain signed: the penalty is "
            f"not defined for signed taps"
        )
    _check_residual(entries, path)
    if "real" in _possible(entries.get("domain")):
        raise UsageError(f"{path} must not have the domain real: no hardware can be made from it")


def _check_residual(entries: Mapping[str, Entry], path: Path) -> None:
    """Refuse residual networks without integers, beside others, or with a budget of tables."""
    models = _possible(entries.get("model"))
    residual = [model for model in models if is_backbone(model)]
    if not residual:
        for name in STREAMS:
            if name in entries:
                raise UsageError(
                    f'{path} must have {name} only with residual networks (model = "resnet:…")'
                )
        return
    if len(residual) != len(models):
        raise UsageError(
            f"{path} must not have both residual networks and others as model: their options differ"
        )
    bits = entries.get("stream_bits", 0)
    if 0 in _possible(bits) or (isinstance(bits, Range) and bits.low == 0):
        raise UsageError(
            f"{path} must say stream_bits, above 0, for {residual[0]}: no hardware can be made "
            f"from real-valued shortcuts"
        )
    if "luts" in _possible(entries.get("method")):
        raise UsageError(
            f"{path} must not have the method luts for {residual[0]}: a budget of tables is not "
            f"known for residual networks; use topk"
        )
    for name in ("encoder", "level", "levels"):
        if name in entries:
            raise UsageError(
                f"{path} must not have {name} for {residual[0]}: its first layer reads pixels"
            )


# Runs


def make_config(space: Space, suggest: Suggest, *, data: str, **fixed: Any) -> TrainConfig:
    """Return the training run that ``suggest`` picks; ``fixed`` is what the command decides."""
    entries = space.entries

    def pick(name: str, label: str = "") -> Any:
        entry = entries[name]
        return suggest(label or name, entry) if isinstance(entry, Range | Choices) else entry

    if "model" in entries:
        model = pick("model")
    else:
        widths = [pick("width", f"width_{layer}") for layer in range(1, pick("depth") + 1)]
        model = "mlp:" + ",".join(map(str, widths))
    options: dict[str, Any] = {"model": model, "data": data}
    if "encoder" in entries:
        options["encoder"] = encoder = pick("encoder")
        if encoder in ("thermometer", "learned"):
            count = pick("levels")
            # Multiples of eight look at five bits of a pixel: half a table each.
            steps = range(1, count + 1)
            options["thresholds"] = tuple(8 * round(32 * n / (count + 1)) for n in steps)
        elif encoder == "threshold" and "level" in entries:
            options["thresholds"] = (pick("level"),)
    options["method"] = method = pick("method")
    if method == "luts":
        options["luts"] = pick("luts")
        topology = find_topology(model)
        hidden = len(topology.convolutions) + len(topology.hidden)
        caps = [
            pick("fan_in", f"fan_in_{layer}") if "fan_in" in entries else 0
            for layer in range(1, hidden + 1)
        ]
        caps.append(pick("score_fan_in") if "score_fan_in" in entries else 0)
        options["fan_in"] = tuple(caps) if any(caps) else ()
    elif method != "none":
        # Rounded as `sbnn-hw train --sparsity` does.
        options["ec"] = round(1 - pick("sparsity"), 12)
    domain = pick("domain") if "domain" in entries else _DEFAULTS["domain"]
    for name in entries:
        if name in _TRAINING and not (name == "xi_bits" and domain != "learned"):
            options[name] = domain if name == "domain" else pick(name)
    return TrainConfig(**options, **fixed)
