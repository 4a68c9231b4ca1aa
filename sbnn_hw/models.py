"""Open what ``--model`` names: a checkpoint, which is folded, or a netlist."""

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


def open_network(path: Path) -> Network:
    """Return the integer network of a checkpoint (.pt) or a netlist (.sbnn)."""
    if path.suffix == ".sbnn":
        return netlist.load(path)
    if path.suffix == ".pt":
        require_torch()
        from sbnn_hw.train.fold import fold_checkpoint

        return fold_checkpoint(path).network
    raise UsageError(f"A model must be a checkpoint (.pt) or a netlist (.sbnn), not {str(path)!r}")
