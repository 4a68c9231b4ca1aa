"""Batches: reproducible, augmented as said, never a validation image among them."""

import numpy as np
import pytest
import torch

from sbnn_hw.datasets import Images
from sbnn_hw.train.data import (
    Augmentation,
    TensorImages,
    split_validation,
    to_tensors,
)


def numbered(count, height=6, width=5):
    """Return images whose every pixel is the image's number."""
    pixels = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, height, width)
    return TensorImages(pixels.contiguous(), torch.arange(count) % 3)


def epoch_of(images, epoch=0, seed=0, **augmentation):
    return list(
        images.batches(
            8, classes=3, seed=seed, epoch=epoch, augmentation=Augmentation(**augmentation)
        )
    )


def test_every_epoch_is_a_new_order_of_all_images():
    images = numbered(40)
    first = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in epoch_of(images)])
    second = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in epoch_of(images, epoch=1)])
    assert sorted(first.tolist()) == list(range(40))
    assert first.tolist() != second.tolist()
    again = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in epoch_of(images)])
    assert again.tolist() == first.tolist()
    other = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in epoch_of(images, seed=1)])
    assert other.tolist() != first.tolist()


def test_labels_stay_with_their_images():
    for pixels, targets in epoch_of(numbered(40), crop=1, flip=True):
        assert torch.equal(targets.argmax(1), pixels.amax((1, 2, 3)).long() % 3)


def test_crop_moves_images_by_no_more_than_the_margin():
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(1, 255, (16, 1, 6, 6)).astype(np.uint8))
    images = TensorImages(pixels, torch.zeros(16, dtype=torch.long))
    cropped = torch.cat([p for p, _ in epoch_of(images, crop=2)]).byte()
    padded = torch.nn.functional.pad(pixels, (2, 2, 2, 2))
    windows = {
        padded[n, 0, i : i + 6, j : j + 6].numpy().tobytes(): (n, i, j)
        for n in range(16) for i in range(5) for j in range(5)
    }  # fmt: skip
    places = [windows[image[0].numpy().tobytes()] for image in cropped]
    assert sorted(n for n, _, _ in places) == list(range(16))
    assert len({(i, j) for _, i, j in places}) > 4


def test_flip_mirrors_about_half():
    pixels = torch.zeros(64, 1, 2, 4, dtype=torch.uint8)
    pixels[..., 0] = 9
    images = TensorImages(pixels, torch.zeros(64, dtype=torch.long))
    flipped = torch.cat([p for p, _ in epoch_of(images, flip=True)])
    left = int((flipped[:, 0, 0, 0] == 9).sum())
    assert 16 < left < 48
    assert int((flipped[:, 0, 0, 3] == 9).sum()) == 64 - left


def test_mixup_mixes_images_and_labels_alike():
    for pixels, targets in epoch_of(numbered(40), mixup=1.0):
        assert torch.allclose(targets.sum(1), torch.ones(8))
        assert ((targets > 0).sum(1) <= 2).all()
        assert not torch.equal(pixels, pixels.round())


def test_jitter_is_noise_of_so_many_deviations_of_each_column():
    rng = np.random.default_rng(0)
    values = (rng.integers(0, 50, (4000, 3, 1, 1)) * np.array([1, 4, 0])[:, None, None]) + 7
    labels = torch.arange(4000) % 3
    images = TensorImages(torch.from_numpy(values.astype(np.int32)), labels)
    plain = epoch_of(images)
    noisy = epoch_of(images, jitter=0.5)
    # The order and the labels stay, so that the difference is the noise.
    assert all(torch.equal(a[1], b[1]) for a, b in zip(plain, noisy, strict=True))
    noise = torch.cat([b[0] - a[0] for a, b in zip(plain, noisy, strict=True)])[:, :, 0, 0].double()
    deviations = torch.from_numpy(values[:, :, 0, 0].std(0))
    assert torch.allclose(noise.std(0), 0.5 * deviations, rtol=0.05)
    assert (noise.mean(0).abs() <= 0.05 * deviations).all()
    # A constant column has no spread; the others have noise of their own, new in each epoch.
    assert not noise[:, 2].any()
    assert abs(float(torch.corrcoef(noise[:, :2].T)[0, 1])) < 0.06
    assert not torch.equal(epoch_of(images, epoch=1, jitter=0.5)[0][0], noisy[0][0])
    again = epoch_of(images, jitter=0.5)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(again, noisy, strict=True))


def test_an_augmentation_is_never_negative():
    with pytest.raises(ValueError, match=r"^Augmentation values must not be negative, not "):
        Augmentation(jitter=-0.1)


def test_validation_images_are_held_out():
    images = numbered(50)
    kept, held = split_validation(images, 10, seed=3)
    numbers = [set(part.pixels[:, 0, 0, 0].tolist()) for part in (kept, held)]
    assert [len(n) for n in numbers] == [40, 10]
    assert not numbers[0] & numbers[1]
    with pytest.raises(ValueError, match=r"^Validation images must be fewer than 50, not 50$"):
        split_validation(images, 50, seed=3)


def test_channels_come_first_in_tensors():
    pixels = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    tensors = to_tensors(Images(pixels, np.zeros(2, np.uint8)))
    assert tensors.pixels.shape == (2, 5, 3, 4)
    assert tensors.pixels[1, 2, 0, 3] == pixels[1, 0, 3, 2]


def test_windows_are_pieces_of_the_image_from_all_over_it():
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(1, 255, (16, 1, 6, 5)).astype(np.uint8))
    images = TensorImages(pixels, torch.zeros(16, dtype=torch.long))
    cut = torch.cat([p for p, _ in epoch_of(images, window=3)]).byte()
    windows = {
        pixels[n, 0, i : i + 3, j : j + 3].numpy().tobytes(): (n, i, j)
        for n in range(16) for i in range(4) for j in range(3)
    }  # fmt: skip
    places = [windows[image[0].numpy().tobytes()] for image in cut]
    assert sorted(n for n, _, _ in places) == list(range(16))
    assert len({(i, j) for _, i, j in places}) > 4
    # With a margin, windows reach beyond the image by as much.
    wide = torch.cat([p for p, _ in epoch_of(images, window=3, crop=2)])
    assert wide.shape[2:] == (3, 3)
    assert (wide == 0).any()


def test_lessons_take_the_place_of_labels_and_know_mirror_images():
    images = numbered(40)
    lessons = torch.rand(40, 2, 3)
    mirrored = images.pixels.clone()
    mirrored[..., -1] = 200  # so that a mirror image can be told
    taught = TensorImages(mirrored, images.labels, lessons)
    seen = set()
    for pixels, targets in epoch_of(taught, flip=True):
        for image, target in zip(pixels, targets, strict=True):
            turned = int(image[0, 0, 0] == 200)
            number = int(image[0, 0, 2])
            assert torch.equal(target, lessons[number, turned])
            seen.add(turned)
    assert seen == {0, 1}
    assert torch.equal(taught.take(torch.tensor([7])).lessons, lessons[7:8])
