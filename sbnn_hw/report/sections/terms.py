"""The words and symbols of the page."""

from sbnn_hw.report import pieces
from sbnn_hw.report.lanes import is_chain
from sbnn_hw.report.markup import tag
from sbnn_hw.report.schema import Report
from sbnn_hw.report.sections.blocks import flow_of

__all__ = ["terms"]


#: The words and symbols of the page, and what they mean.
_TERMS = {
    "Connection, or tap": "An input that a neuron reads because its weight is 1. A weight of 0 "
    "takes no hardware.",
    "Fan-in": "The number of connections of a neuron.",
    "ξ": "The offset of a layer's weights: a weight of 0 stands for ξ and a weight of 1 for 1 + ξ, "
    "both times a common factor. All neurons of a layer share it.",
    "q": "The sum of all inputs of a layer. Every neuron adds ξ times q, so q is computed once for "
    "all of them, and not at all where ξ is 0.",
    "LUT": "A look-up table: the smallest piece of logic in an FPGA.",
    "FF": "A flip-flop: a register of one bit.",
    "Level": "A LUT on the way from one register to the next. Fewer levels per stage allow a "
    "faster clock and take more registers.",
    "Latency": "The time from the first word of an image to its class.",
    "Interval": "The number of cycles from the start of one image to the start of the next.",
    "Fmax": "The fastest clock that the routed design allows.",
    "Toggle": "A bit of a flip-flop or LUT that differs from its value one clock before.",
    "Operation": "A binary operation. Dense counts 2N for a neuron with N inputs; sparse counts "
    "one for each connection, plus q.",
    "EC·N": "The paper's estimate of the operations: the share of the weights that are 1, times "
    "the N inputs of every neuron, without q.",
}


#: More of them, where a network has forks and joins.
_TERMS_OF_GRAPHS = {
    "Integers × 16": "Values of several bits, here 16 of them, that a stage hands on together. The "
    "shortcuts of a residual network carry them.",
    "Queue": "Where ways through the network meet, values of the faster one wait for those of the "
    "slower one. A queue has just as many places as can be needed.",
    "Addition, multiplication": "Of values of several bits. They are not binary operations, and "
    "are counted apart. Factors that are powers of two are wires and do not count.",
}


def terms(report: Report) -> pieces.Section:
    """Return what the words and symbols of the page mean."""
    graph = not is_chain(flow_of(report.stages))
    meanings = _TERMS | (_TERMS_OF_GRAPHS if graph else {})
    entries = [(tag("dt", name), tag("dd", meaning)) for name, meaning in meanings.items()]
    return pieces.section("terms", "Terms", None, tag("dl", entries, class_="terms"))
