"""Does a model fit into memory? Asked before it is made."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sbnn_hw.errors import UsageError
from sbnn_hw.train.models import ModelConfig, build_model

__all__ = ["BYTES", "check_memory", "memory_of", "out_of_memory"]

#: What training holds for each weight at the least: the latent, its gradient, Adam's two moments.
BYTES = 16


def check_memory(config: ModelConfig, device: torch.device) -> None:
    """Refuse a model whose weights alone are more than the device has room for."""
    # On the meta device nothing is allocated.
    with torch.device("meta"):
        model = build_model(config)
    weights = sum(math.prod(parameter.shape) for parameter in model.parameters())
    room = memory_of(device)
    if room is not None and BYTES * weights > room:
        where = "this machine" if device.type == "cpu" else f"the GPU {device}"
        raise UsageError(
            f"Model {config.name} has {weights:,} weights, and training it needs "
            f"{_gigabytes(BYTES * weights)} or more, but {where} has {_gigabytes(room)} of memory; "
            f"name fewer or narrower layers"
            + ("" if config.width == 1 else f", or a --width below {config.width:g}")
        )


def memory_of(device: torch.device) -> int | None:
    """Return the bytes that a device has, swap included; None where that is not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    if "MemTotal" not in sizes:
        return None
    return 1024 * (int(sizes["MemTotal"]) + int(sizes.get("SwapTotal", 0)))


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


@contextmanager
def out_of_memory() -> Iterator[None]:
    """Say in a sentence that memory ran out, which torch says in several ways."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch has no exception of its own for it.
        if isinstance(error, RuntimeError) and not (
            isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        ):
            raise
        raise UsageError(
            "Memory ran out during training; use a smaller --batch, or a smaller model"
        ) from None
