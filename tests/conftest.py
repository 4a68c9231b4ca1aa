"""What the tests share: where the data sets are, and a folder for runs."""

from pathlib import Path

import pytest
import torch

from sbnn_hw import datasets
from sbnn_hw.errors import DataMissing

ROOT = Path(__file__).parent.parent

# The networks of the tests are small: a second thread costs more than it brings, and where other
# work runs beside the tests the two would wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mnist():
    """Return MNIST's test images, or skip where they are not."""
    return _load("mnist", "test")


@pytest.fixture(scope="session")
def mnist_train():
    """Return MNIST's training images, or skip where they are not."""
    return _load("mnist", "train")


@pytest.fixture(scope="session")
def data_root():
    """Return the folder of the data sets, or skip where it is not."""
    _load("mnist", "test")
    return datasets.default_root().resolve()


def _load(name, split):
    try:
        return datasets.find(name).load(split)
    except DataMissing as error:
        pytest.skip(f"needs {name}: {error}")


@pytest.fixture(scope="session")
def digits():
    """Return scikit-learn's digits, which are always there."""
    return datasets.find("digits").load("train")
