"""What Python programs call that more than one room has a part in: build, and the built board.

``sbnn_hw`` itself has these names, and those of other modules (``sbnn_hw.__all__``).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sbnn_hw import flow
from sbnn_hw.boards.driver import Link
from sbnn_hw.boards.links import find_link
from sbnn_hw.boards.table import find_board, part_family
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import OwnData
from sbnn_hw.datasets import Dataset
from sbnn_hw.errors import UsageError
from sbnn_hw.flow.simulated import start_board
from sbnn_hw.planner import Wish
from sbnn_hw.report import Report
from sbnn_hw.sim.line import LinePort

__all__ = ["build", "simulate_board"]


def build(
    model: str | Path,
    board: str | Path | None = None,
    *,
    part: str | None = None,
    out: str | Path | None = None,
    data: OwnData | Dataset | str | Path | None = None,
    until: str | None = None,
    clock_mhz: float | None = None,
    link: str = "uart",
    energy: bool = False,
    force: bool = False,
    target_fps: float | None = None,
    target: str = "",
    form: str = "",
    lanes: int = 0,
    loadable: bool = False,
    plan: str | Path | None = None,
    data_root: str | Path | None = None,
    progress: Callable[[str, str], None] | None = None,
    **options: Any,
) -> Report:
    """Build a model for a board, as ``sbnn-hw build`` does, and return the report.

    The steps are netlist, Verilog, simulation, synthesis and bitstream. A step whose input is
    unchanged is not done again. The build stops if the simulated hardware differs from the network
    in a single bit.

    Parameters
    ----------
    model : str or Path
        A checkpoint (``.pt``), a netlist (``.sbnn``) or an ONNX file (``.onnx``).
    board : str or Path
        The name of a board (``sbnn-hw boards`` lists them), or a file of pins (``.toml``).
    part : str, optional
        In place of a board, an FPGA alone, such as ``"xc7a35ticsg324-1L"``.
    out : str or Path, optional
        The folder to write, otherwise ``build/MODEL-BOARD``. ``report.html`` is in it.
    data : OwnData, Dataset, str or Path, optional
        The data whose test rows are simulated: what ``from_arrays`` or ``open_data`` returned, or
        the place or name of some. Otherwise those that a checkpoint was trained on, or random
        images.
    until : str, optional
        The last step (``netlist``, ``rtl``, ``simulation``, ``synthesis`` or ``bitstream``);
        otherwise as far as the installed tools allow.
    clock_mhz : float, optional
        The clock; otherwise the board's own.
    link : str
        The line between the board and its host: ``uart`` or ``spi``.
    energy : bool
        Count toggles in simulation, and estimate the energy of an image from them.
    force : bool
        Go on even if the network is too large.
    target_fps : float, optional
        Images a second: the smallest hardware that is as fast is built.
    target : str
        ``smallest`` or ``fastest``; otherwise every connection is a wire if that fits, and an
        engine computes the network if it does not.
    form, lanes : str, int
        Only this form of hardware (``unrolled`` or ``gaps``), and the engine's lanes.
    loadable : bool
        An engine into which other networks can be loaded while the board runs.
    plan : str or Path, optional
        A plan that was made before, such as the ``plan.json`` of another build.
    data_root : str or Path, optional
        The folder of the data sets that have names.
    progress : callable, optional
        Called with the name of a step and a few words.
    **options
        Choices of the hardware, such as ``input="pixel"`` or ``scores=False``.

    Returns
    -------
    Report
        What was built and measured, such as ``accuracy``, ``luts`` and ``agreement``.
    """
    if (board is None) == (part is None):
        raise UsageError("A build is for a board, or for a part; name one of them")
    place = part_family(part) if part is not None else find_board(str(board))
    if clock_mhz is not None and not 0.1 <= clock_mhz <= 2000:
        raise UsageError(f"Clock must be between 0.1 and 2000 MHz, not {clock_mhz:g}")
    wish = Wish(fps=target_fps, end=target, form=form, lanes=lanes, loadable=loadable)
    if plan is not None and (wish != Wish() or options):
        raise UsageError("A plan that is given back has all options of the hardware; omit others")
    todo = flow.Plan(
        model=Path(model),
        target=place,
        out=flow.default_folder(Path(model), place) if out is None else Path(out),
        until=until,
        clock_hz=None if clock_mhz is None else round(clock_mhz * 1e6),
        energy=energy,
        force=force,
        data=_named(data),
        data_root=None if data_root is None else Path(data_root),
        data_options=DataOptions(),
        options=options,
        link=find_link(link),
        wish=wish,
        hardware=None if plan is None else Path(plan),
    )
    return flow.build(todo, progress)


def _named(data: OwnData | Dataset | str | Path | None) -> OwnData | str | None:
    """Return data that are read, or the name of others."""
    if data is None or isinstance(data, OwnData):
        return data
    return data.name if isinstance(data, Dataset) else str(data)


@contextmanager
def simulate_board(folder: str | Path, *, noise: float = 0.0, seed: int = 0) -> Iterator[Link]:
    """Simulate the board of a build, down to its serial line; use it in a ``with`` statement.

    The bytes are those of a real board, and so is the driver that sends and receives them.

    Parameters
    ----------
    folder : str or Path
        What ``build`` wrote, for a board, at least until ``rtl``.
    noise : float
        The probability that a bit on the line is flipped; damaged packets are sent again.
    seed : int
        Chooses the bits that are flipped.

    Yields
    ------
    Link
        The link to the board: ``classify`` asks it.
    """
    network, line = start_board(Path(folder), noise=noise, seed=seed)
    port = LinePort(line)
    try:
        board = Link(port, baud=1_000_000)
        board.check_network(network, str(folder))
        yield board
    finally:
        port.close()
