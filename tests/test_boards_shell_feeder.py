"""The feeder by itself: bytes as a listener gives them, words as a network takes them."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Module
from simulated import simulate, stub

from sbnn_hw.boards.protocol import Wire
from sbnn_hw.boards.shell.feeder import add_feeder


def feed(wire, beats, images, *, odds=1.0, apart=24, dwell=1):
    """Return the words that a network is fed, if bytes of images are so many cycles apart."""
    rng = random.Random(0)
    pixels = wire.image_bytes // wire.value_bytes
    listener = stub(write=1, byte=8, index=range(wire.image_bytes), last=1)
    i = stub(payload=pixels // beats * wire.value_bits, valid=1, ready=1)
    m = Module()
    add_feeder(m, wire, listener, SimpleNamespace(beats=beats, i=i))
    taken = []

    async def source(ctx):
        for image in images:
            for index, byte in enumerate(image):
                ctx.set(listener.write, 1)
                ctx.set(listener.byte, byte)
                ctx.set(listener.index, index)
                ctx.set(listener.last, index == len(image) - 1)
                await ctx.tick()
                ctx.set(listener.write, 0)
                await ctx.tick().repeat(apart - 1)
        await ctx.tick().repeat(40 * wire.image_bytes)

    async def sink(ctx):
        await ctx.tick().repeat(dwell)
        while True:
            ctx.set(i.ready, rng.random() <= odds)
            _, _, valid, ready, word = await ctx.tick().sample(i.valid, i.ready, i.payload)
            if valid and ready:
                taken.append(word)

    simulate(m, source, background=[sink])
    return taken


def case(shape, bits, beats):
    """Return how images look, three of them as bytes, and the words that they make."""
    wire = Wire(shape, bits, 4, 0, 10)
    pixels = np.random.default_rng(0).integers(0, 1 << bits, (3, *shape))
    kind = "<u2" if bits > 8 else "u1"
    words = [
        sum(int(value) << bits * n for n, value in enumerate(row))
        for row in pixels.reshape(3 * beats, -1)
    ]
    return wire, [image.astype(kind).tobytes() for image in pixels], words


@pytest.mark.parametrize("odds", [1.0, 0.3], ids=["steady", "stalls"])
@pytest.mark.parametrize(
    ("shape", "bits", "beats"),
    [((1,), 8, 1), ((2, 3, 1), 8, 1), ((2, 3, 1), 8, 6), ((2, 2, 3), 10, 4), ((5,), 1, 1)],
    ids=["one-byte", "image", "pixels", "two-bytes", "bits"],
)
def test_images_are_fed_whole_and_in_order(shape, bits, beats, odds):
    wire, images, words = case(shape, bits, beats)
    assert feed(wire, beats, images, odds=odds) == words


def test_a_network_that_takes_too_long_sees_the_next_image():
    # The shell refuses such networks; if it did not, this is what would happen.
    wire, images, words = case((2, 3, 1), 8, 6)
    assert feed(wire, 6, images, dwell=200) != words
