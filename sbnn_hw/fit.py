"""Does it fit? Asked before anything takes long, and answered with numbers and a way out."""

from typing import Any

from sbnn_hw import bops
from sbnn_hw.boards.table import BOARDS, Board, Part
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Network

__all__ = ["SHELL", "check_fit"]

#: Tables of a board's shell beside the network: packets, line, memories' addresses. Measured with
#: Yosys on the shipped models, rounded up; the network's inputs only add registers.
SHELL = {"xc7": 400, "ecp5": 800, "ice40": 800}

#: Tables of the AXI4-Stream face of a part without a board.
_FACE = 40


def check_fit(
    network: Network,
    target: Board | Part,
    description: dict[str, Any] | None = None,
    *,
    force: bool = False,
) -> dict[str, int]:
    """Make sure that a network fits; return the tables of its core, its shell, and in all.

    Parameters
    ----------
    network : Network
        What shall be built.
    target : Board or Part
        For what; a part whose capacity is not known takes anything.
    description : dict, optional
        Of the generated design, whose tables are counted; without it they are estimated.
    force : bool
        Do not refuse.
    """
    core = _tables(network, target.family, description)
    shell = SHELL[target.family] if isinstance(target, Board) else _FACE
    fit = {"core": core, "shell": shell, "luts": core + shell}
    capacity = target.capacity
    if capacity is None or force or fit["luts"] <= capacity.luts:
        return fit
    kind = "estimated" if description is None else "counted"
    raise ModelRejected(
        f"The network needs {fit['luts']:,} of {capacity.luts:,} LUTs on {target.name} "
        f"({kind}: {core:,} for itself, {shell:,} for the shell); "
        f"{_way_out(network, target, core)}, or go on with --force"
    )


def _tables(network: Network, family: str, description: dict[str, Any] | None = None) -> int:
    if description is not None:
        return sum(int(stage["tables"]) for stage in description["stages"])
    from sbnn_hw.rtl_gen.estimate import estimate

    return estimate(network, family).luts


def _way_out(network: Network, target: Board | Part, core: int) -> str:
    """Name the boards that have room, and how sparse the network must be to fit here."""
    families = {board.family for board in BOARDS.values()}
    needs = {family: _tables(network, family) + SHELL[family] for family in families}
    boards = [
        board.name for board in BOARDS.values() if needs[board.family] <= board.capacity.luts
    ]
    assert target.capacity is not None
    room = (target.capacity.luts - SHELL[target.family]) / core
    counts = bops.count(network)
    ones = counts.total("ones") * room
    sparsity = 1 - ones / counts.total("weights")
    found = f"it fits {', '.join(boards)}" if boards else "no board of `sbnn-hw boards` has room"
    # Tables grow a little slower than connections; rounding down is on the safe side.
    return (
        f"{found}; here a network of this shape fits from about {sparsity:.1%} sparsity "
        f"({int(ones):,} ones)"
    )
