"""The component of each part, a file for each kind."""

from sbnn_hw.rtl_gen.cores import accumulate, dot, gather, hold, join, tables, window
from sbnn_hw.rtl_gen.cores.core import Core, core_of

__all__ = ["Core", "accumulate", "core_of", "dot", "gather", "hold", "join", "tables", "window"]
