"""Several processes that train one network as one process would, over torch.distributed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = [
    "all_sum",
    "average",
    "is_first",
    "local_rank",
    "process_group",
    "rank",
    "world_size",
]


def world_size() -> int:
    """Return how many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return which of the processes this is."""
    return dist.get_rank() if world_size() > 1 else 0


def local_rank() -> int:
    """Return which of the processes on this machine this is: the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if world_size() > 1 else 0


def is_first() -> bool:
    """Tell whether this process is the one that writes files and talks."""
    return rank() == 0


@contextmanager
def process_group() -> Iterator[None]:
    """Join the group that torchrun describes in the environment, if it does."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1 or dist.is_initialized():
        yield
        return
    # Tensors of a CPU go by gloo, those of GPUs by nccl, which takes no others.
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
        # Nobody leaves while another still waits for what it sent.
        dist.barrier()
    finally:
        dist.destroy_process_group()


class _AllSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # Every process's loss depends on this process's summand.
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


def all_sum(x: Tensor) -> Tensor:
    """Sum over all processes, differentiable."""
    return _AllSum.apply(x) if world_size() > 1 else x  # type: ignore[no-untyped-call]


def average(x: Tensor) -> Tensor:
    """Return the mean over all processes, without gradient."""
    x = x.detach().clone()
    if world_size() > 1:
        dist.all_reduce(x)
        x /= world_size()
    return x
