"""Folders of pictures: one folder for each class, perhaps below train, val and test."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions, parse_size
from sbnn_hw.data.rows import LARGEST, Rows
from sbnn_hw.errors import DataMissing, ToolMissing

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
    inside = root.resolve()
    for name in _folders(folder):
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
            if not path.resolve().is_relative_to(inside):
                raise DataMissing(f"{path} is a link to a place outside of {root}; copy it instead")
        found += [(path, name) for path in here]
    return found


def _open(Image: Any, path: Path) -> Any:
    """Open a picture; what it holds is not unpacked yet."""
    from PIL import UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
    except Image.DecompressionBombError:
        raise DataMissing(f"{path} has too many pixels; scale it down") from None
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError):
        raise DataMissing(f"{path} cannot be read as a picture; save it again") from None
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise DataMissing(f"{path} has {image.width}×{image.height} pixels; scale it down")
    if getattr(image, "n_frames", 1) > 1:
        image.close()
        raise DataMissing(f"{path} has several pictures in it (an animation?); save one of them")
    if image.mode.startswith(("I", "F")):
        image.close()
        raise DataMissing(
            f"{path} has more than 8 bits per channel; save it with 8 bits, since it is not known "
            f"how to scale it"
        )
    return image


def _is_grey(Image: Any, path: Path) -> bool:
    with _open(Image, path) as image:
        return image.mode in ("1", "L", "LA")


def _common_size(Image: Any, paths: list[Path], folder: Path) -> tuple[int, int]:
    sizes: dict[tuple[int, int], Path] = {}
    for path in paths:
        with _open(Image, path) as image:
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
    from PIL import ImageOps

    values: npt.NDArray[np.uint8] = np.zeros((len(files), *size, channels), np.uint8)
    for number, (path, _) in enumerate(files):
        try:
            with _open(Image, path) as image, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about what a file says of itself
                upright = ImageOps.exif_transpose(image)
                plain = upright.convert("L" if channels == 1 else "RGB")
        except (OSError, ValueError, SyntaxError, EOFError):
            raise DataMissing(f"{path} cannot be read as a picture; save it again") from None
        if plain.size != size[::-1]:
            plain = plain.resize(size[::-1], Image.Resampling.BILINEAR)
        values[number] = np.asarray(plain, np.uint8).reshape(*size, channels)
    return Rows(
        np.array([name for _, name in files]),
        values,
        places=tuple(str(path.relative_to(root)) for path, _ in files),
    )
