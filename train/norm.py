"""Batch norm whose moments are those of the whole batch, however many processes share it."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.train.parallel import all_sum, world_size

__all__ = ["SCALES", "BatchNorm", "recompute_statistics"]

#: Where the scale g comes from: learned; fixed at +1; or fixed at ±1, alternating by neuron, which
#: gives the domain `zero` neurons of both polarities.
SCALES = ("learned", "unit", "alternating")


class BatchNorm(nn.Module):
    """Batch norm over all axes but the second.

    In training the moments are taken over the batches of all processes together, by code that
    gradients flow through (torch's SyncBatchNorm needs a GPU).

    Parameters
    ----------
    features : int
        Neurons or channels.
    scale : str
        ``learned``; ``unit``, which is +1; or ``alternating`` +1 and −1, which gives the domain
        ``zero`` neurons of both polarities.
    eps, momentum : float
        As in PyTorch.

    Examples
    --------
    >>> BatchNorm(4)(torch.randn(32, 4)).shape
    torch.Size([32, 4])
    """

    running_mean: Tensor
    running_var: Tensor
    weight: Tensor

    def __init__(
        self, features: int, *, scale: str = "learned", eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        if scale not in SCALES:
            raise ValueError(f"Scale must be one of {', '.join(SCALES)}, not {scale!r}")
        super().__init__()
        self.features, self.scale, self.eps, self.momentum = features, scale, eps, momentum
        if scale == "learned":
            self.weight = nn.Parameter(torch.ones(features))
        else:
            fixed = torch.ones(features)
            if scale == "alternating":
                fixed[1::2] = -1.0
            self.register_buffer("weight", fixed)
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    @property
    def used_weight(self) -> Tensor:
        """The scale as it is used: what is learned, or what stands for it in hardware."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        if world_size() == 1 or not self.training:
            return F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.used_weight,
                self.bias,
                self.training,
                self.momentum,
                self.eps,
            )
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        count = x.numel() // self.features * world_size()
        mean = all_sum(x.sum(axes)) / count
        centred = x - mean.view(shape)
        var = all_sum(centred.square().sum(axes)) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(var * (count / (count - 1)), self.momentum)
        scale = self.used_weight * torch.rsqrt(var + self.eps)
        return centred * scale.view(shape) + self.bias.view(shape)

    def extra_repr(self) -> str:
        return f"{self.features}, scale={self.scale}"


class _Found(Exception):
    """The batch norm was reached; what lies behind it need not be computed."""


#: Bytes of intermediate values that the computation of statistics may keep.
ROOM = 1 << 30


@torch.no_grad()
def recompute_statistics(
    model: nn.Module,
    batches: Callable[[], Iterable[Tensor]],
    *,
    kinds: tuple[type, ...] = (),
    room: int = ROOM,
) -> None:
    """Set the mean and variance of each batch norm to those of the whole of ``batches``.

    Layer by layer: the inputs of each batch norm are computed with the new statistics of those
    before it, as evaluation will. The running statistics of training lag behind the weights,
    which hurts binary networks far more than real-valued ones.

    What enters a module of an `nn.Sequential` is kept where it takes no more than ``room`` bytes,
    so that what lies before is not computed again for each batch norm behind. The results are the
    same with any room.

    Parameters
    ----------
    model : nn.Module
        The model, whose batch norms are changed in place.
    batches : callable
        Returns the training images, in batches, each time it is called.
    kinds : tuple of type
        The classes that are batch norms; otherwise ours and PyTorch's.
    room : int
        Bytes of intermediate values to keep.
    """
    kinds = kinds or (BatchNorm, nn.BatchNorm1d, nn.BatchNorm2d)
    steps = _steps(model)
    training = model.training
    model.eval()
    kept: list[Tensor] = []  # what enters steps[begun], once there is something
    begun = count = 0
    done: set[nn.Module] = set()
    try:
        for number, step in enumerate(steps):
            if not any(isinstance(module, kinds) for module in step.modules()):
                continue
            # Only the first pass tells how many batches there are.
            if count and (further := _carry_on(steps[begun:number], kept, batches, count, room)):
                kept, begun = further, number
            count = _settle(steps[begun : number + 1], kept, batches, kinds, done) or count
    finally:
        model.train(training)


def _steps(model: nn.Module) -> list[nn.Module]:
    """Part an `nn.Sequential`, and those in it, into what runs one after the other."""
    if type(model) is nn.Sequential and not (model._forward_hooks or model._forward_pre_hooks):
        return [step for child in model for step in _steps(child)]
    return [model]


def _run(steps: list[nn.Module], x: Tensor) -> Tensor:
    for step in steps:
        x = step(x)
    return x


def _carry_on(
    steps: list[nn.Module],
    kept: list[Tensor],
    batches: Callable[[], Iterable[Tensor]],
    count: int,
    room: int,
) -> list[Tensor]:
    """Return what the steps make of all batches, or nothing if it takes too much room."""
    first = next(iter(kept or batches())).clone()
    if _run(steps, first).nbytes * count > room:
        return []
    if not kept:
        return [_run(steps, batch) for batch in batches()]
    kept.reverse()
    return [_run(steps, kept.pop()) for _ in range(count)]  # no longer needed where it was


def _settle(
    steps: list[nn.Module],
    kept: list[Tensor],
    batches: Callable[[], Iterable[Tensor]],
    kinds: tuple[type, ...],
    done: set[nn.Module],
) -> int:
    """Set the statistics of the steps' batch norms, in their order; return the batches seen."""
    norms = [m for step in steps for m in step.modules() if isinstance(m, kinds)]
    count = 0
    while not done.issuperset(norms):
        moments: list[Tensor] = []
        current: list[nn.Module] = []

        def collect(
            module: nn.Module,
            inputs: tuple[Tensor, ...],
            moments: list[Tensor] = moments,
            current: list[nn.Module] = current,
        ) -> None:
            if module in done:
                return
            current[:] = [module]
            x = inputs[0].transpose(0, 1).flatten(1).double()
            moments.append(
                torch.stack([torch.full_like(x[:, 0], x.shape[1]), x.sum(1), x.square().sum(1)])
            )
            raise _Found

        hooks = [norm.register_forward_pre_hook(collect) for norm in norms]
        try:
            for batch in kept or batches():
                try:
                    # A copy: a module may change its input in place, and it is needed again.
                    _run(steps, batch.clone() if kept else batch)
                    break  # the batch norms that are left are not used
                except _Found:
                    pass
        finally:
            for hook in hooks:
                hook.remove()
        if not current:
            break
        count = len(moments)
        size, total, squares = torch.stack(moments).sum(0)
        mean = total / size
        found = current[0]
        found.running_mean.copy_(mean)  # type: ignore[operator]
        var = (squares / size - mean.square()).clamp_min_(0) * size / (size - 1).clamp_min(1)
        found.running_var.copy_(var)  # type: ignore[operator]
        done.add(found)
    return count
