"""Does it fit? Asked before anything takes long, and answered with numbers and a way out."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from sbnn_hw import bops
from sbnn_hw.boards.table import BOARDS, Board, Part
from sbnn_hw.cost.cost import Cost
from sbnn_hw.design import Design
from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import Capacity
from sbnn_hw.netlist import INPUT, Network

__all__ = ["LARGEST", "Need", "check_fit", "check_size", "input_registers", "need", "need_of",
           "refusal"]

#: Connections up to which hardware is generated without being asked twice: a machine with 16 GB
#: has memory for it.
LARGEST = 750_000

#: Bytes and seconds that generating takes for each connection: measured on dense linear layers.
#: Convolutions take about half.
_BYTES, _SECONDS = 17_000, 0.0012

#: Tables and registers of the AXI4-Stream face of a part without a board.
_FACE = (60, 60)


@dataclass(frozen=True)
class Need:
    """What a design takes."""

    #: Tables of the network, and of what is around it.
    network: int
    shell: int
    #: Of both network and shell; not known from a netlist alone.
    registers: int
    #: Memory blocks: the network's, and those of the shell, which holds an image and two batches
    #: of results.
    brams: int
    #: Those of the shell alone.
    image_brams: int
    #: Tables in all; on iCE40, cells, with those that hold a register alone.
    luts: int

    def fits(self, target: Board | Part) -> bool:
        """Whether there is room for it; a part of unknown size has room for all."""
        room = target.capacity
        return room is None or (
            self.luts <= room.luts
            and self.registers <= room.flip_flops
            and self.brams <= room.brams
        )

    def shares(self, room: Capacity) -> tuple[float, float, float]:
        """Return the shares of a part's tables, registers and memory blocks that it takes."""
        pairs = (
            (self.luts, room.luts),
            (self.registers, room.flip_flops),
            (self.brams, room.brams),
        )
        # A part without memory has room for a design that needs none.
        tables, registers, memory = (n / of if of else float(n > 0) * 2 for n, of in pairs)
        return tables, registers, memory


def need(network: Network, target: Board | Part, design: Design | None = None) -> Need:
    """Return what a network will take of a board or part.

    Tables of the generated design are counted; without it they are estimated.
    """
    if design is not None:
        return need_of(network, target, design.cost, input_registers(network, design))
    from sbnn_hw.rtl_gen.estimate import estimate

    found = estimate(network, target.family.name)
    return need_of(network, target, Cost(tables=found.luts, blocks=found.blocks))


def need_of(network: Network, target: Board | Part, cost: Cost, word: int | None = None) -> Need:
    """Return what a network of a known cost will take of a board or part.

    The shell gathers an input word in registers, of which ``word`` bits are read. Without them
    registers are not counted: they are not known from a netlist alone.
    """
    family = target.family
    shell, held = family.shell if isinstance(target, Board) else _FACE
    registers = 0 if word is None else held + cost.registers + word
    alone = round(family.packing.alone * registers)
    image = 0
    if isinstance(target, Board):
        values = network.input.size * -(-network.input.bits // 8)
        image = 1 + -(-8 * values // family.memory.byte_bits)
    brams = image + math.ceil(cost.blocks)
    return Need(cost.tables, shell, registers, brams, image, cost.tables + shell + alone)


def input_registers(network: Network, design: Design) -> int:
    """Return the bits of an input word that anything reads: the shell gathers it in registers."""
    stream = design.input
    readers = [stage.operation for stage in network.stages if INPUT in stage.sources]
    bits = stream.value_bits - min(reader.ignored_bits for reader in readers)
    return stream.width // stream.value_bits * bits


def check_fit(
    network: Network,
    target: Board | Part,
    design: Design | None = None,
    *,
    force: bool = False,
) -> Need:
    """Make sure that a network fits; the parameters are those of :func:`need`."""
    found = need(network, target, design)
    if force or found.fits(target):
        return found
    raise ModelRejected(refusal(network, target, found, exact=design is not None))


def refusal(network: Network, target: Board | Part, found: Need, *, exact: bool) -> str:
    """Return the sentence that a network is too large, with a number and a way out.

    ``exact`` tells whether its tables were counted, and not just estimated.
    """
    room = target.capacity
    assert room is not None
    if found.luts > room.luts:
        what = f"{found.luts:,} of {room.luts:,} {target.family.packing.unit}"
        share = room.luts / found.luts
    elif found.registers > room.flip_flops:
        what = f"{found.registers:,} of {room.flip_flops:,} flip-flops"
        share = room.flip_flops / found.registers
    else:
        return (
            f"The network needs {found.brams:,} of {room.brams:,} memory blocks on {target.name}"
            f"{_kept(found, room.brams)}, or add --force to continue"
        )
    how = "counted" if exact else "estimated"
    around = "shell" if isinstance(target, Board) else "AXI4-Stream face"
    return (
        f"The network needs {what} on {target.name} ({how}, {found.shell:,} LUTs of it for the "
        f"{around}); {_way_out(network, target, found, share)}, or add --force to continue"
    )


def _kept(found: Need, room: int) -> str:
    """Say what the shell has of the memory blocks, and which way out there is."""
    if found.image_brams and found.brams - found.image_brams <= room:
        return (
            f", {found.image_brams:,} of them for an image and its results; build for a part "
            f"without a board (--part), whose AXI4-Stream face keeps no image"
        )
    return " for lines of its maps; build for a larger part, or train it for smaller maps"


def check_size(
    network: Network, *, force: bool = False, stages: Collection[str] | None = None
) -> None:
    """Make sure that a network can be generated in reasonable memory and time, for any target.

    Only the named ``stages`` count if they are given: those whose connections become wires.
    """
    count = network.connections
    if stages is not None:
        wired = [stage.operation for stage in network.stages if stage.name in stages]
        count = sum(operation.connections for operation in wired)
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
        alone = round(board.family.packing.alone * found.registers)
        other = replace(other, registers=found.registers, luts=other.luts + alone)
        if board.name != target.name and other.fits(board):
            boards.append(board.name)
    words = (
        f"it would fit {', '.join(boards)}" if boards else "it fits no board of `sbnn-hw boards`"
    )
    counts = bops.count(network)
    if counts.total("multiplications"):
        return (
            f"{words}; more sparsity does not shrink the arithmetic of its integers, so train it "
            f"with fewer channels, or with fewer bits (--stream-bits, --weight-bits)"
        )
    # What is around the neurons does not shrink with them; a little less is on the safe side.
    ones = int(counts.total("ones") * share * 0.95)
    sparsity = 1 - ones / counts.total("weights")
    return (
        f"{words}; on {target.name}, this shape fits from about {sparsity:.1%} sparsity "
        f"({ones:,} ones); train it so, or train a smaller one (--luts)"
    )
