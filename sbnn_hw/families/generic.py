"""Plain gates, for any tool that maps them to tables of its own."""

from dataclasses import replace

from sbnn_hw.families.family import Family
from sbnn_hw.families.xc7 import XC7

__all__ = ["GENERIC"]

#: What the tool will make of gates is not known; it is taken to be about what 7-series would.
GENERIC = Family(
    name="generic",
    look_up=XC7.look_up,
    cells=None,
    sums=XC7.sums,
    memory=replace(XC7.memory, shifted=0),
    catalogue=(*XC7.catalogue, "kintexu", "virtexu", "kintexuplus", "virtexuplus", "zynquplus"),
)
