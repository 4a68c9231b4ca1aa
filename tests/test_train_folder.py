"""Folders of image files: read as they are needed, the same however many workers there are."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up import CLASSES, image_folder
from PIL import Image

from sbnn_hw import datasets
from sbnn_hw.cli import main
from sbnn_hw.datasets import ImageFolder
from sbnn_hw.errors import DataMissing, ModelRejected
from sbnn_hw.train import TrainConfig, load_checkpoint
from sbnn_hw.train.checkpoint import used_values
from sbnn_hw.train.data import Augmentation, split_validation
from sbnn_hw.train.folder import (
    EIGENVALUES,
    EIGENVECTORS,
    central_view,
    decode,
    open_folder,
    random_view,
)
from sbnn_hw.train.loop import train
from sbnn_hw.train.trainer import Trainer
from sbnn_hw.train.validation import accuracy


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a folder that holds imagenet/."""
    return image_folder(tmp_path_factory.mktemp("data"))


def small(folder, side=32):
    """Return the folder with crops of another size, which trains faster."""
    return ImageFolder(folder.root, folder.names, folder.files, folder.labels, (side, side, 3))


def opened(root, split="train"):
    folder, classes = datasets.find("imagenet").open(split, root)
    assert classes == 3
    return small(folder)


# What is in the folder


def test_classes_are_the_sorted_folders(root):
    folder, classes = datasets.find("imagenet").open("train", root)
    assert (classes, folder.names, folder.shape) == (3, CLASSES, (224, 224, 3))
    assert len(folder) == 3 * 8 + 4
    assert np.bincount(folder.labels).tolist() == [9, 9, 10]
    names = [folder.path(number).relative_to(folder.root).as_posix() for number in range(28)]
    assert names == sorted(names)
    assert names[-2:] == ["n10/n10_7.JPEG", "n10/print.jpg"]
    assert "n10/more/palette.png" in names
    assert all(name.startswith(CLASSES[k]) for name, k in zip(names, folder.labels, strict=True))


def test_the_root_may_be_the_data_set_itself(root):
    for split in ("train", "test"):
        one, two = (
            datasets.find("imagenet").open(split, place)[0] for place in (root, root / "imagenet")
        )
        assert one.files.tolist() == two.files.tolist()
        assert one.root == two.root


def test_a_class_without_test_images_moves_no_label(tmp_path):
    for name in ("train/a", "train/b", "train/c", "val/a", "val/c"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / name / "x.png")
    folder, classes = datasets.find("imagenet").open("test", tmp_path)
    assert (classes, folder.labels.tolist()) == (3, [0, 2])
    (tmp_path / "val/d").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "val/d/x.png")
    with pytest.raises(DataMissing, match=r"val/d is a class that \S+train does not have; both"):
        datasets.find("imagenet").open("test", tmp_path)


def test_folders_that_are_not_as_they_should_be_are_refused(tmp_path):
    find = datasets.find("imagenet")
    with pytest.raises(
        DataMissing,
        match=r"^No imagenet images at \S+imagenet/val \(point --data-root or \$SBNN_DATA at the "
        r"folder that holds imagenet/\)$",
    ):
        find.open("test", tmp_path)
    (tmp_path / "val").mkdir()
    (tmp_path / "val/ILSVRC2012_val_00000001.JPEG").write_bytes(b"")
    with pytest.raises(DataMissing, match=r"val has no folders of classes; put its images into"):
        find.open("test", tmp_path)
    (tmp_path / "val/a").mkdir()
    with pytest.raises(DataMissing, match=r"val/a has no images \(\.jpg, .*\); remove it, or"):
        find.open("test", tmp_path)
    with pytest.raises(DataMissing, match=r"^The images of imagenet are read one by one, which "):
        find.load("test", tmp_path)


def test_listing_needs_neither_torch_nor_pillow(root):
    code = (
        "import sys; from pathlib import Path; from sbnn_hw import datasets;"
        f"datasets.find('imagenet').open('train', Path({str(root)!r}));"
        "sys.exit('torch' in sys.modules or 'PIL' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# One image


def test_every_kind_of_file_becomes_three_colours(root):
    folder = opened(root)
    colours = {}
    for number in range(len(folder)):
        image = decode(folder.path(number))
        assert image.mode == "RGB"
        colours[folder.path(number).name] = np.asarray(image).mean((0, 1))
    assert np.ptp(colours["grey.JPEG"]) < 1
    assert colours["lossless.png"].argmax() == 1
    assert colours["print.jpg"].argmax() == 2
    assert colours["n02_0.JPEG"].argmax() == 1


def test_evaluation_sees_the_middle_of_the_shorter_side():
    image = Image.new("RGB", (96, 72))
    image.paste((255, 0, 0), (12, 0, 84, 72))  # the square in the middle is red
    view = central_view(image, 224)
    assert view.shape == (224, 224, 3)
    assert (view[..., 0] == 255).all()
    # 300×500 becomes 256×426, of which rows 101 to 325 and columns 16 to 240 are seen.
    rows = np.repeat(np.arange(500, dtype=np.uint8)[:, None] % 250, 300, 1)
    tall = Image.fromarray(rows).convert("RGB")
    resized = tall.resize((256, 426), Image.Resampling.BILINEAR)
    expected = np.asarray(resized)[101:325, 16:240]
    assert np.array_equal(central_view(tall, 224), expected)
    assert central_view(Image.new("RGB", (1, 7)), 224).shape == (224, 224, 3)


def test_training_sees_crops_of_the_areas_and_ratios_that_are_said(monkeypatch):
    seen = []
    crop = Image.Image.crop
    monkeypatch.setattr(Image.Image, "crop", lambda self, box: seen.append(box) or crop(self, box))
    rng = np.random.default_rng(3)
    image = Image.new("RGB", (80, 100))
    for _ in range(300):
        assert random_view(image, 24, flip=False, rng=rng).shape == (24, 24, 3)
    left, top, right, bottom = np.array(seen).T
    assert min(left.min(), top.min()) == 0
    assert right.max() <= 80
    assert bottom.max() <= 100
    area = (right - left) * (bottom - top) / 8000
    assert 0.07 < area.min() < 0.12
    assert area.max() > 0.85
    ratio = (right - left) / (bottom - top)
    assert 0.72 < ratio.min() < 0.8
    assert 1.25 < ratio.max() < 1.39
    seen.clear()
    random_view(Image.new("RGB", (300, 10)), 24, flip=False, rng=rng)  # no such crop exists
    assert seen == [(143, 0, 156, 10)]


def test_light_changes_along_the_principal_colours():
    rng = np.random.default_rng(4)
    image = Image.new("RGB", (40, 40), (128, 128, 128))
    views = [random_view(image, 8, flip=False, rng=rng) for _ in range(2000)]
    assert all(len(np.unique(view.reshape(-1, 3), axis=0)) == 1 for view in views)
    shifts = np.array([view[0, 0] for view in views]) - 128.0
    covariance = np.cov(shifts.T)
    expected = EIGENVECTORS @ np.diag((25.5 * EIGENVALUES) ** 2) @ EIGENVECTORS.T
    assert np.allclose(covariance, expected, atol=1.5)
    assert expected[0, 0] > 8


def test_half_of_the_images_are_mirrored():
    image = Image.new("RGB", (64, 64))
    image.paste((200, 200, 200), (0, 0, 32, 64))
    rng = np.random.default_rng(5)
    for flip, low, high in ((True, 60, 140), (False, 0, 20)):
        views = [random_view(image, 16, flip=flip, rng=rng)[..., 0] for _ in range(200)]
        assert low <= sum(int(v[0, 0]) < int(v[0, -1]) for v in views) <= high


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("damage", ["cut", "text", "empty", "deep"])
def test_a_damaged_image_is_refused_by_name(tmp_path, damage, workers):
    for name in ("train/a", "train/b"):
        (tmp_path / name).mkdir(parents=True)
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
        Image.fromarray(noise).save(tmp_path / name / "good.jpg")
    bad = tmp_path / "train/b/bad.png"
    if damage == "cut":
        bad.write_bytes((tmp_path / "train/b/good.jpg").read_bytes()[:700])
    elif damage == "deep":
        Image.fromarray(np.full((9, 9), 40_000, np.uint16)).save(bad)
    else:
        bad.write_text("no image" if damage == "text" else "")
    images = open_folder(datasets.find("imagenet").open("train", tmp_path)[0], workers=workers)
    message = {
        "deep": r"^\S+/b/bad\.png has more than 8 bits per channel; save it with 8 bits, or remove",
    }.get(damage, r"^\S+/b/bad\.png cannot be read as an image \(.+\); fetch it again, or remove")
    for batches in (
        images.evaluation_batches(),
        images.batches(3, classes=2, seed=0, epoch=0, augmentation=Augmentation()),
    ):
        with pytest.raises(DataMissing, match=message) as refused:
            list(batches)
        assert "\n" not in str(refused.value)


# Batches


def test_a_pipe_or_a_picture_that_is_too_large_is_refused_by_name(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(DataMissing, match=r"pipe\.png cannot be read as an image \(.*a pipe or a"):
        decode(tmp_path / "pipe.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for side in (12, 20):  # of which Pillow warns, and which it refuses
        Image.new("RGB", (side, side)).save(tmp_path / "large.png")
        with pytest.raises(DataMissing, match=r"large\.png is too large: it has more than 100 pix"):
            decode(tmp_path / "large.png")


def epoch_of(images, epoch=0, seed=0, size=6, **augmentation):
    return list(
        images.batches(
            size, classes=3, seed=seed, epoch=epoch, augmentation=Augmentation(**augmentation)
        )
    )


def equal(one, two):
    return len(one) == len(two) and all(
        torch.equal(a, b) for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_workers_change_no_batch(root, mixup):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    alone = epoch_of(open_folder(opened(root)), flip=True, mixup=mixup)
    assert equal(epoch_of(open_folder(opened(root), workers=2), flip=True, mixup=mixup), alone)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(alone) == 4
    assert not equal(epoch_of(open_folder(opened(root)), epoch=1, flip=True, mixup=mixup), alone)
    assert not equal(epoch_of(open_folder(opened(root)), seed=1, flip=True, mixup=mixup), alone)


def test_an_image_looks_the_same_in_whichever_batch_it_comes(root):
    """Its random numbers are of the seed, the epoch and the image, not of its neighbours."""
    images = open_folder(opened(root))
    large = torch.cat([pixels for pixels, _ in epoch_of(images, size=28)])
    alone = torch.cat([pixels for pixels, _ in epoch_of(images, size=2)])
    assert torch.equal(large, alone)
    assert len({image.numpy().tobytes() for image in large}) == 28
    again = torch.cat([pixels for pixels, _ in epoch_of(images, size=28, epoch=1)])
    assert not {i.numpy().tobytes() for i in large} & {i.numpy().tobytes() for i in again}


def test_equal_files_are_not_seen_alike(root, tmp_path):
    """Each image has random numbers of its own, also in one batch."""
    content = (root / "imagenet/train/n01/n01_0.JPEG").read_bytes()
    for name in ("a", "b"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "train" / name / f"{number}.jpg").write_bytes(content)
    images = open_folder(small(datasets.find("imagenet").open("train", tmp_path)[0]))
    ((pixels, _),) = epoch_of(images, size=8)
    assert len({image.numpy().tobytes() for image in pixels}) == 8


@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_processes_take_slices_of_what_one_would_see(root, monkeypatch, mixup):
    """Two processes; each decodes its own half, and what it is mixed with."""
    images = open_folder(opened(root))
    whole = epoch_of(images, flip=True, mixup=mixup)
    for rank in (0, 1):
        monkeypatch.setattr("sbnn_hw.train.data.world_size", lambda: 2)
        monkeypatch.setattr("sbnn_hw.train.data.rank", lambda rank=rank: rank)
        half = slice(3 * rank, 3 * rank + 3)
        mine = epoch_of(images, flip=True, mixup=mixup)
        assert equal(mine, [(pixels[half], targets[half]) for pixels, targets in whole])
        decoded = []
        monkeypatch.setattr(
            "sbnn_hw.train.folder.decode",
            lambda path, decoded=decoded: decoded.append(path) or Image.new("RGB", (8, 8)),
        )
        epoch_of(images, flip=True, mixup=mixup)
        assert len(decoded) == len(set(decoded))
        assert len(decoded) == 12 if not mixup else 12 < len(decoded) <= 24
        monkeypatch.undo()


def test_mixup_mixes_images_and_labels_alike(root):
    """The classes are red, green and blue, so the colour tells the target."""
    folder = opened(root)
    pure = np.array([folder.path(n).name[0] == "n" for n in range(len(folder))])
    images = open_folder(folder).take(torch.from_numpy(np.flatnonzero(pure)))
    mixed = 0
    for pixels, targets in epoch_of(images, mixup=1.0):
        assert torch.allclose(targets.sum(1), torch.ones(6))
        colours = (pixels.mean((2, 3)) - 30) / 180
        assert torch.allclose(colours, targets, atol=0.12)
        mixed += int(((targets > 0).sum(1) == 2).sum())
    assert mixed > 3


def test_evaluation_is_of_all_images_in_order(root):
    folder = opened(root)
    images = open_folder(folder, workers=1)
    (batch,) = images.evaluation_batches()
    assert batch[0].dtype == torch.uint8
    assert batch[1].tolist() == folder.labels.tolist()
    last = central_view(decode(folder.path(27)), 32)
    assert np.array_equal(batch[0][27].numpy(), last.transpose(2, 0, 1))
    (few,) = images.take(torch.arange(27, -1, -1)).evaluation_batches(2)
    assert torch.equal(few[0], batch[0][[27, 26]])


def test_validation_images_are_held_out(root):
    images = open_folder(opened(root))
    kept, held = split_validation(images, 5, seed=3)
    assert (len(kept), len(held)) == (23, 5)
    assert sorted([*kept.numbers.tolist(), *held.numbers.tolist()]) == list(range(28))
    assert split_validation(images, 5, seed=3)[1].numbers.tolist() == held.numbers.tolist()


# Training

TINY = TrainConfig(
    model="reactnet_a", data="imagenet", width=0.125, normalise="imagenet", ec=0.3, gamma=0.2,
    epochs=2, batch=6, flip=True, lr=3e-3, validation=5, recalibrate=12, threads=1,
)  # fmt: skip


def test_a_trainer_takes_a_folder(root):
    trainer = Trainer(TINY, opened(root), classes=3)
    assert trainer.model_config.shape == (32, 32, 3)
    assert (len(trainer.images), len(trainer.validation)) == (23, 5)
    assert 0 <= accuracy(trainer.model, trainer.validation) <= 1
    with pytest.raises(ModelRejected, match=r"^Image files are cropped at random sizes; "):
        Trainer(replace(TINY, crop=4), opened(root), classes=3)
    with pytest.raises(ModelRejected, match=r"^Noise needs values that are held in memory; "):
        Trainer(replace(TINY, jitter=0.1), opened(root), classes=3)


def test_colours_are_learned(root):
    config = replace(TINY, epochs=8, model="reactnet18", width=0.25, method="none", lr=0.01)
    trainer = Trainer(replace(config, recalibrate=23), opened(root), classes=3)

    class Silent:
        def step(self, **_):
            pass

    for _ in range(config.epochs):
        trainer.run_epoch(Silent())
    assert accuracy(trainer.model, open_folder(opened(root, "test"))) >= 0.9


def command(capsys, *words):
    assert main([str(word) for word in words]) in (0, None)
    return json.loads(capsys.readouterr().out)


def test_a_run_goes_on_with_other_workers_to_the_same_weights(root, tmp_path, monkeypatch):
    """Two epochs at the full 224×224, by the library; stopped after the first."""
    config = replace(TINY, recalibrate=0)
    whole = train(config, tmp_path / "whole.pt", data_root=root)
    run_epoch = Trainer.run_epoch

    class Stopped(Exception):
        pass

    def interrupted(self, progress):
        if self.epoch == 1:
            raise Stopped
        return run_epoch(self, progress)

    monkeypatch.setattr(Trainer, "run_epoch", interrupted)
    with pytest.raises(Stopped):
        train(config, tmp_path / "parts.pt", data_root=root)
    monkeypatch.undo()
    parts = train(replace(config, workers=1), tmp_path / "parts.pt", data_root=root, resume=True)
    one, two = used_values(whole.model), used_values(parts.model)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_command_line_trains_and_evaluates(root, tmp_path, capsys):
    out = tmp_path / "a.pt"
    command(
        capsys, "train", "--model", "reactnet_a", "--width", 0.125, "--data", "imagenet",
        "--data-root", root, "--normalise", "imagenet", "--epochs", 1, "--batch", 6, "--workers", 1,
        "--validation", 0, "--recalibrate", 0, "--threads", 1, "--out", out, "--json",
    )  # fmt: skip
    assert load_checkpoint(out).config.classes == 3
    answer = command(
        capsys, "eval", "--model", out, "--data", "imagenet", "--data-root", root, "--using",
        "torch", "--json",
    )  # fmt: skip
    assert answer["images"] == 12
    images = open_folder(datasets.find("imagenet").open("test", root)[0])
    assert answer["correct"] == round(12 * accuracy(load_checkpoint(out).model, images))
    assert main(["eval", "--model", str(out), "--data", "imagenet", "--data-root", str(root)]) == 2
    assert (
        "Only torch can evaluate the images of imagenet; add --using torch"
        in capsys.readouterr().err
    )


def test_the_classes_of_a_folder_must_be_the_models(root, tmp_path, capsys):
    train(replace(TINY, epochs=1, validation=0, recalibrate=0), tmp_path / "a.pt", data_root=root)
    for name in ("a", "b"):
        (tmp_path / "val" / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "val" / name / "x.png")
    words = ("eval", "--model", tmp_path / "a.pt", "--data", "imagenet", "--using", "torch")
    assert main([*map(str, words), "--data-root", str(tmp_path)]) == 1
    assert "takes images of 224×224×3 in 3 classes, but imagenet" in capsys.readouterr().err


def test_two_processes_train_on_a_folder(root, tmp_path):
    out = tmp_path / "a.pt"
    options = {
        "model": "reactnet_a", "width": 0.125, "data": "imagenet", "data-root": root,
        "normalise": "imagenet", "epochs": 1, "batch": 6, "validation": 0, "recalibrate": 0,
        "mixup": 1.0, "workers": 1, "out": out,
    }  # fmt: skip
    given = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            "--master-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
            "127.0.0.1:0", "-m", "sbnn_hw", "train", *given,
        ],
        capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("checkpoint  ") == 1
    assert load_checkpoint(out).config.classes == 3
