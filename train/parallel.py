"""Several processes that train one network as one would, over torch.distributed; their devices."""

import importlib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sbnn_hw.errors import ChoiceRejected

__all__ = [
    "all_sum",
    "average",
    "choose_device",
    "is_first",
    "local_rank",
    "process_group",
    "rank",
    "together",
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


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is a GPU if there is one, one for each process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device(name)
    if ":" in name and world_size() > 1:
        raise ChoiceRejected(f"Several processes cannot share {name}; use --device cuda")
    device = torch.device(name if ":" in name else f"cuda:{local_rank()}")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.index >= found:
        raise ChoiceRejected(
            f"There is no device {device} (torch finds {found or 'no'} GPU{'s' * (found > 1)}); "
            f"use another --device, such as cpu, or fewer processes"
        )
    return device


@contextmanager
def process_group() -> Iterator[None]:
    """Join the group that torchrun describes in the environment, if it does."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1 or dist.is_initialized():
        yield
        return
    # Its functions have the group as it is when they are defined as a default. Torch imports it on
    # first need: within a group, it would keep the group's threads alive beyond its end, and one of
    # them that is late aborts the process when Python ends.
    importlib.import_module("torch.distributed.nn.functional")
    # Tensors of a CPU go by gloo, those of GPUs by nccl, which takes no others.
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
        # Nobody leaves while another still waits for what it sent.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def together(model: nn.Module) -> nn.Module:
    """Return a model whose gradients are averaged over all processes; one alone has no need of it.

    Every process keeps its own buffers.
    """
    if world_size() == 1:
        return model
    # A later torch renamed the option.
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    renamed = "forward_sync_buffers" in known
    own_buffers: dict[str, Any] = {
        "forward_sync_buffers" if renamed else "broadcast_buffers": False
    }
    return DistributedDataParallel(model, **own_buffers)


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
