"""Image files as a network takes them: what cannot be one is refused in a sentence."""

import os
import warnings

import numpy as np
import pytest
from shells import small_network

from sbnn_hw.errors import DataMissing
from sbnn_hw.images import read_images

Image = pytest.importorskip("PIL.Image", reason="needs Pillow (pip install 'sbnn-hw[host]')")


@pytest.fixture
def network():
    return small_network()


def grey(path, width, height):
    Image.fromarray(np.zeros((height, width), np.uint8)).save(path)
    return path


def test_an_image_that_is_too_large_is_called_so(network, tmp_path, monkeypatch):
    """Pillow warns from some number of pixels on, and refuses from twice as many."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for side in (12, 20):
        path = grey(tmp_path / f"{side}.png", side, side)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(
                DataMissing, match=r"png is too large: it has more than 100 pixels;"
            ):
                read_images([path], network, resize=True)
    read_images([grey(tmp_path / "a.png", 10, 10)], network, resize=True)


def test_a_pipe_is_no_image_and_not_waited_for(network, tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataMissing, match=r"a\.png cannot be read as an image$"):
        read_images([tmp_path / "a.png"], network)
