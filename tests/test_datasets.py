"""Data sets in every form that people have them, and damaged or hostile ones refused."""

import gzip
import lzma
import os
import pickle
import struct

import numpy as np
import pytest

from sbnn_hw.datasets import DATASETS, Images, default_root, find
from sbnn_hw.errors import DataMissing, UsageError


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def write_mnist(root, ending="", folder="MNIST/raw", name="{}-{}-idx{}-ubyte"):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 28, 28)).astype(np.uint8)
    labels = (np.arange(12) % 10).astype(np.uint8)
    pack = {"": bytes, ".gz": gzip.compress}[ending]
    (root / folder).mkdir(parents=True)
    for split in ("train", "t10k"):
        (root / folder / (name.format(split, "images", 3) + ending)).write_bytes(pack(idx(pixels)))
        (root / folder / (name.format(split, "labels", 1) + ending)).write_bytes(pack(idx(labels)))
    return pixels, labels


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist"])
def test_idx_files_plain_and_compressed(tmp_path, dataset, ending):
    folder = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[dataset]
    pixels, labels = write_mnist(tmp_path, ending, f"{folder}/raw")
    images = find(dataset).load("test", tmp_path)
    assert np.array_equal(images.pixels[..., 0], pixels)
    assert np.array_equal(images.labels, labels)


def test_root_comes_from_the_environment(tmp_path, monkeypatch):
    write_mnist(tmp_path)
    monkeypatch.setenv("SBNN_DATA", str(tmp_path))
    assert len(find("mnist").load("train")) == 12
    monkeypatch.delenv("SBNN_DATA")
    assert str(default_root()) == "data"


def test_missing_data_says_where_and_how(tmp_path):
    with pytest.raises(
        DataMissing,
        match=r"^No MNIST data at \S+MNIST/raw/train-images-idx3-ubyte \(point --data-root or "
        r"\$SBNN_DATA at the folder that holds MNIST/\)$",
    ):
        find("mnist").load("train", str(tmp_path))
    with pytest.raises(UsageError, match=r"^Data set must be one of digits, mnist, .* not 'x'$"):
        find("x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is not an idx file of 3 axes"),
        (idx(np.zeros((12, 28, 28), np.uint8))[:-1], "is cut short or too long"),
        (idx(np.zeros((12, 28), np.uint8)), "is not an idx file of 3 axes"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "is cut short or too long"),
        (idx(np.zeros((11, 28, 28), np.uint8)), "has 11 images and 12 labels"),
        (idx(np.zeros((12, 27, 28), np.uint8)), "must have shape"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, content, message):
    write_mnist(tmp_path)
    (tmp_path / "MNIST/raw/t10k-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DataMissing, match=message):
        find("mnist").load("test", tmp_path)


def test_a_damaged_archive_is_refused(tmp_path):
    write_mnist(tmp_path, ".gz")
    path = tmp_path / "MNIST/raw/t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataMissing, match=r"^Cannot read \S+\.gz \("):
        find("mnist").load("test", tmp_path)


def cifar_arrays(count=4):
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, 3072)).astype(np.uint8), (np.arange(count) % 10)


def expected(pixels):
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("pack", [None, lzma.compress])
def test_cifar_binary_version(tmp_path, pack):
    pixels, labels = cifar_arrays()
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    content = np.concatenate([labels[:, None].astype(np.uint8), pixels], 1).tobytes()
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        path = folder / f"{name}.bin"
        if pack:
            path = path.with_suffix(".bin.xz")
        path.write_bytes(pack(content) if pack else content)
    images = find("cifar10").load("test", tmp_path)
    assert np.array_equal(images.pixels, expected(pixels))
    assert images.labels.tolist() == labels.tolist()
    assert len(find("cifar10").load("train", tmp_path)) == 20
    (folder / "test_batch.bin").write_bytes(content[:-5])
    with pytest.raises(DataMissing, match=r"test_batch\.bin is cut short"):
        find("cifar10").load("test", tmp_path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar_pickles(tmp_path, protocol):
    pixels, labels = cifar_arrays()
    batch = {b"data": pixels, b"labels": labels.tolist(), b"fine_labels": labels.tolist()}
    for folder, names in (
        ("cifar-10-batches-py", [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]),
        ("cifar-100-python", ["train", "test"]),
    ):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
    for dataset in ("cifar10", "cifar100"):
        images = find(dataset).load("test", tmp_path)
        assert np.array_equal(images.pixels, expected(pixels))
        assert images.labels.tolist() == labels.tolist()


def test_pickles_as_python_2_wrote_them(tmp_path):
    """The official files: protocol 2, byte strings, numpy.core.multiarray."""
    pixels, labels = cifar_arrays(2)
    raw = pixels.tobytes()
    body = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray"
        b"\nq\x04K\x00\x85U\x01b\x87Rq\x05(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00"
        b"K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<I", len(raw)) + raw
        + b"tbU\x06labelsq\x08]q\x09(K\x00K\x01eu."
    )  # fmt: skip
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(body)
    images = find("cifar10").load("test", tmp_path)
    assert np.array_equal(images.pixels, expected(pixels))
    assert images.labels.tolist() == labels.tolist()


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({b"data": Bomb(), b"labels": []}),
        pickle.dumps(Bomb()),
        pickle.dumps({b"data": np.array([Bomb()], object), b"labels": [0]}),
        b'cbuiltins\neval\n(S\'open("exploded","w")\'\ntR.',
        b"not a pickle",
        b"",
        pickle.dumps({b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}),
    ],
)
def test_hostile_and_damaged_pickles_are_refused_and_run_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(content)
    with pytest.raises(DataMissing, match=r"test_batch is not a CIFAR file \("):
        find("cifar10").load("test", tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_digits_are_always_there():
    train, test = (find("digits").load(split) for split in ("train", "test"))
    assert (len(train), len(test)) == (1437, 360)
    assert train.pixels.max() == 255
    assert not {p.tobytes() for p in train.pixels} >= {p.tobytes() for p in test.pixels}


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_real_data_has_its_geometry(name):
    try:
        images = find(name).load("test")
    except DataMissing as error:
        pytest.skip(str(error))
    assert images.pixels.shape[1:] == DATASETS[name].shape
    assert len(images) in (360, 10_000)
    assert set(images.labels.tolist()) == set(range(DATASETS[name].classes))


def test_images_are_checked():
    with pytest.raises(ValueError, match=r"^Labels must be 2, not \(3,\)$"):
        Images(np.zeros((2, 1, 1, 1), np.uint8), np.zeros(3, np.uint8))
