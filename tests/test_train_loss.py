"""The loss: cross-entropy, and a teacher's share of it."""

import pytest
import torch
import torch.nn.functional as F

from sbnn_hw.train.loss import training_loss


def test_distillation_mixes_in_the_teacher():
    torch.manual_seed(0)
    outputs, teacher = torch.randn(6, 4), torch.randn(6, 4)
    targets = F.one_hot(torch.arange(6) % 4, 4).float()
    plain = training_loss(outputs, targets, teacher=None, distill=0.5, temperature=2.0)
    assert plain.item() == pytest.approx(F.cross_entropy(outputs, targets).item())
    p, q = (teacher / 2).softmax(1), (outputs / 2).softmax(1)
    soft = -(p * q.log()).sum(1).mean()
    mixed = training_loss(outputs, targets, teacher=teacher, distill=0.3, temperature=2.0)
    assert mixed.item() == pytest.approx((0.7 * plain + 0.3 * 4 * soft).item(), rel=1e-5)
    alone = training_loss(outputs, targets, teacher=teacher, distill=1.0, temperature=1.0)
    authors = -(teacher.softmax(1) * outputs.log_softmax(1)).sum(1).mean()
    assert alone.item() == pytest.approx(authors.item(), rel=1e-6)


def test_distillation_has_the_gradients_of_the_divergence():
    torch.manual_seed(1)
    outputs, teacher = torch.randn(6, 4, requires_grad=True), torch.randn(6, 4)
    targets = F.one_hot(torch.arange(6) % 4, 4).float()
    for temperature in (1.0, 3.0):
        loss = training_loss(
            outputs, targets, teacher=teacher, distill=1.0, temperature=temperature
        )
        divergence = temperature**2 * F.kl_div(
            (outputs / temperature).log_softmax(1), (teacher / temperature).softmax(1),
            reduction="batchmean",
        )  # fmt: skip
        gradients = [torch.autograd.grad(x, outputs)[0] for x in (loss, divergence)]
        assert torch.allclose(*gradients, atol=1e-7)
