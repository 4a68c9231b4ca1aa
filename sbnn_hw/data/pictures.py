"""Folders of pictures: one folder for each class, perhaps below train, val and test."""

import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions, parse_size
from sbnn_hw.data.rows import LARGEST, Rows, check_name
from sbnn_hw.errors import DataMissing, ToolMissing
from sbnn_hw.files import open_file
from sbnn_hw.images import FORMATS, is_wide, plain_pixels

__all__ = ["ENDINGS", "read_pictures"]

#: Files with these endings are pictures.
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
#: Pictures with more pixels than this are not unpacked.
MOST_PIXELS = 64 << 20
_PARTS = {"train": "train", "val": "val", "validation": "val", "valid": "val", "test": "test"}


def read_pictures(
    folder: Path, options: DataOptions, channels: int | None = None
) -> dict[str, Rows]:
    """Return the pictures of each part, or of ``all``; their labels are the names of folders.

    ``channels`` asks for grey (1) or colour (3); else colour is kept where any picture has it.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ToolMissing("Reading pictures needs Pillow (pip install 'sbnn-hw[host]')") from None
    names = _folders(folder)
    parts = {name: _PARTS[name.lower()] for name in names if name.lower() in _PARTS}
    if parts and len(parts) < len(names):
        other = next(name for name in names if name not in parts)
        raise DataMissing(
            f"{folder} has {next(iter(parts))}/ and also {other}/; put classes below train/, val/ "
            f"and test/, or have no such folders"
        )
    if parts and "train" not in parts.values():
        raise DataMissing(f"{folder} has {next(iter(parts))}/, but no train/; add it")
    files = (
        {part: _pictures(folder / name, folder) for name, part in parts.items()}
        if parts
        else {"all": _pictures(folder, folder)}
    )
    everything = [path for part in files.values() for path, _ in part]
    if channels is None:
        channels = 1 if options.gray or all(_is_grey(Image, path) for path in everything) else 3
    size = parse_size(options.size) if options.size else _common_size(Image, everything, folder)
    if len(everything) * size[0] * size[1] * channels > LARGEST:
        raise DataMissing(f"{folder} holds more pictures than fit in memory; give a smaller --size")
    return {part: _rows(Image, found, size, channels, folder) for part, found in files.items()}


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise DataMissing(f"Cannot read {folder} ({error.strerror})") from None
    if not names:
        raise DataMissing(f"{folder} has no folders; put its pictures into one for each class")
    return names


def _pictures(folder: Path, root: Path) -> list[tuple[Path, str]]:
    """Return all pictures with their classes, in order."""
    found = []
    inside = os.path.realpath(root)
    for name in _folders(folder):
        check_name(name, f"{folder / name}")
        here = []
        for place, folders, files in os.walk(folder / name):
            folders.sort()
            for file in sorted(files):
                if file.lower().endswith(ENDINGS) and not file.startswith("."):
                    here.append(Path(place, file))
        if not here:
            raise DataMissing(
                f"{folder / name} has no pictures ({', '.join(ENDINGS)}); add some, or remove it"
            )
        for path in here:
            if not Path(os.path.realpath(path)).is_relative_to(inside):
                raise DataMissing(f"{path} is a link to a place outside of {root}; copy it instead")
        found += [(path, name) for path in here]
    return found


@contextmanager
def _opened(Image: Any, path: Path) -> Iterator[Any]:
    """Open a picture; what it holds is unpacked only when it is used."""
    broken = f"{path} cannot be read as a picture; save it again"
    try:
        with open_file(path) as content, warnings.catch_warnings():
            # About what a file says of itself.
            warnings.simplefilter("ignore")
            image = Image.open(content, formats=FORMATS)
            if image.width * image.height > MOST_PIXELS:
                raise DataMissing(f"{path} has {image.width}×{image.height} pixels; scale it down")
            # Some cameras put a second picture behind the first, which is no animation.
            if image.format != "MPO" and getattr(image, "is_animated", False):
                raise DataMissing(
                    f"{path} has several pictures in it (an animation?); save one of them"
                )
            if is_wide(image):
                raise DataMissing(
                    f"{path} has more than 8 bits per channel; save it with 8 bits, since it is "
                    f"not known how to scale it"
                )
            yield image
    except Image.DecompressionBombError:
        raise DataMissing(f"{path} has too many pixels; scale it down") from None
    except DataMissing:
        raise
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        TypeError,
        KeyError,
        IndexError,
        struct.error,
    ):
        # Whatever a decoder stumbles over; none of it is our bug.
        raise DataMissing(broken) from None


def _is_grey(Image: Any, path: Path) -> bool:
    with _opened(Image, path) as image:
        if image.mode == "P":
            colours = np.array(image.getpalette("RGB")).reshape(-1, 3)
            return bool((colours == colours[:, :1]).all())
        return image.mode in ("1", "L", "LA")


def _common_size(Image: Any, paths: list[Path], folder: Path) -> tuple[int, int]:
    sizes: dict[tuple[int, int], Path] = {}
    for path in paths:
        with _opened(Image, path) as image:
            sizes.setdefault((image.height, image.width), path)
        if len(sizes) > 1:
            (a, first), (b, second) = list(sizes.items())[:2]
            raise DataMissing(
                f"{folder} has pictures of several sizes ({first} is {a[0]}×{a[1]}, {second} "
                f"{b[0]}×{b[1]}); give the size that the network takes, such as --size 32x32"
            )
    return next(iter(sizes))


def _rows(
    Image: Any,
    files: list[tuple[Path, str]],
    size: tuple[int, int],
    channels: int,
    root: Path,
) -> Rows:
    values: npt.NDArray[np.uint8] = np.zeros((len(files), *size, channels), np.uint8)
    for number, (path, _) in enumerate(files):
        with _opened(Image, path) as image:
            values[number] = plain_pixels(image, size, channels)
    return Rows(
        np.array([name for _, name in files]),
        values,
        places=tuple(str(path.relative_to(root)) for path, _ in files),
    )
