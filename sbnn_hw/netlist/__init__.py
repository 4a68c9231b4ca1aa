"""The integer network that hardware and software share: values that compute themselves.

Imports neither torch nor amaranth. Taps live in arrays, so that millions of them load, check
and compute quickly.
"""

from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.file import load, save, to_bytes
from sbnn_hw.netlist.layers import Conv2d, Layer, Linear, Scores
from sbnn_hw.netlist.network import INPUT, Network, Operation, Outcome, Stage
from sbnn_hw.netlist.plain import Encode, Flatten, Levels, MaxPool2d
from sbnn_hw.netlist.taps import Taps, kernel_histogram
from sbnn_hw.netlist.windows import Borders, Window, find_borders

__all__ = [
    "INPUT",
    "Borders",
    "Conv2d",
    "Edge",
    "Encode",
    "Flatten",
    "Layer",
    "Levels",
    "Linear",
    "MaxPool2d",
    "Network",
    "Operation",
    "Outcome",
    "Scores",
    "Stage",
    "Taps",
    "Window",
    "find_borders",
    "kernel_histogram",
    "load",
    "save",
    "to_bytes",
]
