"""Programs for boards that were built to be loaded: which shape they have, and their bytes."""

from pathlib import Path

from sbnn_hw.boards.driver import Link
from sbnn_hw.design import Design, load_design
from sbnn_hw.engine import Shape, compile_program, fold
from sbnn_hw.errors import ModelRejected, SbnnError, UsageError
from sbnn_hw.hardware import DESCRIPTION, Folder
from sbnn_hw.netlist import Network

__all__ = ["BUILDS", "find_shape", "load_network", "program_file", "shape_of"]

#: Where builds are looked for.
BUILDS = Path("build")


def shape_of(folder: Path) -> Shape:
    """Return the shape that programs for the board of a build must have."""
    network, _, design = Folder(folder).load()
    if design.program is None:
        raise UsageError(
            f"The build in {folder} cannot be loaded with other networks; build it with --loadable"
        )
    form, lanes = str(design.options["form"]), int(design.options["lanes"])
    shape = fold(network, form=form, lanes=lanes, loadable=True).shape
    if shape.short_digest != design.program.shape:
        raise ModelRejected(
            f"The build in {folder} has the shape {design.program.shape}, but this release makes "
            f"{shape.short_digest} of its network; build it again"
        )
    return shape


def find_shape(board: Link, builds: Path | None = None) -> Shape:
    """Return the shape of a board: of the builds below a folder, the one that the board is of."""
    builds = BUILDS if builds is None else builds
    plan = board.require_program()
    for path in sorted(builds.glob(f"*/{DESCRIPTION}")):
        if _shape_in(path) == plan.shape:
            return shape_of(path.parent)
    raise UsageError(
        f"No build in {builds} has the board's shape ({plan.shape}); name the folder of its build "
        "(--build)"
    )


def _shape_in(path: Path) -> str | None:
    """Return the shape that a description tells of; None if it tells of none, or is damaged."""
    try:
        design: Design = load_design(path)
    except (SbnnError, OSError):
        return None
    return design.program.shape if design.program else None


def load_network(board: Link, network: Network, shape: Shape, name: str = "the network") -> int:
    """Put a network on a board of this shape; return the bytes of its program."""
    plan = board.require_program()
    if plan.shape != shape.short_digest:
        raise UsageError(
            f"The board has the shape {plan.shape}, but the build {shape.short_digest}; name the "
            "build that the board was made from (--build)"
        )
    program = compile_program(network, shape).to_bytes()
    board.load(network, program, name)
    return len(program)


def program_file(network: Network, shape: Shape) -> bytes:
    """Return the file that the C driver loads: digests of shape and network, then the program."""
    digests = bytes.fromhex(shape.short_digest + network.digest)
    return digests + compile_program(network, shape).to_bytes()
