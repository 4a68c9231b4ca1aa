"""Sparse binary neural networks on FPGAs: train, fold exactly, generate, verify, build.

The names below are loaded on first use: importing this package imports neither torch nor Amaranth.
Training is in :mod:`sbnn_hw.train`.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Answers": "boards.driver",
    "DataOptions": "data.options",
    "Dataset": "datasets",
    "Link": "boards.driver",
    "Network": "netlist",
    "Outcome": "netlist",
    "OwnData": "data.own",
    "Report": "report",
    "SbnnError": "errors",
    "build": "api",
    "from_arrays": "data.own",
    "open_board": "boards.driver",
    "open_data": "data.find",
    "open_network": "models",
    "read_images": "images",
    "simulate_board": "api",
}

__all__ = ["__version__", "train", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name == "train":
        return importlib.import_module(f"{__name__}.train")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
