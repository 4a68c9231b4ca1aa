"""The integer network that hardware and software share: values that compute themselves.

Imports neither torch nor amaranth. Taps live in arrays, so that millions of them load, check
and compute quickly.
"""

from sbnn_hw.netlist.conv import Conv2d
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.encode import Encode
from sbnn_hw.netlist.file import load, save, to_bytes
from sbnn_hw.netlist.flatten import Flatten
from sbnn_hw.netlist.layer import Layer, Tapped
from sbnn_hw.netlist.linear import Linear
from sbnn_hw.netlist.max_pool import MaxPool2d
from sbnn_hw.netlist.meaning import Column, Meaning
from sbnn_hw.netlist.network import INPUT, Network, Outcome, Stage
from sbnn_hw.netlist.operation import OPERATIONS, Constants, Operation, Work
from sbnn_hw.netlist.recode import Recode
from sbnn_hw.netlist.scores import Scores
from sbnn_hw.netlist.taps import Taps, kernel_histogram
from sbnn_hw.netlist.windows import Borders, Window, find_borders

__all__ = [
    "INPUT",
    "OPERATIONS",
    "Borders",
    "Column",
    "Constants",
    "Conv2d",
    "Edge",
    "Encode",
    "Flatten",
    "Layer",
    "Linear",
    "MaxPool2d",
    "Meaning",
    "Network",
    "Operation",
    "Outcome",
    "Recode",
    "Scores",
    "Stage",
    "Tapped",
    "Taps",
    "Window",
    "Work",
    "find_borders",
    "kernel_histogram",
    "load",
    "save",
    "to_bytes",
]
