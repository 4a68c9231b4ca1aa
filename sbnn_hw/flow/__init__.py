"""From a model to a board: fold, generate, simulate, synthesise, bitstream, report.

Every step leaves files in the build's folder, is skipped while what it reads is unchanged, and can
be looked at by itself.
"""

from sbnn_hw.flow.build import build
from sbnn_hw.flow.plan import BOARD, TOOLCHAINS, UNTIL, Plan, default_folder
from sbnn_hw.flow.report import load_command

__all__ = ["BOARD", "TOOLCHAINS", "UNTIL", "Plan", "build", "default_folder", "load_command"]
