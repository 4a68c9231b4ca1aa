"""Images as a network takes them: from files, or made up."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import DataMissing, ToolMissing, UsageError
from sbnn_hw.files import open_file
from sbnn_hw.netlist import Network

__all__ = ["FORMATS", "is_wide", "plain_pixels", "random_images", "read_images"]

_MODES = {1: "L", 3: "RGB"}
#: What is read as a picture. Pillow knows more, and runs another program for some of it.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")


def read_images(
    paths: Sequence[str | Path], network: Network, *, resize: bool = False, invert: bool = False
) -> npt.NDArray[Any]:
    """Return image files, PNG or others that Pillow reads, as pixels of the network's shape.

    Parameters
    ----------
    paths : sequence of str or Path
        The files.
    network : Network
        The network that takes the images; it decides their size, and whether they are grey.
    resize : bool
        Scale images of another size, as training does; otherwise they are refused.
    invert : bool
        Swap black and white.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ToolMissing("Reading images needs Pillow (pip install 'sbnn-hw[host]')") from None
    shape = network.input.shape
    if len(shape) != 3 or shape[2] not in _MODES or network.input.bits != 8:
        raise UsageError(
            "Image files can be used only with networks that take 8-bit grey or colour images; "
            "name a data set (--data)"
        )
    height, width, channels = shape
    pixels = np.zeros((len(paths), height, width, channels), np.uint8)
    for number, path in enumerate(map(Path, paths)):
        try:
            with open_file(path) as content, warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                file = Image.open(content, formats=FORMATS)
                if is_wide(file):
                    raise UsageError(
                        f"{path} has more than 8 bits per channel; save it with 8 bits, since it "
                        f"is not known how to scale it"
                    )
                if file.size != (width, height) and not resize:
                    raise UsageError(
                        f"{path} has {file.width}×{file.height} pixels, but the model takes "
                        f"{width}×{height}; scale it, or add --resize"
                    )
                pixels[number] = plain_pixels(file, (height, width), channels)
        except FileNotFoundError:
            raise DataMissing(f"There is no image at {path}") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise DataMissing(
                f"{path} is too large: it has more than {Image.MAX_IMAGE_PIXELS:,} pixels; scale "
                f"it down"
            ) from None
        except (OSError, UnidentifiedImageError, ValueError):
            raise DataMissing(f"{path} cannot be read as an image") from None
    return 255 - pixels if invert else pixels


def is_wide(image: Any) -> bool:
    """Tell whether a picture has more than 8 bits per channel, which Pillow may cut off."""
    if image.mode.startswith(("I", "F")):
        return True
    return any(";16" in str(tile[3]) for tile in image.tile)


def plain_pixels(image: Any, size: tuple[int, int], channels: int) -> npt.NDArray[np.uint8]:
    """Return a picture as bytes (height, width, channels): upright, in grey or colour, scaled.

    What can be seen through is put on white.
    """
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    image = image.convert(_MODES[channels])
    if image.size != size[::-1]:
        image = image.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(*size, channels)


def random_images(network: Network, count: int, seed: int = 0) -> npt.NDArray[Any]:
    """Return made-up images: noise, with many pixels at the ends of their range."""
    rng = np.random.default_rng(seed)
    shape, most = (count, *network.input.shape), network.input.maximum
    noise = rng.integers(0, most + 1, shape)
    extreme = np.where(
        rng.random(shape) < rng.random((count, *(1 for _ in network.input.shape))), most, 0
    )
    pixels: npt.NDArray[Any] = np.where(rng.random(shape) < 0.5, extreme, noise)
    return pixels.astype(np.uint8 if network.input.bits <= 8 else np.int64)
