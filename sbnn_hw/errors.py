"""Errors that a user can mend: one sentence each, one exit code a kind."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "ChoiceRejected",
    "DataMissing",
    "Disagreement",
    "LinkFailed",
    "ModelRejected",
    "OutputRefused",
    "SbnnError",
    "TimingMissed",
    "ToolFailed",
    "ToolMissing",
    "UsageError",
    "naming",
]


class SbnnError(Exception):
    """Something the user can mend. The message is one sentence: what, where and the cure."""

    exit_code = 1

    @property
    def sentence(self) -> str:
        """The message in one line."""
        return " ".join(str(self).split())


class ModelRejected(SbnnError):
    """A model, checkpoint or netlist that is not what it should be."""

    exit_code = 1


class ChoiceRejected(ModelRejected):
    """Choices of a run that make no model, such as its name: wrong arguments, and no wrong file."""

    exit_code = 2


class UsageError(SbnnError):
    """Arguments that cannot be meant; the exit code is the one that argparse has."""

    exit_code = 2


class ToolMissing(SbnnError):
    """A program or Python package that a step needs is not installed."""

    exit_code = 3


class ToolFailed(SbnnError):
    """A program that a step ran came back with an error."""

    exit_code = 4


class DataMissing(SbnnError):
    """A data set that is not where it was looked for, or is damaged."""

    exit_code = 5


class OutputRefused(SbnnError):
    """A result that could not be written."""

    exit_code = 6


class Disagreement(SbnnError):
    """Hardware that does not say what the software says."""

    exit_code = 7


class LinkFailed(SbnnError):
    """A board that does not answer, or not as it should."""

    exit_code = 8


class TimingMissed(SbnnError):
    """A design that is slower than the clock it was built for."""

    exit_code = 9


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Put what a model, or a part of it, is called in front of what is wrong with it."""
    try:
        yield
    except ModelRejected as error:
        raise ModelRejected(f"{what}{error}") from None
