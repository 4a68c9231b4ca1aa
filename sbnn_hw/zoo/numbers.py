"""Numbers that say what they are: value, unit, who found it, and how."""

from typing import Any, Literal

__all__ = ["How", "Number", "number", "value_of"]

How = Literal["measured", "counted", "computed"]
Number = dict[str, Any]


def number(value: float | None, unit: str, by: str, how: How = "measured") -> Number:
    """Return a number in plain values, with the tool that found it and its version.

    It is ``measured`` in a simulation or by a tool, ``counted`` in a finished design or netlist, or
    ``computed`` from other numbers.

    Examples
    --------
    >>> number(1515, "LUT", "yosys 0.70", "counted")["how"]
    'counted'
    """
    return {"value": value, "unit": unit, "how": how, "by": by}


def value_of(entry: dict[str, Any], name: str) -> Any:
    """Return the value of a number by its name, or None where there is none."""
    found = entry["numbers"].get(name)
    return None if found is None else found["value"]
