"""The component of each part, a file for each kind."""

from sbnn_hw.rtl_gen.cores import accumulate, best, dot, gather, hold, join, tables, window
from sbnn_hw.rtl_gen.cores.core import Core, core_of

__all__ = [
    "Core", "accumulate", "best", "core_of", "dot", "gather", "hold", "join", "tables", "window",
]
