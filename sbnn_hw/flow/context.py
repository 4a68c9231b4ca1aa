"""One build under way: what all its steps need."""

from collections.abc import Callable
from dataclasses import dataclass

from sbnn_hw.flow.plan import Plan
from sbnn_hw.flow.steps import Steps
from sbnn_hw.hardware import Folder

__all__ = ["Flow"]


@dataclass(frozen=True)
class Flow:
    """One build under way.

    Parameters
    ----------
    plan : Plan
        What shall be built.
    steps : Steps
        Does steps, and remembers them.
    tools : dict of str to str
        Versions of the tools that are used.
    say : callable
        Takes the name of a step, and a few words.
    """

    plan: Plan
    steps: Steps
    tools: dict[str, str]
    say: Callable[[str, str], None]

    @property
    def folder(self) -> Folder:
        """The design on disk."""
        return Folder(self.plan.out)
