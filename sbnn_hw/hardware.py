"""The folder of a generated design: what `generate` writes, and `simulate` reads."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from sbnn_hw import netlist
from sbnn_hw.design import Design, load_design
from sbnn_hw.errors import Disagreement, ModelRejected, OutputRefused, UsageError
from sbnn_hw.files import write_text
from sbnn_hw.netlist import Network

if TYPE_CHECKING:
    from sbnn_hw.sim.agreement import Agreement

__all__ = ["Folder"]

NETLIST, VERILOG, AXI = "network.sbnn", "top.v", "top_axi.v"
DESCRIPTION, AGREEMENT = "design.json", "agreement.json"


@dataclass(frozen=True)
class Folder:
    """A generated design on disk."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    def load(self) -> tuple[Network, str, Design]:
        """Return the network, the Verilog text and what is known of it."""
        if not (self.path / DESCRIPTION).is_file():
            raise UsageError(
                f"There is no design in {self.path} (make one with `sbnn-hw generate --out "
                f"{self.path}`)"
            )
        try:
            verilog = (self.path / VERILOG).read_text(encoding="utf-8")
            design = load_design(self.path / DESCRIPTION)
        except OSError as error:
            raise ModelRejected(
                f"The design in {self.path} cannot be read ({error.strerror}: {error.filename}); "
                "generate it again"
            ) from None
        except UnicodeDecodeError as error:
            raise ModelRejected(
                f"{self.path / VERILOG} is damaged ({error}); generate the design again"
            ) from None
        if not (self.path / NETLIST).is_file():
            raise ModelRejected(f"There is no {NETLIST} in {self.path}; generate the design again")
        network = netlist.load(self.path / NETLIST)
        if design.network != network.digest:
            raise ModelRejected(
                f"Netlist and Verilog in {self.path} belong to different networks; generate the "
                "design again"
            )
        return network, verilog, design

    def write(self, name: str, text: str) -> None:
        """Write a file of the design in one step."""
        write_text(self.path / name, text)

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
        design: Design,
        verilog: str,
        images: str,
        labels: npt.NDArray[Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write the verdict of a simulation, and return it.

        With ``labels``, the classes of the images, it says how many answers are right.
        """
        verdict = agreement.to_dict(network, design)
        verdict["images"] = images
        verdict["classes"] = [network.class_name(number) for number in range(network.classes)]
        verdict |= {"correct": None, "accuracy": None}
        if labels is not None:
            # Hardware that fails may leave images without an answer.
            answered = min(len(labels), len(agreement.classes))
            correct = int((agreement.classes[:answered] == labels[:answered]).sum())
            verdict |= {"correct": correct, "accuracy": correct / len(labels)}
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
