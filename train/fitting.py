"""Train in one call: data and a model in, a checkpoint out. The loop is that of the command."""

import copy
import difflib
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sbnn_hw.data.find import find_data
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import OwnData
from sbnn_hw.datasets import Dataset
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.train.catalogue import OWN
from sbnn_hw.train.checkpoint import Checkpoint
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.defaults import (
    cap_of_scores,
    choose_defaults,
    choose_method,
    share_of_ones,
    tell,
)
from sbnn_hw.train.fold import check_modules
from sbnn_hw.train.layers import InputEncoder
from sbnn_hw.train.loop import train
from sbnn_hw.train.models import ModelConfig
from sbnn_hw.train.sparsity import layers_of

__all__ = ["fit"]

_CHOICES = {field.name for field in fields(TrainConfig)} - {"model", "data", "ec", "luts"}
_OF_DATA = {field.name for field in fields(DataOptions)}
#: What a model of one's own has decided already.
_OF_MODEL = (_CHOICES & {field.name for field in fields(ModelConfig)}) - {"init"}


def fit(
    model: str | nn.Sequential | None,
    data: OwnData | Dataset | str | Path,
    *,
    luts: int | None = None,
    sparsity: float | None = None,
    out: str | Path | None = None,
    replace_out: bool = False,
    data_root: str | Path | None = None,
    teacher: nn.Module | None = None,
    quiet: bool = False,
    **choices: Any,
) -> Checkpoint:
    """Train a model on data, within a budget of look-up tables or to a sparsity.

    The same data, choices and number of threads give the same weights as ``sbnn-hw train``.

    Parameters
    ----------
    model : str, nn.Sequential or None
        The name of a model (``sbnn-hw models`` lists them), such as ``"mlp:64,64"``; or layers of
        your own, from an :class:`InputEncoder` to the scores; or None, which chooses a model for
        data of your own. Layers of your own are trained as they are given, and hold the trained
        values when this returns. With a budget, their usual gradient ``clipped`` becomes
        ``identity``: a clipped gradient would stop at the large weights that a budget makes.
    data : OwnData, Dataset, str or Path
        What ``from_arrays`` or ``open_data`` returned, or what ``open_data`` takes.
    luts : int, optional
        The budget of look-up tables, of an FPGA whose tables have six inputs.
    sparsity : float, optional
        The share of weights that shall be zero, such as 0.95. It is reached by the paper's sparsity
        loss, or by ``method="topk"``. Without ``luts`` and ``sparsity``, data of your own get a
        budget that suits them, and known data sets none.
    out : str or Path, optional
        The checkpoint to write (``.pt``), with its log and the state of the run beside it. It is
        for models with a name. Without it, nothing is written.
    replace_out : bool
        Overwrite what is at ``out``; otherwise an existing file is refused.
    data_root : str or Path, optional
        The folder of the data sets that have names.
    teacher : nn.Module, optional
        A module from raw pixels to class scores, to distil from.
    quiet : bool
        Print no progress on the standard error stream.
    **choices
        Any other choice of a run, by the name of its option: ``epochs``, ``batch``, ``lr``,
        ``seed``, ``domain``, ``encoder``, … (:class:`TrainConfig` has them all).

    Returns
    -------
    Checkpoint
        The model of the best epoch, what it reached (``metrics``), and the names of its classes
        (``meaning``). :func:`fold_checkpoint` turns it into the integer network.

    Examples
    --------
    >>> from sbnn_hw import from_arrays
    >>> x = np.arange(400).reshape(200, 2) % 9
    >>> data = from_arrays(x, np.where(x[:, 0] > 4, "high", "low"))
    >>> trained = fit("mlp:8", data, sparsity=0.5, epochs=2, batch=16, quiet=True)
    >>> trained.meaning.classes
    ('high', 'low')
    """
    _check_names(choices)
    if luts is not None and sparsity is not None:
        raise UsageError("Give a budget (luts) or a sparsity, not both")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in choices.items()
    }
    source = _open(data, options, data_root)
    if luts is not None:
        options = {"method": "luts", "luts": luts} | options
    if sparsity is not None:
        options["ec"] = share_of_ones(sparsity)
    own: nn.Sequential | None = None
    if isinstance(model, nn.Module):
        own = _check_own(model, source, options)
        names = {layer.domain.name for layer in layers_of(own)}
        # What is not defined for signed taps is not defined for a model that has some.
        options |= {"model": OWN, "domain": "signed" if "signed" in names else min(names)}
    elif model is not None:
        options["model"] = model
    chosen = {}
    if isinstance(source, OwnData):
        chosen = choose_defaults(source, options)
    if own is not None:
        chosen = {name: value for name, value in chosen.items() if name not in _OF_MODEL}
        chosen |= _cap(own, {**chosen, **options})
    options |= chosen
    options |= choose_method(options)
    if "model" not in options:
        raise UsageError(f"Training on {source.name} needs a model, such as 'mlp:64,64'")
    if not quiet and isinstance(source, OwnData):
        print(f"data        {source.said}", file=sys.stderr)
        if chosen:
            print(f"chosen      {tell(chosen)}", file=sys.stderr)
    checkpoint = train(
        TrainConfig(data=source.name, **options),
        _check_out(out, own),
        data_root=data_root,
        replace=replace_out,
        teacher=teacher,
        data=source,
        model=own,
        talk=None if quiet else lambda text: print(text, file=sys.stderr),
        quiet=quiet,
    )
    if own is None:
        return checkpoint
    own.load_state_dict(checkpoint.model.state_dict())
    return replace(checkpoint, model=own.eval())


def _cap(model: nn.Sequential, options: dict[str, Any]) -> dict[str, Any]:
    """Return the caps on the fan-in of layers of one's own, if a budget needs some."""
    layers = layers_of(model)
    if options.get("method") != "luts" or "fan_in" in options:
        return {}
    most = cap_of_scores(options["luts"], len(layers[-1].weight))
    return {"fan_in": (*[0] * (len(layers) - 1), min(most, layers[-1].fan_in))}


def _check_names(choices: dict[str, Any]) -> None:
    for name in choices:
        if name not in _CHOICES:
            near = difflib.get_close_matches(name, _CHOICES, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UsageError(f"Training has no choice {name!r}{hint}")


def _open(
    data: OwnData | Dataset | str | Path, options: dict[str, Any], root: str | Path | None
) -> OwnData | Dataset:
    reading = {name: options[name] for name in options if name in _OF_DATA}
    if isinstance(data, str | Path):
        return find_data(str(data), DataOptions(**reading), root=root)
    if not isinstance(data, OwnData | Dataset):
        raise TypeError(
            f"Data must come from from_arrays or open_data, or be a place, not "
            f"{type(data).__name__}"
        )
    if reading:
        name = min(reading)
        raise UsageError(f"{data.name}: say {name} where the data are read, not to fit")
    return data


def _check_out(out: str | Path | None, own: nn.Sequential | None) -> Path | None:
    if out is None:
        return None
    if own is not None:
        raise UsageError(
            f"A checkpoint ({out}) is for models with a name, not for layers of your own; omit "
            f"out, and save the folded network (.sbnn)"
        )
    if Path(out).suffix != ".pt":
        raise UsageError(f"A checkpoint's name must end in .pt, not {str(out)!r}")
    return Path(out)


def _check_own(
    model: nn.Module, source: OwnData | Dataset, options: dict[str, Any]
) -> nn.Sequential:
    """Refuse, before the first step, what could not be trained on the data and folded."""
    for name in options:
        if name in _OF_MODEL:
            raise UsageError(f"Layers of your own have their {name} already; omit {name}")
    check_modules(model)
    assert isinstance(model, nn.Sequential)
    if not layers_of(model):
        raise ModelRejected("The model has no sparse binary layer; use those of sbnn_hw.train")
    most = (1 << source.bits) - 1
    encoder = next(module for module in model.modules() if isinstance(module, InputEncoder))
    if encoder.most != most:
        raise ModelRejected(
            f"The model's encoder takes values up to {encoder.most}, but those of {source.name} "
            f"go up to {most}; make it with most={most}"
        )
    height, width, channels = source.shape
    size = f"{height}×{width}×{channels}"
    try:
        with torch.no_grad():
            scores = copy.deepcopy(model).cpu().eval()(torch.zeros(2, channels, height, width))
    except (RuntimeError, ValueError, IndexError) as error:
        raise ModelRejected(
            f"The model does not take images of {size} ({str(error).splitlines()[0]})"
        ) from None
    if source.classes is not None and scores.shape != (2, source.classes):
        raise ModelRejected(
            f"The model gives {'×'.join(map(str, scores.shape[1:]))} scores for an image, but "
            f"{source.name} has {source.classes} classes"
        )
    return model
