"""Images of a folder, decoded as they are needed: for data sets that no memory holds.

What happens to an image depends on the seed, the epoch and the image alone, so the batches are the
same however many processes train and however many workers decode.
"""

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sbnn_hw.datasets import ImageFolder
from sbnn_hw.errors import DataMissing, ToolMissing
from sbnn_hw.files import open_file
from sbnn_hw.train.data import Augmentation, make_generator, own_share

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image

__all__ = ["FolderImages", "central_view", "decode", "open_folder", "random_view"]

EVALUATION_BATCH = 100
#: Share of an image's area that a random crop has, and its width over its height.
CROP_AREA = (0.08, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
#: Side of a square that evaluation crops, and the shorter side of the image it is cropped from.
CROPPED, RESIZED = 224, 256
#: Noise along the principal colours of ImageNet, as ReActNet has it ("Lighting"): deviation, and
#: eigenvalues and eigenvectors (columns) of red, green and blue between 0 and 1.
LIGHTING = 0.1
EIGENVALUES = np.array([0.2175, 0.0188, 0.0045])
EIGENVECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)

Bytes = npt.NDArray[np.uint8]


# One image


def decode(path: "Path") -> "Image":
    """Read an image file of any kind that Pillow knows, as red, green and blue."""
    from PIL import Image, UnidentifiedImageError

    try:
        with open_file(path) as content, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            file = Image.open(content)
            if not file.mode.startswith(("I", "F")):
                # A palette with transparency goes by way of RGBA, or Pillow warns.
                image = file.convert("RGBA") if "transparency" in file.info else file
                return image.convert("RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataMissing(
            f"{path} is too large: it has more than {Image.MAX_IMAGE_PIXELS:,} pixels; scale it "
            f"down, or remove it"
        ) from None
    except Exception as error:  # a damaged file may raise anything; none of it is our bug
        unknown = isinstance(error, UnidentifiedImageError)
        reason = (
            "Pillow does not know its format" if unknown else str(error) or type(error).__name__
        )
        raise DataMissing(
            f"{path} cannot be read as an image ({reason}); fetch it again, or remove it"
        ) from None
    raise DataMissing(f"{path} has more than 8 bits per channel; save it with 8 bits, or remove it")


def random_view(image: "Image", side: int, *, flip: bool, rng: np.random.Generator) -> Bytes:
    """Return what training sees of an image: a random crop, mirrored or not, in random light."""
    from PIL.Image import Resampling

    box = _random_box(image.width, image.height, rng)
    cropped = image.crop(box).resize((side, side), Resampling.BILINEAR)
    light = 255 * EIGENVECTORS @ (EIGENVALUES * rng.normal(0, LIGHTING, 3))
    lit = np.asarray(cropped, np.float32) + light.astype(np.float32)
    pixels = np.clip(np.round(lit), 0, 255).astype(np.uint8)
    return pixels[:, ::-1] if flip and rng.random() < 0.5 else pixels


def _random_box(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Choose a part of an image: left, top, right, bottom."""
    for _ in range(10):
        area = width * height * rng.uniform(*CROP_AREA)
        ratio = math.exp(rng.uniform(*np.log(CROP_RATIO)))
        columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            left = int(rng.integers(0, width - columns + 1))
            top = int(rng.integers(0, height - rows + 1))
            return left, top, left + columns, top + rows
    # The image is long and narrow: the middle of it, in the ratio that is nearest.
    low, high = CROP_RATIO
    columns = min(width, max(1, round(height * high)))
    rows = min(height, max(1, round(width / low)))
    left, top = (width - columns) // 2, (height - rows) // 2
    return left, top, left + columns, top + rows


def central_view(image: "Image", side: int) -> Bytes:
    """Return what evaluation sees of an image: its middle, at the size that training expects."""
    from PIL.Image import Resampling

    shorter = round(side * RESIZED / CROPPED)
    # The longer side is rounded down, as torchvision does.
    width, height = (shorter * size // min(image.size) for size in image.size)
    left, top = round((width - side) / 2), round((height - side) / 2)
    resized = image.resize((width, height), Resampling.BILINEAR)
    return np.asarray(resized.crop((left, top, left + side, top + side)), np.uint8)


# Many images


@dataclass(frozen=True)
class _Views(Dataset[tuple[Tensor, int] | DataMissing]):
    """What worker processes do: from an image's number to its pixels, channels first."""

    folder: ImageFolder
    #: Seed, epoch and whether to mirror; None: as evaluation sees the images.
    training: tuple[int, int, bool] | None = None

    def __getitem__(self, number: int) -> tuple[Tensor, int] | DataMissing:
        try:
            image = decode(self.folder.path(number))
        except DataMissing as error:
            # Raised in a worker, it would come with the worker's traceback for a message.
            return error
        side = self.folder.shape[0]
        if self.training is None:
            pixels = central_view(image, side)
        else:
            seed, epoch, flip = self.training
            rng = np.random.default_rng([seed, epoch, 6, number])
            pixels = random_view(image, side, flip=flip, rng=rng)
        # A copy, since the array may be a mirror's view or Pillow's own memory.
        tensor = torch.from_numpy(np.array(pixels.transpose(2, 0, 1), order="C"))
        return tensor, int(self.folder.labels[number])


def _stack(items: list[tuple[Tensor, int] | DataMissing]) -> tuple[Tensor, Tensor] | DataMissing:
    pixels, labels = [], []
    for item in items:
        if isinstance(item, DataMissing):
            return item
        pixels.append(item[0])
        labels.append(item[1])
    return torch.stack(pixels), torch.tensor(labels)


@dataclass(frozen=True)
class FolderImages:
    """Some images of a folder, in some order; see :class:`~sbnn_hw.train.data.TrainingImages`.

    Pixels come as bytes, or mixed as floating point: a model normalises either.
    """

    folder: ImageFolder
    #: Which of them, in which order.
    numbers: Tensor
    #: Processes that decode (0: none but this one); no more than there are cores.
    workers: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.folder.shape

    def take(self, places: Tensor) -> "FolderImages":
        """Return the images at these places, in this order."""
        return replace(self, numbers=self.numbers[places])

    def batches(
        self, size: int, *, classes: int, seed: int, epoch: int, augmentation: Augmentation
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this process's share of each batch of an epoch: pixels and class probabilities.

        Only that share is decoded, and what it is mixed with. Crops are of random size and place;
        the margin of ``augmentation.crop`` and its rotation have no meaning here.
        """
        order = self.numbers[torch.randperm(len(self), generator=make_generator(seed, epoch, 2))]
        generator = make_generator(seed, epoch, 5)
        mix = np.random.default_rng([seed, epoch, 4])
        own = torch.arange(size)[own_share(size)]
        #: The images to decode for each batch, and where among them the own and the partners are.
        wanted: list[list[int]] = []
        places: list[Tensor] = []
        for start in range(0, len(order) - size + 1, size):
            pair = [own, torch.randperm(size, generator=generator)[own]]
            needed, place = torch.unique(
                torch.stack(pair if augmentation.mixup else pair[:1]), return_inverse=True
            )
            wanted.append(order[start : start + size][needed].tolist())
            places.append(place)
        views = _Views(self.folder, (seed, epoch, augmentation.flip))
        for place, (pixels, labels) in zip(places, self._decoded(views, wanted), strict=True):
            targets = F.one_hot(labels, classes).to(torch.get_default_dtype())
            if not augmentation.mixup:
                yield pixels[place[0]], targets[place[0]]
                continue
            kept = float(mix.beta(augmentation.mixup, augmentation.mixup))
            mine, partner = place
            pixels = pixels.to(torch.get_default_dtype())
            yield (
                kept * pixels[mine] + (1 - kept) * pixels[partner],
                kept * targets[mine] + (1 - kept) * targets[partner],
            )

    def evaluation_batches(self, first: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images, or the first few, in order and as they are: pixels and labels."""
        wanted = [part.tolist() for part in torch.split(self.numbers[:first], EVALUATION_BATCH)]
        yield from self._decoded(_Views(self.folder), wanted)

    def _decoded(
        self, views: _Views, wanted: Iterable[list[int]]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        # More workers than cores do not decode faster; torch would warn of them.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        workers = min(self.workers, cores or 1)
        for batch in DataLoader(
            views,
            batch_sampler=wanted,
            num_workers=workers,
            collate_fn=_stack,
            # Of its own: torch's is left as it was found, whether images are decoded or not.
            generator=torch.Generator(),
        ):
            if isinstance(batch, DataMissing):
                raise batch
            yield batch


def open_folder(folder: ImageFolder, *, workers: int = 0) -> FolderImages:
    """Return all images of a folder."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ToolMissing("Reading images needs Pillow (pip install 'sbnn-hw[train]')") from None
    return FolderImages(folder, torch.arange(len(folder)), workers)
