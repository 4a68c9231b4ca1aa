"""Nodes that read constants only are computed at once, by rationals."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.quantisers import quantise_constant, rule_of, steps_of

__all__ = ["fold_constants"]


def fold_constants(node: Node, constants: dict[int, Constant]) -> Constant:
    """Compute a node of constants."""
    if 0 not in constants:
        raise node.refuse("has nothing to compute with")
    kind = constants[0].kind
    if kind and node.op in ("Mul", "Add", "Sub", "Div", "Neg", "Pow"):
        return _computed(node, constants).of_kind(kind)
    return _computed(node, constants)


def _computed(node: Node, constants: dict[int, Constant]) -> Constant:
    """Compute a node of constants by rationals."""
    operations: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
        "Mul": lambda a, b: a * b,
        "Add": lambda a, b: a + b,
        "Sub": lambda a, b: a - b,
    }
    if node.op in operations and set(constants) == {0, 1}:
        return constants[0].combine(constants[1], operations[node.op])
    if node.op == "Div" and set(constants) == {0, 1}:
        if any(number == 0 for number in constants[1].rationals):
            raise node.refuse("divides by zero")
        return constants[0].combine(constants[1], lambda a, b: a / b)
    if node.op in ("BipolarQuant", "Quant"):
        return quantise_constant(node, constants[0], constants)
    if node.op == "Sign":
        return constants[0].sign(zero=0.0)
    if node.op == "MultiThreshold":
        x, rule, steps = constants[0], rule_of(node, constants), steps_of(node, constants)
        level = shapes.along_channels(node, rule.threshold, len(x.shape) - 1)
        return x.at_least(level).map(lambda bit: steps.scale * bit + steps.bias)
    if node.op == "Neg":
        return constants[0].map(lambda number: -number)
    if node.op in ("Sqrt", "Pow"):
        return constants[0].map(_power_of(node, constants))
    if node.op in ("Identity", "Dropout"):
        return constants[0]
    if node.op == "Cast":
        to = node.attributes.get("to")
        if to not in (1, 11, 6, 7):
            raise node.refuse("must cast constants to float32, float64, int32 or int64")
        if to in (6, 7):
            return constants[0].of_kind("int32" if to == 6 else "int64")
        return constants[0].to_float32() if to == 1 else replace(constants[0], kind="")
    return shapes.fold_shape(node, constants)


def _power_of(node: Node, constants: dict[int, Constant]) -> Callable[[Fraction], Fraction]:
    """Return what `Sqrt` or `Pow` makes of a number; roots are float32, as executors have them."""
    exponent = Fraction(1, 2)
    if node.op == "Pow":
        if 1 not in constants:
            raise node.refuse("must have a constant exponent")
        exponent = constants[1].scalar()
    if exponent not in (Fraction(1, 2), 1, 2):
        raise node.refuse(f"has the exponent {float(exponent):g}; use 0.5, 1 or 2")

    def power(number: Fraction) -> Fraction:
        if exponent.denominator == 1:
            return number ** int(exponent)
        if number < 0:
            raise node.refuse("takes the root of a negative number")
        return Fraction(float(np.sqrt(np.float32(number))))

    return power
