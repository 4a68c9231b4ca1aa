"""Data and values in the layouts that others have, made up: small, and the same each time."""

import numpy as np
import torch
from PIL import Image

# A folder of images: three classes, which are red, green and blue

CLASSES = ("n01", "n02", "n10")


def picture(rng, width, height, colour):
    """Return an image that is of one colour, but for some noise."""
    noise = rng.integers(0, 60, (height, width, 3))
    return Image.fromarray((np.array(colour) * 180 + noise).astype(np.uint8))


def image_folder(root):
    """Write imagenet/train and imagenet/val below a folder: odd sizes, several kinds of file."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 8), ("val", 4)):
        for number, name in enumerate(CLASSES):
            folder = root / "imagenet" / part / name
            folder.mkdir(parents=True)
            for n in range(count):
                image = picture(rng, 31 + 7 * n, 45 + 3 * number, np.eye(3)[number])
                image.save(folder / f"{name}_{n}.JPEG", quality=95)
    train = root / "imagenet/train"
    picture(rng, 50, 40, (1, 1, 1)).convert("L").save(train / "n01/grey.JPEG")
    picture(rng, 50, 40, (0, 1, 0)).save(train / "n02/lossless.png")
    picture(rng, 50, 40, (0, 0, 1)).convert("CMYK").save(train / "n10/print.jpg")
    (train / "n10/more").mkdir()
    palette = picture(rng, 20, 30, (0, 0, 1)).convert("P")
    palette.save(train / "n10/more/palette.png", transparency=bytes([255, 0] * 8))
    (train / "n10/notes.txt").write_text("no image")
    (train / "n10/.hidden.png").write_text("no image either")
    return root


# CIFAR, the binary version


def cifar10(root, count):
    """Write CIFAR-10 of noise below a folder, ``count`` images a file."""
    rng = np.random.default_rng(2)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        records = rng.integers(0, 256, (count, 3073)).astype(np.uint8)
        records[:, 0] = np.arange(count) % 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return root


def cifar100(root, count):
    """Write CIFAR-100 of noise below a folder, ``count`` images a file."""
    rng = np.random.default_rng(3)
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name in ("train", "test"):
        records = rng.integers(0, 256, (count, 3074)).astype(np.uint8)
        records[:, 1] = np.arange(count) % 100
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return root


# torchvision's resnet34

#: Inputs, outputs and blocks of ResNet-34's four stages.
STAGES = ((64, 64, 3), (64, 128, 4), (128, 256, 6), (256, 512, 3))


def state_dict(classes=7, tracked=True, seed=0):
    """Return random values in the layout of torchvision's resnet34."""
    generator = torch.Generator().manual_seed(seed)
    values = {}

    def conv(name, outputs, inputs, kernel):
        shape = (outputs, inputs, kernel, kernel)
        deviation = (2 / (inputs * kernel * kernel)) ** 0.5
        values[f"{name}.weight"] = torch.randn(shape, generator=generator) * deviation

    def norm(name, features):
        values[f"{name}.weight"] = torch.rand(features, generator=generator) + 0.5
        values[f"{name}.bias"] = torch.randn(features, generator=generator) * 0.1
        values[f"{name}.running_mean"] = torch.randn(features, generator=generator) * 0.1
        values[f"{name}.running_var"] = torch.rand(features, generator=generator) + 0.5
        if tracked:
            values[f"{name}.num_batches_tracked"] = torch.tensor(5)

    conv("conv1", 64, 3, 7)
    norm("bn1", 64)
    for stage, (inputs, outputs, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            conv(f"{name}.conv1", outputs, inputs if block == 0 else outputs, 3)
            norm(f"{name}.bn1", outputs)
            conv(f"{name}.conv2", outputs, outputs, 3)
            norm(f"{name}.bn2", outputs)
            if block == 0 and stage > 1:
                conv(f"{name}.downsample.0", outputs, inputs, 1)
                norm(f"{name}.downsample.1", outputs)
    values["fc.weight"] = torch.randn(classes, 512, generator=generator) / 512**0.5
    values["fc.bias"] = torch.randn(classes, generator=generator)
    return values
