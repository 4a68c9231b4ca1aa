"""Which models are measured, and what they say of themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.files import read_toml
from sbnn_hw.train.config import STREAMS

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = [
    "HARDWARE",
    "Facts",
    "find_models",
    "hardware_of",
    "hardware_options",
    "has_dense",
    "is_routed",
    "read_facts",
]

#: In the models' folder; a table for each that is built otherwise than `sbnn-hw generate` does.
HARDWARE = "hardware.toml"

#: Not of the hardware, but of what is measured of it, and beside it.
_ROUTED, _DENSE = "ecp5", "dense"

_CHOICES: dict[str, type] = {
    "input": str,
    "flatten": str,
    "serial": int,
    "share": int,
    "scores": bool,
    "levels_per_stage": int,
    _ROUTED: bool,
    _DENSE: bool,
}


@dataclass(frozen=True)
class Facts:
    """What a checkpoint says of itself."""

    data: str  # The data set that it was trained on.
    # Its topology by name, and the two values that its weights take.
    model: str
    domain: str
    seed: int | None  # Of its training.
    # What a dense network must share to be the same one with other weights.
    topology: dict[str, Any] = field(default_factory=dict)

    @property
    def streams(self) -> dict[str, Any]:
        """How its shortcuts carry integers: their bits, and what goes with them; empty if none."""
        return {key: self.topology[key] for key in STREAMS if key in self.topology}

    @property
    def dense(self) -> bool:
        """Whether its weights are −1 and +1, none of them left out."""
        return self.domain == "bnn"


def find_models(places: Sequence[Path]) -> list[Path]:
    """Return the checkpoints in folders and files, in order; their names must differ."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(p for p in place.glob("*.pt") if not p.name.endswith(".state.pt"))
            if not inside:
                raise UsageError(f"There are no checkpoints (.pt) in {place}; name another place")
            found += inside
        elif place.suffix != ".pt":
            raise UsageError(
                f"Models to measure are checkpoints (.pt), which name their data set, not "
                f"{str(place)!r}"
            )
        else:
            found.append(place)
    names = [path.stem for path in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"Two models are called {name}; measure one of them at a time")
    return found


def read_facts(path: Path) -> Facts:
    """Read what a checkpoint says of itself."""
    from sbnn_hw.train.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    data, seed = checkpoint.training.get("data"), checkpoint.training.get("seed")
    if not isinstance(data, str) or not data:
        raise ModelRejected(
            f"{path} does not name a data set that it was trained on; train it with `sbnn-hw train`"
        )
    config = checkpoint.config
    return Facts(
        data,
        config.name,
        config.domain,
        seed if isinstance(seed, int) else None,
        {
            "model": config.name,
            "shape": list(config.shape),
            "classes": config.classes,
            "width": config.width,
            "encoder": config.encoder,
            "thresholds": list(config.thresholds),
            "padding": config.padding,
            **({key: getattr(config, key) for key in STREAMS} if config.stream_bits else {}),
        },
    )


def hardware_of(path: Path) -> dict[str, Any]:
    """Return the choices of hardware for a model, from the file next to it, if there is one."""
    return {key: value for key, value in _chosen(path).items() if key not in (_ROUTED, _DENSE)}


def hardware_options(path: Path) -> "Options":
    """Return how a model becomes hardware."""
    from sbnn_hw.rtl_gen.lower import Options

    return Options(family="xc7", **hardware_of(path))


def is_routed(path: Path) -> bool:
    """Return whether a model is placed and routed; the file next to it may say that it is not."""
    return bool(_chosen(path).get(_ROUTED, True))


def has_dense(path: Path) -> bool:
    """Return whether a dense network is measured beside a model; the file may say that none is."""
    return bool(_chosen(path).get(_DENSE, True))


def _chosen(path: Path) -> dict[str, Any]:
    file = path.with_name(HARDWARE)
    if not file.is_file():
        return {}
    chosen = read_toml(file, "choices of hardware").get(path.stem, {})
    if not isinstance(chosen, dict):
        raise UsageError(f"{file}: {path.stem} must be a table, not {chosen!r}")
    for key, value in chosen.items():
        if key not in _CHOICES or type(value) is not _CHOICES[key]:
            raise UsageError(
                f"{file}: {path.stem} may choose {', '.join(_CHOICES)}, not {key} = {value!r}"
            )
    return chosen
