"""The folder of a generated design: what `generate` writes, and `simulate` reads."""

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sbnn_hw import netlist
from sbnn_hw.errors import Disagreement, ModelRejected, OutputRefused, ToolMissing, UsageError
from sbnn_hw.files import check_writable, write_atomically
from sbnn_hw.netlist import Network

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options
    from sbnn_hw.sim.agreement import Agreement

__all__ = ["Folder", "generate_design", "random_images", "require_amaranth"]

NETLIST, VERILOG, AXI = "network.sbnn", "top.v", "top_axi.v"
DESCRIPTION, AGREEMENT = "design.json", "agreement.json"

#: Images in the regression suite beside a design.
SUITE = 50

#: Version of design.json that this release reads.
SCHEMA = 1


def require_amaranth() -> None:
    """Make sure that Amaranth is there before something needs it."""
    if importlib.util.find_spec("amaranth") is None:
        raise ToolMissing("Generating hardware needs Amaranth (pip install 'sbnn-hw[flow]')")


def random_images(network: Network, count: int, seed: int = 0) -> npt.NDArray[Any]:
    """Return made-up images: noise, with many pixels at the ends of their range."""
    rng = np.random.default_rng(seed)
    shape, most = (count, *network.input.shape), network.input.maximum
    noise = rng.integers(0, most + 1, shape)
    extreme = np.where(
        rng.random(shape) < rng.random((count, *(1 for _ in network.input.shape))), most, 0
    )
    pixels: npt.NDArray[Any] = np.where(rng.random(shape) < 0.5, extreme, noise)
    return pixels.astype(np.uint8 if network.input.bits <= 8 else np.int64)


@dataclass(frozen=True)
class Folder:
    """A generated design on disk."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    def load(self) -> tuple[Network, str, dict[str, Any]]:
        """Return the network, the Verilog text and its description."""
        if not (self.path / DESCRIPTION).is_file():
            raise UsageError(
                f"There is no design in {self.path} (make one with `sbnn-hw generate --out "
                f"{self.path}`)"
            )
        try:
            verilog = (self.path / VERILOG).read_text(encoding="utf-8")
            description = json.loads((self.path / DESCRIPTION).read_text(encoding="utf-8"))
            schema = description["schema"]
            if schema == SCHEMA:
                _check(description)
        except OSError as error:
            raise ModelRejected(
                f"The design in {self.path} cannot be read ({error.strerror}: {error.filename}); "
                "generate it again"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelRejected(
                f"{self.path / DESCRIPTION} is damaged ({error!r}); generate the design again"
            ) from None
        if schema != SCHEMA:
            raise ModelRejected(
                f"The design in {self.path} has form {schema!r}, but this release reads {SCHEMA}; "
                "generate it again"
            )
        if not (self.path / NETLIST).is_file():
            raise ModelRejected(f"There is no {NETLIST} in {self.path}; generate the design again")
        network = netlist.load(self.path / NETLIST)
        if description.get("network") != network.digest:
            raise ModelRejected(
                f"Netlist and Verilog in {self.path} belong to different networks; generate the "
                "design again"
            )
        return network, verilog, description

    def write(self, name: str, text: str) -> None:
        """Write a file of the design in one step."""
        write_atomically(self.path / name, lambda file: file.write(text.encode()))

    def remove(self, name: str) -> None:
        """Remove a file of the design, if it is there."""
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise OutputRefused(f"Cannot write {self.path / name}: {error.strerror}") from None

    def record(
        self,
        agreement: "Agreement",
        network: Network,
        description: dict[str, Any],
        verilog: str,
        images: str,
        **more: Any,
    ) -> dict[str, Any]:
        """Write the verdict of a simulation, and return it."""
        verdict = agreement.to_dict(network, description)
        verdict["images"] = images
        verdict["verilog"] = hashlib.sha256(verilog.encode()).hexdigest()
        verdict |= more
        self.write(AGREEMENT, json.dumps(verdict, indent=2) + "\n")
        return verdict

    def insist(self, agreement: "Agreement") -> None:
        """Fail, in one sentence, if a simulation showed anything but equality."""
        if not agreement.equal:
            where = f" (first: {agreement.first})" if agreement.first else ""
            raise Disagreement(
                f"The design in {self.path} does not compute what its network computes: "
                f"{', '.join(agreement.differences)}{where}; the verdict is in "
                f"{self.path / AGREEMENT}"
            )


def _check(description: dict[str, Any]) -> None:
    """Make sure that all is there that a simulation reads."""
    numbers = [description[key] for key in ("latency", "interval")]
    for stream, keys in {
        "input": ("beats", "width", "value_bits"),
        "output": ("width", "index_bits", "score_bits", "classes"),
    }.items():
        numbers += [description[stream][key] for key in keys]
    for stage in description["stages"]:
        numbers += [stage[key] for key in ("connections", "counted", "width")]
        for key in ("name", "kind", "cores", "unread", "visible"):
            stage[key]
    if description["options"]["family"] not in ("xc7", "ecp5", "ice40", "generic"):
        raise ValueError("unknown family")
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise TypeError("not a number")
    output = description["output"]
    if output["width"] != output["index_bits"] + output["classes"] * output["score_bits"]:
        raise ValueError("widths do not add up")


def generate_design(
    network: Network,
    folder: str | Path,
    options: "Options",
    images: npt.NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Generate a design into a folder, with its regression suite; return its description.

    Parameters
    ----------
    network : Network
        What the hardware shall compute.
    folder : str or Path
        Where to write; made if it is not there.
    options : Options
        Family, pipelining and so on.
    images : array, optional
        Vectors of the regression suite; made-up ones if there are none.
    """
    folder = Path(folder)
    check_writable(folder / VERILOG)
    require_amaranth()
    from sbnn_hw.rtl_gen.design import generate, generate_axi
    from sbnn_hw.sim.suite import write_suite

    vectors = random_images(network, SUITE) if images is None else images[:SUITE]
    design = generate(network, options)
    face = generate_axi(design.description)
    # The description comes last, with the suite: where it is, all the rest is.
    for name in (DESCRIPTION, AGREEMENT):
        Folder(folder).remove(name)
    netlist.save(network, folder / NETLIST)
    Folder(folder).write(AXI, face)
    write_suite(folder, network, design.verilog, design.description, vectors)
    return design.description
