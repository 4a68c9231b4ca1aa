"""Does it fit? Asked before anything takes long, and answered with numbers and a way out."""

import math
from dataclasses import dataclass, replace
from typing import Any

from sbnn_hw import bops
from sbnn_hw.boards.table import BOARDS, Board, Part
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Encode, Network

__all__ = ["LARGEST", "Need", "check_fit", "check_size", "need"]

#: Connections up to which hardware is generated without being asked twice: a machine with 16 GB
#: has memory for it.
LARGEST = 750_000

#: Bytes and seconds that generating takes for each connection: measured on dense linear layers.
#: Convolutions take about half.
_BYTES, _SECONDS = 17_000, 0.0012

#: Tables and registers of a board's shell, without the network: packets, line, addresses. Measured
#: with Yosys on the shipped models, rounded up.
_SHELL = {"xc7": (600, 650), "ecp5": (900, 650), "ice40": (900, 650)}

#: The same of the AXI4-Stream face of a part without a board.
_FACE = (60, 60)

#: Bits of a memory block, as wide as a byte.
_BLOCK = {"xc7": 32_768, "ecp5": 16_384, "ice40": 4_096}

#: A cell of an iCE40 has one table and one register; about half the registers are not fed by a
#: table that has no other reader, and take a cell of their own.
_ALONE = {"ice40": 0.5}


@dataclass(frozen=True)
class Need:
    """What a design takes.

    Parameters
    ----------
    core, shell : int
        Tables of the network, and of what is around it.
    registers : int
        Of both; not known from a netlist alone.
    brams : int
        Memory blocks of the shell, which holds an image and two batches of results.
    luts : int
        Tables in all; on iCE40, cells, with those that hold a register alone.
    """

    core: int
    shell: int
    registers: int
    brams: int
    luts: int

    def fits(self, target: Board | Part) -> bool:
        """Whether there is room for it; a part of unknown size has room for all."""
        room = target.capacity
        return room is None or (
            self.luts <= room.luts
            and self.registers <= room.flip_flops
            and self.brams <= room.brams
        )


def need(network: Network, target: Board | Part, description: dict[str, Any] | None = None) -> Need:
    """Return what a network will take of a board or part.

    Parameters
    ----------
    network : Network
        What shall be built.
    target : Board or Part
        For what.
    description : dict, optional
        Of the generated design, whose tables are counted; without it they are estimated.
    """
    family = target.family
    shell, held = _SHELL[family] if isinstance(target, Board) else _FACE
    if description is None:
        from sbnn_hw.rtl_gen.estimate import estimate

        core, registers = estimate(network, family).luts, 0
    else:
        stages = description["stages"]
        core = sum(int(stage["tables"]) for stage in stages)
        registers = held + sum(int(stage["registers"]) for stage in stages)
        registers += _input_registers(network, description)
    alone = round(_ALONE.get(family, 0) * registers)
    brams = 0
    if isinstance(target, Board):
        values = network.input.size * -(-network.input.bits // 8)
        brams = 1 + -(-8 * values // _BLOCK[family])
    return Need(core, shell, registers, brams, core + shell + alone)


def _input_registers(network: Network, description: dict[str, Any]) -> int:
    """Return the bits of an input word that anything reads: the shell gathers it in registers."""
    stream = description["input"]
    bits = int(stream["value_bits"])
    first = network.stages[0].operation
    if isinstance(first, Encode):
        # Bits below the lowest one of any threshold decide nothing.
        common = math.gcd(*map(int, first.thresholds.ravel()))
        bits -= (common & -common).bit_length() - 1
    return int(stream["width"]) // int(stream["value_bits"]) * bits


def check_fit(
    network: Network,
    target: Board | Part,
    description: dict[str, Any] | None = None,
    *,
    force: bool = False,
) -> Need:
    """Make sure that a network fits; the parameters are those of :func:`need`."""
    found = need(network, target, description)
    room = target.capacity
    if room is None or force or found.fits(target):
        return found
    if found.luts > room.luts:
        kind = "logic cells" if target.family == "ice40" else "LUTs"
        what = f"{found.luts:,} of {room.luts:,} {kind}"
        share = room.luts / found.luts
    elif found.registers > room.flip_flops:
        what = f"{found.registers:,} of {room.flip_flops:,} flip-flops"
        share = room.flip_flops / found.registers
    else:
        raise ModelRejected(
            f"An image of the network needs {found.brams:,} of {room.brams:,} memory blocks on "
            f"{target.name}; build for a part (--part), and use its AXI4-Stream interface"
        )
    how = "estimated" if description is None else "counted"
    around = "shell" if isinstance(target, Board) else "AXI4-Stream face"
    raise ModelRejected(
        f"The network needs {what} on {target.name} ({how}, {found.shell:,} LUTs of it for the "
        f"{around}); {_way_out(network, target, found, share)}, or add --force to continue"
    )


def check_size(network: Network, *, force: bool = False) -> None:
    """Make sure that a network can be generated in reasonable memory and time, whatever it is for.

    Parameters
    ----------
    network : Network
        What shall be generated.
    force : bool
        Generate it all the same.
    """
    count = network.connections
    if force or count <= LARGEST:
        return
    minutes = max(1, round(count * _SECONDS / 60))
    raise ModelRejected(
        f"The network has {count:,} connections, and generating more than {LARGEST:,} takes a lot "
        f"of memory and time (here up to {count * _BYTES / 1e9:.1f} GB and {minutes} "
        f"minute{'s' if minutes > 1 else ''}); train it sparser, or add --force to continue"
    )


def _way_out(network: Network, target: Board | Part, found: Need, share: float) -> str:
    """Name the boards that have room, and how sparse the network must be to fit here."""
    boards = []
    for board in BOARDS.values():
        other = need(network, board)
        # Registers are counted for one family; in others there are about as many.
        alone = round(_ALONE.get(board.family, 0) * found.registers)
        other = replace(other, registers=found.registers, luts=other.luts + alone)
        if board.name != target.name and other.fits(board):
            boards.append(board.name)
    counts = bops.count(network)
    # What is around the neurons does not shrink with them; a little less is on the safe side.
    ones = int(counts.total("ones") * share * 0.95)
    sparsity = 1 - ones / counts.total("weights")
    words = (
        f"it would fit {', '.join(boards)}" if boards else "it fits no board of `sbnn-hw boards`"
    )
    return (
        f"{words}; on {target.name}, this shape fits from about {sparsity:.1%} sparsity "
        f"({ones:,} ones)"
    )
