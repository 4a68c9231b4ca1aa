"""Which hardware a network gets on a board: wires, engines that work in turn, or both.

A plan is a value. The same network, board and wish give the same plan, byte for byte.
"""

from sbnn_hw.planner.choose import choose
from sbnn_hw.planner.file import PLAN, check_plan, read_plan
from sbnn_hw.planner.values import Candidate, HardwarePlan, Wish, wired_stages

__all__ = [
    "PLAN",
    "Candidate",
    "HardwarePlan",
    "Wish",
    "check_plan",
    "choose",
    "read_plan",
    "wired_stages",
]
