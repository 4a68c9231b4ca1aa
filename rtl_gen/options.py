"""How a network becomes hardware."""

from dataclasses import dataclass

from sbnn_hw.engine.folded import check_form
from sbnn_hw.errors import UsageError
from sbnn_hw.families import find_family

__all__ = ["Options"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a network becomes hardware.

    Parameters
    ----------
    family : str
        ``xc7``, ``ecp5``, ``ice40`` or ``generic``.
    levels_per_stage : int
        Tables in a row between two registers.
    split_pairs : bool
        Whether two LUT5 take the place of each LUT6_2.
    input : str
        ``image``: a whole image a clock; ``pixel``: a pixel a clock, row by row. ``auto``: images
        where no stage has windows.
    flatten : str
        How a linear layer behind a stream of pixels gets its taps. ``gather``: the map becomes
        one vector first; ``accumulate``: counted as pixels arrive; ``auto``: what is smaller.
    serial : int
        Cycles over which such a layer counts one pixel, part by part; no more than lie between two
        pixels. Zero: as many as make it smallest.
    share : int
        Pairs of neurons, in each layer, to search for taps that they can count together; zero
        counts each neuron's taps apart.
    scores : bool
        Whether scores are given with the class.
    form : str
        ``unrolled``: every connection is a wire. ``gaps``: layers are computed in turn by a program
        in block RAM.
    lanes : int
        Of a program: neurons at a time.
    loadable : bool
        Whether the program can be written while the hardware runs.
    folded : str
        The first stage that a program computes: the network's first, which is meant if it is empty.
    """

    family: str = "generic"
    levels_per_stage: int = 3
    split_pairs: bool = False
    input: str = "auto"
    flatten: str = "auto"
    serial: int = 0
    share: int = 0
    scores: bool = True
    form: str = "unrolled"
    lanes: int = 0
    loadable: bool = False
    folded: str = ""

    def __post_init__(self) -> None:
        find_family(self.family)
        if self.input not in ("auto", "image", "pixel"):
            raise UsageError(f"Input must be auto, image or pixel, not {self.input!r}")
        if self.flatten not in ("auto", "gather", "accumulate"):
            raise UsageError(f"Flatten must be auto, gather or accumulate, not {self.flatten!r}")
        if self.serial < 0:
            raise UsageError(f"Serial must be 0 or more, not {self.serial!r}")
        if self.share < 0:
            raise UsageError(f"Share must be 0 or more, not {self.share!r}")
        if self.levels_per_stage < 1:
            raise UsageError(
                f"Levels per stage must be 1 or more, not {self.levels_per_stage!r}"
            )
        if self.form != "unrolled":
            check_form(self.form, self.lanes)
        elif self.lanes or self.loadable or self.folded:
            raise UsageError(
                "Lanes, loadable and folded are for programs; use them with form gaps"
            )
