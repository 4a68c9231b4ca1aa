"""The loss of the task, with or without a teacher."""

import torch.nn.functional as F
from torch import Tensor

__all__ = ["training_loss"]


def training_loss(
    outputs: Tensor, targets: Tensor, *, teacher: Tensor | None, distill: float, temperature: float
) -> Tensor:
    """Return cross-entropy with the targets, mixed with that with a teacher's softened outputs.

    The teacher's part is −Σ softmax(teacher)·log softmax(outputs), ReActNet's distribution loss. It
    has the gradients of the Kullback-Leibler divergence but not its value, and the sparsity loss is
    scaled by the value.
    """
    if teacher is None:
        return F.cross_entropy(outputs, targets)
    soft = F.cross_entropy(outputs / temperature, (teacher / temperature).softmax(1))
    if distill == 1:
        return temperature**2 * soft
    return (1 - distill) * F.cross_entropy(outputs, targets) + distill * temperature**2 * soft
