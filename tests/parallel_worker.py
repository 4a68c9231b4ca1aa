"""Run by torchrun, or alone: some steps of one training; writes gradients and losses."""

import sys
from pathlib import Path

import torch

from sbnn_hw import datasets
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.parallel import average, is_first, process_group
from sbnn_hw.train.trainer import Trainer


def run(method, steps, model):
    """Return first gradients, losses and moments; the trainer is gone before the group is."""
    residual = model.startswith("resnet:")
    more = {"stream_bits": 8, "shortcut": "duplicate"} if residual else {"padding": 1}
    config = TrainConfig(
        model=model, data="digits", ec=0.1, gamma=0.4, method=method, epochs=20,
        batch=64, crop=1, flip=True, mixup=0.5, lr=0.001, **more,
    )  # fmt: skip
    trainer = Trainer(config, datasets.find("digits").load("train"), classes=10)
    losses, step = [], 0
    for epoch in range(4):
        for pixels, targets in trainer.images.batches(
            64, classes=10, seed=0, epoch=epoch, augmentation=config.augmentation
        ):
            result = trainer.step(step, pixels, targets)
            if step == 0:
                gradients = {n: p.grad.clone() for n, p in trainer.model.named_parameters()}
            losses.append((average(result["loss"]) + result["penalty"]).item())
            step += 1
            if step == steps:
                norms = {n: b.clone() for n, b in trainer.model.named_buffers() if "running" in n}
                return {"gradients": gradients, "losses": losses, "norms": norms}
    raise SystemExit(f"{steps} steps are more than four epochs have")


def main(out, method, steps, model, precision):
    torch.set_default_dtype(getattr(torch, precision))
    with process_group():
        result = run(method, steps, model)
        if is_first():
            torch.save(result, out)
    # A thread of the group that is still there when Python ends may abort the process.
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    left = [name for name in names if "gloo" in name]
    if left:
        raise SystemExit(f"threads of the group are left: {left}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
