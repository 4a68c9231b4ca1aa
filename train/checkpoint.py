"""Checkpoints: what the forward pass used, as plain tensors; nothing in them can run.

A checkpoint stores each layer's binary weights packed eight to a byte, τ (and with a grid for ξ
the integers Ξ and k, since going through a float would lose the grid), the batch norms and the
configuration. The latent weights and the optimiser live in the training state beside it.
"""

import io
import math
import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected, UsageError, naming
from sbnn_hw.files import opened_model, write_atomically
from sbnn_hw.netlist.meaning import Meaning
from sbnn_hw.train.domains import LearnedOnGrid
from sbnn_hw.train.exact import check, has_integers
from sbnn_hw.train.layers import SparseBinaryLayer, SparseBinaryScores
from sbnn_hw.train.models import ModelConfig, build_model

__all__ = [
    "Checkpoint",
    "begin_from",
    "check_state",
    "load_checkpoint",
    "named_tensors",
    "read_tensors",
    "save_checkpoint",
    "used_values",
    "write_tensors",
]

FORMAT = "sbnn-hw checkpoint"
VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with its configuration, how it was trained and what it reached."""

    #: What the model is built from.
    config: ModelConfig
    #: The model of the chosen epoch, ready to evaluate.
    model: nn.Sequential
    #: The choices of the run.
    training: dict[str, Any] = field(default_factory=dict)
    #: The chosen ``epoch``, its accuracy on ``validation`` rows, ``ones`` among the ``weights``,
    #: and whether the sparsity or the budget was reached (``constraint_met``).
    metrics: dict[str, Any] = field(default_factory=dict)
    #: What the classes and columns of one's own data are called, and how they are scaled.
    meaning: Meaning | None = None


def _pack(bits: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(bits.cpu().numpy().astype(bool).ravel()))


def _unpack(packed: Tensor, shape: torch.Size) -> Tensor:
    bits = np.unpackbits(packed.numpy(), count=math.prod(shape))
    return torch.from_numpy(bits).view(shape).bool()


def _layers(model: nn.Module) -> dict[str, SparseBinaryLayer]:
    return {n: m for n, m in model.named_modules() if isinstance(m, SparseBinaryLayer)}


@torch.no_grad()
def used_values(model: nn.Module) -> dict[str, Tensor]:
    """Return what the forward pass of a model uses, small and complete, wherever the model is."""
    values = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
    for name, layer in _layers(model).items():
        signs = layer.signs()
        del values[f"{name}.weight"], values[f"{name}.cut"]
        values[f"{name}.ones"] = _pack(signs > 0)
        if layer.domain.signed:
            values[f"{name}.minus_ones"] = _pack(signs < 0)
        if isinstance(layer.domain, LearnedOnGrid):
            del values[f"{name}.domain.xi"]
            values[f"{name}.domain.xi_integer"] = torch.tensor(layer.domain.xi_integer)
            values[f"{name}.domain.xi_bits"] = torch.tensor(layer.domain.bits)
    return values


def save_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file (``.pt``).
    checkpoint : Checkpoint
        What to write; its model must be one with a name.
    """
    if checkpoint.config.is_own:
        raise UsageError(
            "Checkpoints are for models with a name, not for modules of your own; fold the model, "
            "and save its network (.sbnn)"
        )
    content = {
        "format": FORMAT,
        "version": VERSION,
        "config": checkpoint.config.to_dict(),
        "training": checkpoint.training,
        "metrics": checkpoint.metrics,
        "values": used_values(checkpoint.model),
    }
    if checkpoint.meaning is not None:
        content["meaning"] = checkpoint.meaning.to_dict()
    write_tensors(path, content)


class _Sink(io.RawIOBase):
    """Takes what torch writes, and keeps the reason why the disk took no more of it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise


def write_tensors(path: str | Path, content: dict[str, Any]) -> None:
    """Write a file with `torch.save`, whole or not at all."""

    def write(file: IO[bytes]) -> None:
        sink = _Sink(file)
        try:
            torch.save(content, sink)  # type: ignore[arg-type]
        except RuntimeError:
            # What torch raises at a write that failed tells of its own bookkeeping.
            if sink.error is not None:
                raise sink.error from None
            raise

    write_atomically(path, write)


def read_tensors(
    path: str | Path,
    kind: str,
    *,
    absent: str = "train one with `sbnn-hw train`",
    damaged: str = "train it again",
) -> dict[str, Any]:
    """Read a file that `torch.save` wrote, running nothing of it.

    ``kind`` is what the file should be. ``absent`` and ``damaged`` are the cures where there is no
    file, and where it is not what it should be.
    """
    with opened_model(path, kind, absent) as file:
        if _is_bomb(file):
            raise ModelRejected(
                f"{path} is not a {kind} (its content may be larger than the file); {damaged}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about old file formats, which are refused below
                content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a hostile or damaged file makes torch raise
            code = "unsupported global" in str(error).lower()
            reason = (
                "it carries code, which was not run" if code else "it is damaged, or something else"
            )
            raise ModelRejected(f"{path} is not a {kind} ({reason}); {damaged}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ModelRejected(f"{path} is not a {kind} (it holds {type(content).__name__})")
    return content


def _is_bomb(file: BinaryIO) -> bool:
    """Tell whether an archive may hold more than its own size.

    What torch writes is not compressed. An archive that cannot be looked into is not trusted: torch
    might read it all the same.
    """
    archived = file.read(4) == b"PK\3\4"
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except Exception:  # whatever a hostile or damaged archive makes it raise
        return archived
    finally:
        file.seek(0)
    inside = sum(member.file_size for member in members)
    packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    return archived and (packed or inside > os.fstat(file.fileno()).st_size)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint and make its model, ready to evaluate.

    Nothing in the file can run: it holds plain tensors and values.

    Parameters
    ----------
    path : str or Path
        The file (``.pt``).
    """
    content = read_tensors(path, "checkpoint")
    if content.get("format") != FORMAT:
        raise ModelRejected(
            f"{path} is not a checkpoint of sbnn-hw (its format is {content.get('format')!r}; "
            f"train one with `sbnn-hw train`)"
        )
    if content.get("version") != VERSION:
        raise ModelRejected(
            f"{path} has checkpoint version {content.get('version')!r}, but this sbnn-hw reads "
            f"{VERSION}; use the sbnn-hw that wrote it"
        )
    with naming(f"{path}: "):
        config = ModelConfig.from_dict(content.get("config"))
        # On the meta device nothing is allocated: the file's tensors must fit first.
        with torch.device("meta"):
            model = build_model(config)
        _fill(model, content.get("values"))
        meaning = Meaning.from_dict(content["meaning"]) if "meaning" in content else None
        if meaning is not None:
            meaning.check(config.shape, config.bits, config.classes)
    training, metrics = content.get("training"), content.get("metrics")
    return Checkpoint(
        config,
        model.eval(),
        training if isinstance(training, dict) else {},
        metrics if isinstance(metrics, dict) else {},
        meaning,
    )


def is_computed(name: str, value: Tensor) -> bool:
    """Tell whether a value is computed from others: integers, and what rounding made of scales."""
    return not value.is_floating_point() or name.endswith(".rounding")


@torch.no_grad()
def begin_from(model: nn.Module, path: str | Path) -> None:
    """Copy a checkpoint's values, but not those of the domain if it is another one.

    Integers, and what else is computed, stay as they are where the checkpoint has none.
    """
    source = load_checkpoint(path).model
    given, own = source.state_dict(), model.state_dict()
    same_domain = _domains(source) == _domains(model)
    for name, value in own.items():
        if (".domain." in name and not same_domain) or name.endswith(".cut"):
            given.pop(name, None)
        elif is_computed(name, value) and name not in given:
            continue
        elif name not in given or given[name].shape != value.shape:
            shape = tuple(given[name].shape) if name in given else "nothing"
            raise ModelRejected(
                f"{path} cannot be used for --start: for {name} it has {shape}, but the new model "
                f"has {tuple(value.shape)}; give a checkpoint of the same model and width"
            )
    model.load_state_dict({k: v for k, v in given.items() if k in own}, strict=False)


def _domains(model: nn.Module) -> list[tuple[str, type]]:
    return [(name, type(layer.domain)) for name, layer in _layers(model).items()]


def _fill(model: nn.Sequential, values: object) -> None:
    """Put a checkpoint's values into a model that has no storage yet."""
    state = named_tensors(values)
    for name, layer in _layers(model).items():
        shape = layer.weight.shape
        ones = _take_bits(state, f"{name}.ones", shape)
        latent = torch.where(ones, 1.0, -1.0)
        if layer.domain.signed:
            minus = _take_bits(state, f"{name}.minus_ones", shape)
            if (ones & minus).any():
                raise ModelRejected(f"layer {name} has weights that are both one and minus one")
            latent = ones.float() - minus.float()
        state[f"{name}.weight"] = latent
        # Signed taps are those of magnitude one, the others those at or above zero.
        state[f"{name}.cut"] = torch.full(layer.cut.shape, 0.5 if layer.domain.signed else 0.0)
        if isinstance(layer.domain, LearnedOnGrid):
            numerator = state.pop(f"{name}.domain.xi_integer", torch.tensor([]))
            bits = state.pop(f"{name}.domain.xi_bits", torch.tensor([]))
            if not all(x.dtype == torch.int64 and x.numel() == 1 for x in (numerator, bits)):
                raise ModelRejected(f"layer {name} lacks the integers of ξ")
            if int(bits) != layer.domain.bits or abs(int(numerator)) >= 1 << 24:
                raise ModelRejected(f"layer {name} has a ξ that is not on its grid")
            # Exact: the numerator has fewer bits than a float's significand.
            state[f"{name}.domain.xi"] = torch.tensor(int(numerator) / 2**layer.domain.bits)
    check_state(state, model.state_dict())
    model.load_state_dict(state, assign=True)
    if has_integers(model):
        check(model)
    for name, layer in _layers(model).items():
        if isinstance(layer, SparseBinaryScores):
            with naming(f"layer {name}: "):
                layer.check_scale()


def named_tensors(values: object) -> dict[str, Tensor]:
    """Return what a file holds as tensors by name, or refuse it."""
    plain = isinstance(values, Mapping) and all(
        isinstance(key, str)
        and isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        for key, value in values.items()
    )
    if not isinstance(values, Mapping) or not plain:
        raise ModelRejected("its values are not named tensors")
    # A tensor may claim to be larger than what the file holds of it: one number, a billion times.
    storages = [value.untyped_storage() for value in values.values()]
    held = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    if sum(value.numel() * value.element_size() for value in values.values()) > held:
        raise ModelRejected("its tensors are larger than the stored numbers")
    return dict(values)


def check_state(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse the first name, shape or type that is not what a model expects."""
    for key in sorted(expected.keys() | state.keys()):
        if key not in state:
            raise ModelRejected(f"it lacks {key}")
        if key not in expected:
            raise ModelRejected(f"it holds {key}, which the model does not have")
        if state[key].shape != expected[key].shape or state[key].dtype != expected[key].dtype:
            raise ModelRejected(
                f"{key} must be {tuple(expected[key].shape)} of {expected[key].dtype}, "
                f"not {tuple(state[key].shape)} of {state[key].dtype}"
            )


def _take_bits(state: dict[str, Tensor], key: str, shape: torch.Size) -> Tensor:
    packed = state.pop(key, None)
    if packed is None:
        raise ModelRejected(f"it lacks {key}")
    if packed.dtype != torch.uint8 or packed.shape != (-(-math.prod(shape) // 8),):
        raise ModelRejected(f"{key} must be {math.prod(shape)} packed bits")
    return _unpack(packed, shape)
