"""Generate a design into a folder, with the regression suite beside it."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from sbnn_hw import netlist
from sbnn_hw.data.input_format import input_files
from sbnn_hw.design import Design
from sbnn_hw.errors import ToolMissing
from sbnn_hw.files import check_writable, write_text
from sbnn_hw.hardware import AGREEMENT, AXI, DESCRIPTION, NETLIST, VERILOG, Folder
from sbnn_hw.images import random_images
from sbnn_hw.ip import files
from sbnn_hw.ip.component import component_xml
from sbnn_hw.ip.core import CoreOptions, IpDescription
from sbnn_hw.ip.texts import fusesoc_core, litex_module, readme, verilog_instance, vhdl_instance
from sbnn_hw.netlist import Network

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = ["SUITE", "generate_design", "require_amaranth"]

#: Images in the regression suite beside a design.
SUITE = 50


def require_amaranth() -> None:
    """Make sure that Amaranth is there before something needs it."""
    if importlib.util.find_spec("amaranth") is None:
        raise ToolMissing("Generating hardware needs Amaranth (pip install 'sbnn-hw[flow]')")


def generate_design(
    network: Network,
    folder: str | Path,
    options: "Options",
    images: npt.NDArray[Any] | None = None,
    core: CoreOptions | None = None,
) -> Design:
    """Generate a design into a folder, with its regression suite; return what is known of it.

    The folder is made if it is not there. The suite's vectors are the first of the images, or
    random ones if there are none. How raw values become the network's integers is written too, and
    with ``core`` the folder of an IP core.
    """
    folder = Path(folder)
    check_writable(folder / VERILOG)
    require_amaranth()
    from sbnn_hw.rtl_gen.design import generate, generate_axi
    from sbnn_hw.sim.suite import write_suite

    vectors = random_images(network, SUITE) if images is None else images[:SUITE]
    made = generate(network, options)
    face = generate_axi(made.design)
    # The description comes last, with the suite: where it is, all the rest is.
    for name in (DESCRIPTION, AGREEMENT, *(f"{files.FOLDER}/{name}" for name in files.FILES)):
        Folder(folder).remove(name)
    netlist.save(network, folder / NETLIST)
    Folder(folder).write(AXI, face)
    for name, text in input_files(network).items():
        Folder(folder).write(name, text)
    if core is not None:
        _write_core(folder / files.FOLDER, core.describe(made.design), made.verilog)
    write_suite(folder, network, made.verilog, made.design, vectors)
    return made.design


def _write_core(folder: Path, core: IpDescription, verilog: str) -> None:
    """Write the folder of an IP core, complete by itself."""
    from sbnn_hw.rtl_gen.ip_core import generate_core
    from sbnn_hw.rtl_gen.verilog import rename_top
    from sbnn_hw.sim.library import primitives

    texts = {
        files.NETWORK: rename_top(verilog, core.network),
        files.WRAPPER: generate_core(core),
        files.PRIMITIVES: primitives(),
        files.VERILOG: verilog_instance(core),
        files.VHDL: vhdl_instance(core),
        files.README: readme(core),
        files.LITEX: litex_module(core),
        files.FUSESOC: fusesoc_core(core),
        files.COMPONENT: component_xml(core),
    }
    for name in files.FILES:
        write_text(folder / name, texts[name])
