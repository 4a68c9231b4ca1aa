"""Train sparse binary networks with PyTorch and fold them to integers.

The only package that imports torch. The names below are loaded on first use, so that importing
a neighbour that needs no torch does not pay for it.
"""

import importlib
from typing import Any

_HOME = {
    "BatchNorm": "norm",
    "Checkpoint": "checkpoint",
    "ColumnEncoder": "columns",
    "Folded": "fold",
    "InputEncoder": "layers",
    "LearnedEncoder": "layers",
    "ModelConfig": "models",
    "SignActivation": "layers",
    "SparseBinaryConv2d": "layers",
    "SparseBinaryLinear": "layers",
    "SparseBinaryScores": "layers",
    "SparsityPenalty": "sparsity",
    "TopK": "sparsity",
    "TrainConfig": "config",
    "build_model": "models",
    "fit": "fitting",
    "fold_checkpoint": "fold",
    "fold_model": "fold",
    "from_brevitas": "brevitas",
    "load_checkpoint": "checkpoint",
    "recompute_statistics": "norm",
    "save_checkpoint": "checkpoint",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
