"""Images as tensors, shuffled, augmented and mixed; the same batches however many processes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sbnn_hw.datasets import Images
from sbnn_hw.train.parallel import rank, world_size

__all__ = [
    "Augmentation",
    "TensorImages",
    "TrainingImages",
    "make_generator",
    "own_share",
    "split_validation",
    "to_tensors",
]

EVALUATION_BATCH = 2000


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images."""

    #: Pad by that many pixels of value 0 and crop back at a random place.
    crop: int = 0
    #: Leave only a window of that many pixels a side, at a random place; 0 leaves all.
    window: int = 0
    #: Turn by up to that many degrees either way; what comes into view is 0.
    rotate: float = 0.0
    #: Move by up to that share of the side, grow or shrink by up to that share, and slant by up
    #: to that many degrees, either way; pixels are then interpolated.
    shift: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    #: Mirror half of the images left to right.
    flip: bool = False
    #: Add noise of that many times the deviation of each channel or column.
    jitter: float = 0.0
    #: α of MixUp's Beta(α, α); 0 leaves the images as they are.
    mixup: float = 0.0

    def __post_init__(self) -> None:
        amounts = (
            *(self.crop, self.window, self.rotate, self.shift, self.scale, self.shear),
            *(self.jitter, self.mixup),
        )
        if min(amounts) < 0:
            raise ValueError(f"Augmentation values must not be negative, not {self!r}")

    @property
    def affine(self) -> bool:
        """Whether images are turned, moved, scaled or slanted."""
        return any((self.rotate, self.shift, self.scale, self.shear))


def make_generator(seed: int, epoch: int, stream: int) -> torch.Generator:
    """Return a generator of its own for each use, so that an epoch needs no earlier one."""
    mixed = np.random.SeedSequence([seed, epoch, stream]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed >> np.uint64(1)))


def own_share(size: int) -> slice:
    """Return the part of a batch that this process computes."""
    share = size // world_size()
    return slice(rank() * share, (rank() + 1) * share)


class TrainingImages(Protocol):
    """What a run asks of its images, be they held in memory or read as they are needed."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""

    def __len__(self) -> int: ...

    def take(self, places: Tensor) -> Self:
        """Return the images at these places, in this order."""

    def batches(
        self, size: int, *, classes: int, seed: int, epoch: int, augmentation: Augmentation
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this process's share of each batch of an epoch: pixels and class probabilities.

        They depend on the seed and the epoch alone: several processes see what one would.
        """

    def evaluation_batches(self, first: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images, or the first few, in order and as they are: pixels and labels."""


@dataclass(frozen=True)
class TensorImages:
    """Pixels (count, channels, height, width) as bytes and labels (count,) as integers."""

    pixels: Tensor
    labels: Tensor
    #: Class probabilities to learn from in place of the labels, if there are any: of each image,
    #: and of its mirror image (count, 2, classes).
    lessons: Tensor | None = None

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, channels, height, width = self.pixels.shape
        return height, width, channels

    def take(self, places: Tensor) -> "TensorImages":
        """Return the images at these places, in this order."""
        lessons = self.lessons if self.lessons is None else self.lessons[places]
        return TensorImages(self.pixels[places], self.labels[places], lessons)

    def batches(
        self, size: int, *, classes: int, seed: int, epoch: int, augmentation: Augmentation
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this process's share of each batch of an epoch: pixels and class probabilities.

        Every process draws the whole batch and takes its slice, so that several processes see
        exactly what one would.
        """
        order = torch.randperm(len(self), generator=make_generator(seed, epoch, 2))
        generator = make_generator(seed, epoch, 3)
        mix = np.random.default_rng([seed, epoch, 4])
        noise = augmentation.jitter * self._deviations() if augmentation.jitter else None
        mine = own_share(size)
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            pixels = self.pixels[chosen]
            mirrored = torch.zeros(size, dtype=torch.bool)
            if augmentation.crop or augmentation.window:
                pixels = _random_crop(pixels, augmentation.crop, augmentation.window, generator)
            if augmentation.flip:
                mirrored = torch.rand(size, generator=generator) < 0.5
                pixels = torch.where(mirrored.view(-1, 1, 1, 1), pixels.flip(3), pixels)
            targets = self._targets(chosen, mirrored, classes)
            pixels = pixels.to(torch.get_default_dtype())
            if augmentation.affine:
                pixels = _random_affine(pixels, augmentation, generator)
            if noise is not None:
                drawn = torch.randn(pixels.shape, generator=generator, dtype=pixels.dtype)
                pixels = pixels + noise * drawn
            if augmentation.mixup:
                kept = float(mix.beta(augmentation.mixup, augmentation.mixup))
                partner = torch.randperm(size, generator=generator)
                pixels = kept * pixels + (1 - kept) * pixels[partner]
                targets = kept * targets + (1 - kept) * targets[partner]
            yield pixels[mine], targets[mine]

    def _targets(self, chosen: Tensor, mirrored: Tensor, classes: int) -> Tensor:
        """Return the class probabilities that the network should give."""
        if self.lessons is not None:
            return self.lessons[chosen, mirrored.long()]
        return F.one_hot(self.labels[chosen], classes).to(torch.get_default_dtype())

    def _deviations(self) -> Tensor:
        """Return the standard deviation of each channel, as (channels, 1, 1)."""
        values = self.pixels.to(torch.get_default_dtype())
        return values.std((0, 2, 3), correction=0).view(-1, 1, 1)

    def evaluation_batches(self, first: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images, or the first few, in order and as they are: pixels and labels."""
        parts = (torch.split(x[:first], EVALUATION_BATCH) for x in (self.pixels, self.labels))
        for pixels, labels in zip(*parts, strict=True):
            yield pixels.to(torch.get_default_dtype()), labels


def to_tensors(images: Images) -> TensorImages:
    """Return images as tensors, channels first."""
    pixels = np.array(images.pixels.transpose(0, 3, 1, 2), order="C")
    if pixels.dtype == np.uint16:
        # Torch can hold such integers, but not pick some of them.
        pixels = pixels.astype(np.int32)
    return TensorImages(torch.from_numpy(pixels), torch.from_numpy(images.labels.astype(np.int64)))


_Kind = TypeVar("_Kind", bound=TrainingImages)


def split_validation(images: _Kind, held_out: int, *, seed: int) -> tuple[_Kind, _Kind]:
    """Part the training images in two, by chance: those to learn from and those to choose by."""
    if not 0 <= held_out < len(images):
        raise ValueError(f"Validation images must be fewer than {len(images)}, not {held_out!r}")
    order = torch.randperm(len(images), generator=make_generator(seed, 0, 1))
    return images.take(order[held_out:]), images.take(order[:held_out])


def _random_crop(pixels: Tensor, margin: int, window: int, generator: torch.Generator) -> Tensor:
    """Cut out a piece at a random place: as large as the image, or a window that is smaller."""
    count, channels, *sides = pixels.shape
    padded = F.pad(pixels, (margin,) * 4)
    height, width = (min(window, side) if window else side for side in sides)
    tops = torch.randint(0, sides[0] + 2 * margin - height + 1, (count, 1), generator=generator)
    lefts = torch.randint(0, sides[1] + 2 * margin - width + 1, (count, 1), generator=generator)
    rows = tops + torch.arange(height)
    columns = lefts + torch.arange(width)
    return padded[
        torch.arange(count).view(-1, 1, 1, 1),
        torch.arange(channels).view(1, -1, 1, 1),
        rows.view(count, 1, height, 1),
        columns.view(count, 1, 1, width),
    ]


def _random_affine(
    pixels: Tensor, augmentation: Augmentation, generator: torch.Generator
) -> Tensor:
    """Turn each image about its centre, slant, scale and move it.

    Where it is only turned a pixel becomes the one nearest to where it came from, else pixels are
    interpolated.
    """
    count, _, height, width = pixels.shape

    def either_way(most: float) -> Tensor:
        turns = torch.rand(count, generator=generator, dtype=pixels.dtype)
        return (turns * 2 - 1) * most

    angle = either_way(math.radians(augmentation.rotate))
    rows = [angle.cos(), -angle.sin(), angle.sin(), angle.cos()]
    moves = [torch.zeros_like(angle)] * 2
    only_turned = not (augmentation.shift or augmentation.scale or augmentation.shear)
    if not only_turned:
        slant = either_way(math.radians(augmentation.shear)).tan()
        size = 1 + either_way(augmentation.scale)
        rows = [row / size for row in rows]
        rows = [rows[0], rows[1] + slant * rows[0], rows[2], rows[3] + slant * rows[2]]
        # From −1 to 1 is the whole side.
        moves = [either_way(2 * augmentation.shift) for _ in range(2)]
    # Coordinates run from −1 to 1 along either side, so an oblong image needs its proportions.
    matrix = torch.stack(
        [
            rows[0],
            rows[1] * height / width,
            moves[0],
            rows[2] * width / height,
            rows[3],
            moves[1],
        ],
        1,
    )
    grid = F.affine_grid(matrix.view(-1, 2, 3), list(pixels.shape), align_corners=False)
    mode = "nearest" if only_turned else "bilinear"
    return F.grid_sample(pixels, grid, mode=mode, align_corners=False)
