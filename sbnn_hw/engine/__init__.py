"""Folded engines: a chain of layers as a program in block RAM, and what the hardware of it is."""

from sbnn_hw.engine.compiler import compile_program
from sbnn_hw.engine.folded import Folded, fold, foldable
from sbnn_hw.engine.program import Program
from sbnn_hw.engine.shape import Shape

__all__ = ["Folded", "Program", "Shape", "compile_program", "fold", "foldable"]
