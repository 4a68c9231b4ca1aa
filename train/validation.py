"""How good a model is, and which epoch of a run is the best."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sbnn_hw.train.data import TrainingImages
from sbnn_hw.train.exact import has_integers

__all__ = ["Best", "accuracy"]


@torch.no_grad()
def accuracy(model: nn.Module, images: TrainingImages) -> float:
    """Return the share of images that the model, as it is, puts in the right class."""
    training = model.training
    model.eval()
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    right = 0
    for pixels, labels in images.evaluation_batches():
        # Integers are held in float64, which takes room.
        most = 250 if has_integers(model) else len(pixels)
        found = [model(part.to(device)).argmax(1).cpu() for part in torch.split(pixels, most)]
        right += int((torch.cat(found) == labels).sum())
    model.train(training)
    return right / len(images)


@dataclass
class Best:
    """The epoch chosen so far, by accuracy on validation images among those sparse enough."""

    epoch: int = -1
    accuracy: float = -1.0
    met: bool = False
    state: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, epoch: int, accuracy: float, met: bool, model: nn.Module) -> None:
        """Take the epoch if it is at least as good; until one is sparse enough, the latest."""
        better = accuracy >= self.accuracy if met and self.met else met >= self.met
        if better:
            self.epoch, self.accuracy, self.met = epoch, accuracy, met
            self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}
