"""What changes in the course of a run, as functions of the step."""

import math
from dataclasses import dataclass

from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.signs import ede_steepness
from sbnn_hw.train.sparsity import scheduled_ec

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """The schedules of a run."""

    config: TrainConfig
    #: Steps of the whole run.
    steps: int

    def progress(self, step: int) -> float:
        """Return the share of the run that is done before a step."""
        return step / max(1, self.steps)

    def lr(self, step: int) -> float:
        """Return the learning rate."""
        remaining = 1 - self.progress(step)
        factor = {
            "cosine": 0.5 - 0.5 * math.cos(math.pi * remaining),
            "linear": remaining,
            "constant": 1.0,
        }[self.config.lr_schedule]
        return self.config.lr * factor

    def steepness(self, step: int) -> float:
        """Return the steepness of EDE's gradient."""
        return ede_steepness(self.progress(step))

    def ec(self, step: int) -> float:
        """Return the allowed share of ones."""
        return self._falling_to(self.config.ec, step)

    def slack(self, step: int) -> float:
        """Return how far a budget still is from its end: from one, all that caps allow, to zero."""
        return 2 * self._falling_to(0.0, step)

    def _falling_to(self, ec: float, step: int) -> float:
        config = self.config
        return scheduled_ec(
            ec, self.progress(step), schedule=config.ec_schedule, until=config.ec_until
        )
