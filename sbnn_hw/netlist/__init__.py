"""The integer network that hardware and software share: values that compute themselves.

Imports neither torch nor amaranth. Taps live in arrays, so that millions of them load, check
and compute quickly.
"""

from sbnn_hw.netlist.affine import Affine
from sbnn_hw.netlist.concat import Concat
from sbnn_hw.netlist.conv import Conv2d
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.encode import Encode
from sbnn_hw.netlist.file import load, save, to_bytes
from sbnn_hw.netlist.flatten import Flatten
from sbnn_hw.netlist.layer import Layer, Tapped
from sbnn_hw.netlist.linear import Linear
from sbnn_hw.netlist.max_pool import MaxPool2d
from sbnn_hw.netlist.meaning import Column, Meaning
from sbnn_hw.netlist.network import Network, Outcome
from sbnn_hw.netlist.operation import OPERATIONS, Constants, Operation, Work
from sbnn_hw.netlist.recode import Recode
from sbnn_hw.netlist.scores import Scores
from sbnn_hw.netlist.stage import INPUT, Stage
from sbnn_hw.netlist.sum_pool import SumPool2d
from sbnn_hw.netlist.sums import Sums
from sbnn_hw.netlist.taps import Taps, kernel_histogram
from sbnn_hw.netlist.windows import Borders, Window, find_borders
from sbnn_hw.netlist.wiring import Wiring

__all__ = [
    "INPUT",
    "OPERATIONS",
    "Affine",
    "Borders",
    "Column",
    "Concat",
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
    "SumPool2d",
    "Sums",
    "Tapped",
    "Taps",
    "Window",
    "Wiring",
    "Work",
    "find_borders",
    "kernel_histogram",
    "load",
    "save",
    "to_bytes",
]
