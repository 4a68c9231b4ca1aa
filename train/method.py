"""The ways to sparsity (``--method``): what each does in a step, after an epoch and in the log."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.budget import LutBudget, input_costs
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.layers import InputEncoder
from sbnn_hw.train.schedule import Schedule
from sbnn_hw.train.sparsity import TOLERANCE, SparsityPenalty, TopK, layers_of

__all__ = ["Method", "budget_of", "make_method"]

#: Steps after which taps are chosen again: sorting all the weights takes time.
EVERY = 10


class Method:
    """A way to the allowed share of ones. By itself it does nothing for it."""

    #: Whether latent weights are kept within ±``clamp``.
    clamps = True

    def __init__(self, schedule: Schedule, model: nn.Sequential, channels: int) -> None:
        self.schedule, self.config = schedule, schedule.config
        self.layers = layers_of(model)

    def begin_step(self, step: int) -> None:
        """Choose the taps that a step is computed with."""

    def penalty(self, step: int, loss: Tensor) -> Tensor:
        """Return what is added to the loss of the task."""
        return torch.zeros_like(loss)

    @torch.no_grad()
    def end_step(self) -> None:
        """Keep the weights, which were just changed, in their bounds."""
        if self.clamps and self.config.clamp:
            for layer in self.layers:
                layer.weight.clamp_(-self.config.clamp, self.config.clamp)

    def settle(self, step: int) -> None:
        """Let the network have what is allowed at a step, and no more, before it is judged."""

    def facts(self) -> dict[str, Any]:
        """Return what the log tells of this method alone."""
        return {}

    def met(self, row: dict[str, Any]) -> bool:
        """Tell whether an epoch is sparse enough for the end of the run, by its row of the log."""
        return bool(row["ones"] <= self.config.ec + TOLERANCE)

    def unmet(self) -> str:
        """Return what to say, and to do, where no epoch was sparse enough."""
        return (
            f"the share of ones never fell to {self.config.ec:.4g}; raise --gamma or --epochs, or "
            f"use --method topk"
        )


class _Free(Method):
    def met(self, row: dict[str, Any]) -> bool:
        return True


class _ByPenalty(Method):
    def __init__(self, schedule: Schedule, model: nn.Sequential, channels: int) -> None:
        super().__init__(schedule, model, channels)
        self._penalty = SparsityPenalty(self.config.gamma)

    def penalty(self, step: int, loss: Tensor) -> Tensor:
        return self._penalty(self.layers, self.schedule.ec(step), loss)


class _ByTopK(Method):
    clamps = False

    def begin_step(self, step: int) -> None:
        if step % EVERY == 0:
            TopK().refresh(self.layers, self.schedule.ec(step))

    def settle(self, step: int) -> None:
        TopK().project(self.layers, self.schedule.ec(step))


class _ByLuts(Method):
    clamps = False

    def __init__(self, schedule: Schedule, model: nn.Sequential, channels: int) -> None:
        super().__init__(schedule, model, channels)
        self.budget = budget_of(self.config, model, channels)

    def begin_step(self, step: int) -> None:
        if step % EVERY == 0:
            self.settle(step)

    def settle(self, step: int) -> None:
        slack = self.schedule.slack(step)
        self.budget.reprice()
        luts = self.config.luts + (self.budget.largest - self.config.luts) * slack
        self.budget.refresh(luts, slack=slack)

    def facts(self) -> dict[str, Any]:
        return {"luts": self.budget.luts()}

    def met(self, row: dict[str, Any]) -> bool:
        return bool(row["luts"] <= self.config.luts)

    def unmet(self) -> str:
        return f"the budget of {self.config.luts:,} LUTs was never met; raise --luts or --epochs"


_METHODS: dict[str, type[Method]] = {
    "none": _Free,
    "penalty": _ByPenalty,
    "topk": _ByTopK,
    "luts": _ByLuts,
}


def make_method(schedule: Schedule, model: nn.Sequential, channels: int) -> Method:
    """Return the method that a run has chosen, for its network."""
    return _METHODS[schedule.config.method](schedule, model, channels)


def budget_of(config: TrainConfig, model: nn.Sequential, channels: int) -> LutBudget:
    """Return the budget for the layers of a model."""
    encoder = model[0]
    integers = isinstance(encoder, InputEncoder) and encoder.kind == "integer"
    encoded = input_costs(encoder, channels) if isinstance(encoder, InputEncoder) else ()
    bits = encoder.most.bit_length() if isinstance(encoder, InputEncoder) and integers else 1
    layers = layers_of(model)
    if len(config.fan_in) > len(layers):
        raise ModelRejected(
            f"--fan-in has {len(config.fan_in)} values, but {config.model} has {len(layers)} "
            f"layers, the scores included; give at most one per layer"
        )
    budget = LutBudget(layers, caps=config.fan_in, input_bits=bits, encoded=encoded)
    if budget.constant:
        most = budget.caps[-1]
        raise ModelRejected(
            f"With all {most:,} taps every class has the same score in the domain {config.domain}; "
            f"cap the taps of the scores with a last --fan-in of about {most // 2:,}"
        )
    if config.luts < budget.least:
        raise ModelRejected(
            f"A budget of {config.luts:,} LUTs is less than the {math.ceil(budget.least):,} that "
            f"q, the scores and the search for the largest need; raise --luts, or cap the taps of "
            f"the scores with a last --fan-in below {budget.caps[-1]}"
        )
    return budget
