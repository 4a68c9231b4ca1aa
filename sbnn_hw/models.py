"""Open what ``--model`` names: a checkpoint, which is folded, a netlist, or ONNX."""

import importlib.util
from pathlib import Path

from sbnn_hw import netlist
from sbnn_hw.errors import ToolMissing, UsageError
from sbnn_hw.netlist import Network

__all__ = ["open_network", "require_torch"]


def require_torch() -> None:
    """Make sure that torch is there before something needs it."""
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing(
            "Checkpoints and training need PyTorch (pip install 'sbnn-hw[train]'); netlists "
            "(.sbnn) do not"
        )


def open_network(path: str | Path, pixels: str | None = None) -> Network:
    """Return the integer network of a checkpoint, a netlist or an ONNX file.

    Parameters
    ----------
    path : str or Path
        A checkpoint (``.pt``), which is folded, a netlist (``.sbnn`` or ``.json``), or ONNX
        (``.onnx``).
    pixels : str, optional
        How pixels are fed to an ONNX graph that does not tell itself: ``signed``, ``unit``, ``raw``
        or ``fixed``.
    """
    path = Path(path)
    if pixels is not None and path.suffix.lower() != ".onnx":
        raise UsageError(f"Only ONNX files (.onnx) need --pixels, not {str(path)!r}")
    if path.suffix.lower() == ".sbnn":
        return netlist.load(path)
    if path.suffix.lower() == ".json":
        from sbnn_hw.netlist.view import load_view

        return load_view(path)
    if path.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.importer import import_network

        return import_network(path, pixels=pixels).network
    if path.suffix.lower() == ".pt":
        require_torch()
        from sbnn_hw.train.fold import fold_checkpoint

        return fold_checkpoint(path).network
    raise UsageError(
        f"A model must be a checkpoint (.pt), a netlist (.sbnn or .json) or an ONNX file (.onnx), "
        f"not {str(path)!r}"
    )
