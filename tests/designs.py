"""Descriptions of designs that nobody generated."""

from math import prod

from sbnn_hw.design import Design, InputStream, OutputStream


def described(shape, *, value_bits=8, index_bits=4, score_bits=0, classes=10, latency=10):
    """Return a design without stages that takes an image at once."""
    return Design(
        network="00" * 32,
        options={"family": "generic", "levels_per_stage": 3},
        input=InputStream(1, 0, prod(shape) * value_bits, value_bits, shape),
        output=OutputStream(index_bits + classes * score_bits, index_bits, score_bits, classes),
        latency=latency,
        interval=1,
        stages=(),
    )
