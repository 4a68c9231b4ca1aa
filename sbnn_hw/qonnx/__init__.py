"""Networks from elsewhere and for elsewhere: ONNX with QONNX's operators. The only user of onnx."""

import importlib
from typing import Any

_HOME = {"Imported": "importer", "export_network": "export", "import_network": "importer"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
