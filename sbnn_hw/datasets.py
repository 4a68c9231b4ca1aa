"""Read image data sets from the usual folders, as numpy arrays.

Images are bytes of shape (count, height, width, channels), labels integers of shape (count,).
ImageNet is too large for that: its files are listed here, and decoded where they are needed.
Nothing is downloaded; what is not there is reported with the place where it was looked for.
"""

import gzip
import lzma
import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import DataMissing, ToolMissing, UsageError

__all__ = ["DATASETS", "Dataset", "ImageFolder", "Images", "default_root", "find"]

Bytes = npt.NDArray[np.uint8]
Split = Literal["train", "test"]


@dataclass(frozen=True)
class Images:
    """Images with their labels: (count, height, width, channels) and (count,).

    Pixels are bytes. Values of one's own may have up to 16 bits.
    """

    pixels: npt.NDArray[Any]
    labels: npt.NDArray[Any]

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.pixels.dtype not in (np.uint8, np.uint16):
            raise ValueError(f"Pixels must be bytes in four axes, not {self.pixels.dtype!r}")
        if self.labels.shape != self.pixels.shape[:1]:
            raise ValueError(f"Labels must be {len(self.pixels)}, not {self.labels.shape!r}")

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, height, width, channels = self.pixels.shape
        return height, width, channels


@dataclass(frozen=True)
class ImageFolder:
    """Image files of any size with their labels, one folder a class; none is read yet."""

    root: Path  # The folder of the split, which holds those of the classes.
    names: tuple[str, ...]  # The classes, sorted; a label is a place in this list.
    # Paths below ``root``, by class and then by name. In an array, since worker processes would
    # copy a million Python objects the moment they look at them.
    files: npt.NDArray[np.bytes_]
    labels: npt.NDArray[np.int64]  # One for each file.
    # Height, width and channels of what a model is given: images are cropped to it.
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.files)

    def path(self, number: int) -> Path:
        """Return where an image lies."""
        return self.root / os.fsdecode(bytes(self.files[number]))


@dataclass(frozen=True)
class Dataset:
    """A data set by name: its geometry, and how its splits are read from a folder.

    Without a number of ``classes`` they are counted in the folder, and images are not held in
    memory: such a data set is opened, not loaded.
    """

    #: What it is called.
    name: str
    #: Height, width and channels of an image.
    shape: tuple[int, int, int]
    #: Number of classes, if it is fixed.
    classes: int | None
    #: The files that it is read from, in words.
    where: str
    #: Reads a split.
    read: Callable[[Path, Split], Images | ImageFolder]
    #: What data of one's own say too: bits of a value, images to choose an epoch by, names.
    bits: ClassVar[int] = 8
    validation: ClassVar[None] = None
    meaning: ClassVar[None] = None

    def open(
        self, split: Split, root: str | Path | None = None
    ) -> tuple[Images | ImageFolder, int]:
        """Return one split in the form in which it is stored, and the number of classes."""
        if self.classes is not None:
            return self.load(split, root), self.classes
        images = self.read(default_root() if root is None else Path(root), split)
        assert isinstance(images, ImageFolder)
        return images, len(images.names)

    def load(self, split: Split, root: str | Path | None = None) -> Images:
        """Read one split, from ``root`` or else from where data sets are looked for."""
        if self.classes is None:
            raise DataMissing(
                f"The images of {self.name} are read one by one, which only `sbnn-hw train` and "
                f"`sbnn-hw eval --using torch` can do; name another data set"
            )
        images = self.read(default_root() if root is None else Path(root), split)
        assert isinstance(images, Images)
        if images.pixels.shape[1:] != self.shape or not len(images):
            raise DataMissing(
                f"The {split} images of {self.name} must have shape {self.shape}, "
                f"not {images.pixels.shape[1:]}; fetch the data set again"
            )
        if int(images.labels.max()) >= self.classes:
            raise DataMissing(
                f"The {split} labels of {self.name} must be below {self.classes}, "
                f"not {int(images.labels.max())}; fetch the data set again"
            )
        return images


def default_root() -> Path:
    """Return the folder of data sets: ``$SBNN_DATA``, or ``data`` below the working folder."""
    return Path(os.environ.get("SBNN_DATA") or "data")


def find(name: str) -> Dataset:
    """Return the data set of that name."""
    if name not in DATASETS:
        raise UsageError(f"Data set must be one of {', '.join(DATASETS)}, not {name!r}")
    return DATASETS[name]


# Files


def _open_any(path: Path) -> IO[bytes]:
    """Open a file that may be compressed, by its ending."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix)
    return opener(path, "rb") if opener else path.open("rb")  # type: ignore[operator]


def _read(path: Path, most: int) -> bytes:
    """Read at most ``most`` bytes, so that a compression bomb cannot fill the memory."""
    try:
        with _open_any(path) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataMissing(f"Cannot read {path} ({error}); fetch the data set again") from None
    if len(content) > most:
        raise DataMissing(f"{path} is larger than the data set it should hold; fetch it again")
    return content


def _first_of(root: Path, name: str, candidates: Iterable[str]) -> Path:
    candidates = list(candidates)
    for candidate in candidates:
        if (path := root / candidate).is_file():
            return path
    raise DataMissing(
        f"No {name} data at {root / candidates[0]} (point --data-root or $SBNN_DATA at the "
        f"folder that holds {candidates[0].split('/')[0]}/)"
    )


# MNIST and Fashion-MNIST: idx files


def _parse_idx(content: bytes, axes: int, path: Path) -> Bytes:
    head = 4 + 4 * axes
    if len(content) < head or content[:4] != bytes([0, 0, 8, axes]):
        raise DataMissing(f"{path} is not an idx file of {axes} axes; fetch the data set again")
    shape = np.frombuffer(content, ">u4", axes, 4).tolist()
    if len(content) - head != np.prod(shape, dtype=object):
        raise DataMissing(f"{path} is cut short or too long; fetch the data set again")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def _mnist_reader(folder: str, name: str) -> Callable[[Path, Split], Images]:
    def read(root: Path, split: Split) -> Images:
        stem = "train" if split == "train" else "t10k"

        def part(kind: str, axes: int) -> Bytes:
            names = [f"{stem}-{kind}-idx{axes}-ubyte", f"{stem}-{kind}.idx{axes}-ubyte"]
            path = _first_of(
                root,
                name,
                (
                    f"{parent}{file}{end}"
                    for parent in (f"{folder}/raw/", f"{folder}/")
                    for file in names
                    for end in ("", ".gz")
                ),
            )
            return _parse_idx(_read(path, 100 << 20), axes, path)

        pixels, labels = part("images", 3), part("labels", 1)
        if len(pixels) != len(labels):
            raise DataMissing(
                f"{root / folder} has {len(pixels)} images and {len(labels)} labels; "
                f"fetch the data set again"
            )
        return Images(pixels[..., np.newaxis], labels)

    return read


# CIFAR: the binary version, or the pickles that torchvision downloads


class _InertArray:
    """Stands in for a pickled numpy array: takes its state, runs nothing."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _InertDtype(_InertArray):
    """Stands in for a pickled numpy dtype."""

    def __init__(self, name: object = None, *_: object) -> None:
        super().__init__()
        self.name = name


def _encode_latin1(text: str, _: str) -> bytes:
    """Stand in for how Python 3 writes byte strings in old protocols."""
    return text.encode("latin1")


class _CifarUnpickler(pickle.Unpickler):
    """Admits just what CIFAR files use; any other name in the pickle is refused."""

    _ADMITTED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"): _InertArray,
        ("numpy._core.multiarray", "_reconstruct"): _InertArray,
        ("numpy", "ndarray"): _InertArray,
        ("numpy", "dtype"): _InertDtype,
        ("_codecs", "encode"): _encode_latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ADMITTED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._ADMITTED[module, name]


def _array_of(inert: object) -> Bytes:
    """Turn the state of a pickled array into bytes, if it is a plain byte array."""
    if isinstance(inert, _InertArray) and isinstance(inert.state, tuple) and len(inert.state) == 5:
        _, shape, dtype, fortran, content = inert.state
        if isinstance(content, str):
            content = content.encode("latin1")
        plain = isinstance(dtype, _InertDtype) and dtype.name in ("u1", b"u1")
        if plain and isinstance(content, bytes) and not fortran and len(shape) == 2:
            return np.frombuffer(content, np.uint8).reshape(shape)
    raise ValueError("its images are not a plain array of bytes")


def _read_cifar_pickle(path: Path, label_key: bytes) -> tuple[Bytes, Bytes]:
    try:
        with path.open("rb") as file:
            content = _CifarUnpickler(file, encoding="bytes").load()
        return _array_of(content[b"data"]), np.array(content[label_key], dtype=np.uint8)
    except OSError as error:
        raise DataMissing(f"Cannot read {path} ({error}); fetch the data set again") from None
    except Exception as error:  # a damaged pickle may raise anything; none of it is our bug
        raise DataMissing(
            f"{path} is not a CIFAR file ({str(error) or type(error).__name__}); "
            f"fetch the data set again"
        ) from None


def _read_cifar_binary(path: Path, label_bytes: int) -> tuple[Bytes, Bytes]:
    record = label_bytes + 3072
    content = np.frombuffer(_read(path, 50_000 * record), np.uint8)
    if not len(content) or len(content) % record:
        raise DataMissing(f"{path} is cut short; fetch the data set again")
    records = content.reshape(-1, record)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def _cifar_reader(
    name: str,
    *,
    binary: dict[str, list[str]],
    python: dict[str, list[str]],
    label_bytes: int,
    label_key: bytes,
) -> Callable[[Path, Split], Images]:
    def read(root: Path, split: Split) -> Images:
        parts = []
        for bin_file, pickle_file in zip(binary[split], python[split], strict=True):
            path = _first_of(root, name, (bin_file, f"{bin_file}.xz", pickle_file))
            if path == root / pickle_file:
                parts.append(_read_cifar_pickle(path, label_key))
            else:
                parts.append(_read_cifar_binary(path, label_bytes))
        pixels = np.concatenate([pixels for pixels, _ in parts])
        labels = np.concatenate([labels for _, labels in parts])
        if pixels.shape[1] != 3072 or len(pixels) != len(labels):
            raise DataMissing(f"The {name} files below {root} are damaged; fetch them again")
        # Planes of red, green and blue become one pixel of three channels.
        return Images(
            np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels
        )

    return read


# scikit-learn's digits


def _read_digits(_: Path, split: Split) -> Images:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ToolMissing(
            "The digits data set needs scikit-learn (pip install 'sbnn-hw[train]')"
        ) from None
    bunch = load_digits()
    # Sixteen grey levels become the bytes that every other data set has.
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    labels = bunch.target.astype(np.uint8)
    # Every fifth image is for the test; the order of the file mixes writers and classes.
    chosen = (np.arange(len(pixels)) % 5 == 0) == (split == "test")
    return Images(pixels[chosen], labels[chosen])


# ImageNet: a folder of files for each class, as torchvision's ImageFolder has it

#: The endings that torchvision takes for images.
_IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def _class_names(folder: Path) -> tuple[str, ...]:
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(folder)
            if entry.is_dir() and not entry.name.startswith(".")
        )
    except OSError as error:
        raise DataMissing(f"Cannot read {folder} ({error.strerror})") from None
    if not names:
        raise DataMissing(
            f"{folder} has no folders of classes; put its images into one folder for each class"
        )
    return tuple(names)


def _image_files(folder: Path, name: str) -> list[bytes]:
    """Return the images of a class and of what lies below, as paths that begin with its name."""
    found = []
    for place, _, files in os.walk(folder / name, followlinks=True):
        for file in files:
            if file.lower().endswith(_IMAGE_ENDINGS) and not file.startswith("."):
                found.append(os.fsencode(os.path.relpath(Path(place, file), folder)))
    return sorted(found)


def _folder_reader(name: str, shape: tuple[int, int, int]) -> Callable[[Path, Split], ImageFolder]:
    def read(root: Path, split: Split) -> ImageFolder:
        part = "train" if split == "train" else "val"
        # ROOT/imagenet/train, or ROOT itself is the data set.
        base = root if (root / part).is_dir() and not (root / name / part).is_dir() else root / name
        folder = base / part
        if not folder.is_dir():
            raise DataMissing(
                f"No {name} images at {folder} (point --data-root or $SBNN_DATA at the folder "
                f"that holds {name}/)"
            )
        present = _class_names(folder)
        # A class that lacks test images must not move the labels of those behind it.
        names = _class_names(base / "train") if (base / "train").is_dir() else present
        for unknown in sorted(set(present) - set(names)):
            raise DataMissing(
                f"{folder / unknown} is a class that {base / 'train'} does not have; both must "
                f"have the same folders"
            )
        files = {n: _image_files(folder, n) for n in present}
        for empty in (n for n in present if not files[n]):
            raise DataMissing(
                f"{folder / empty} has no images ({', '.join(_IMAGE_ENDINGS)}); remove it, or "
                f"fetch them again"
            )
        return ImageFolder(
            folder,
            names,
            np.array([file for n in present for file in files[n]]),
            np.repeat([names.index(n) for n in present], [len(files[n]) for n in present]),
            shape,
        )

    return read


_PY10, _BIN10 = "cifar-10-batches-py", "cifar-10-batches-bin"
_PY100, _BIN100 = "cifar-100-python", "cifar-100-binary"

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("digits", (8, 8, 1), 10, "scikit-learn", _read_digits),
        Dataset("mnist", (28, 28, 1), 10, "MNIST/raw", _mnist_reader("MNIST", "MNIST")),
        Dataset(
            "fashion_mnist",
            (28, 28, 1),
            10,
            "FashionMNIST/raw",
            _mnist_reader("FashionMNIST", "Fashion-MNIST"),
        ),
        Dataset(
            "cifar10",
            (32, 32, 3),
            10,
            f"{_BIN10} or {_PY10}",
            _cifar_reader(
                "CIFAR-10",
                binary={
                    "train": [f"{_BIN10}/data_batch_{n}.bin" for n in range(1, 6)],
                    "test": [f"{_BIN10}/test_batch.bin"],
                },
                python={
                    "train": [f"{_PY10}/data_batch_{n}" for n in range(1, 6)],
                    "test": [f"{_PY10}/test_batch"],
                },
                label_bytes=1,
                label_key=b"labels",
            ),
        ),
        Dataset(
            "cifar100",
            (32, 32, 3),
            100,
            f"{_BIN100} or {_PY100}",
            _cifar_reader(
                "CIFAR-100",
                binary={"train": [f"{_BIN100}/train.bin"], "test": [f"{_BIN100}/test.bin"]},
                python={"train": [f"{_PY100}/train"], "test": [f"{_PY100}/test"]},
                label_bytes=2,
                label_key=b"fine_labels",
            ),
        ),
        Dataset(
            "imagenet",
            (224, 224, 3),
            None,
            "imagenet/train and imagenet/val",
            _folder_reader("imagenet", (224, 224, 3)),
        ),
    )
}
