"""The driver for a board in C: what a build puts into its folder ``host``.

``sbnn.h`` and ``sbnn.c`` are the driver, ``main.c`` is an example; ``sbnn_model.h`` is written for
each design.
"""

from importlib import resources

from sbnn_hw.boards.protocol import IDENTITY_BYTES, OVERHEAD, Wire
from sbnn_hw.design import Design

__all__ = ["host_files"]

_FILES = ("sbnn.h", "sbnn.c", "main.c")

_MODEL = """\
/* The network that sbnn-hw built, for sbnn.h. */

#ifndef SBNN_MODEL_H
#define SBNN_MODEL_H

/* Bytes of an image; classes; bits of each score, 0 if the board gives none. */
#define SBNN_MODEL_IMAGE_BYTES {wire.image_bytes}
#define SBNN_MODEL_CLASSES {wire.classes}
#define SBNN_MODEL_SCORE_BITS {wire.score_bits}

/* The buffer that takes the answer to a full packet. */
#define SBNN_MODEL_BUFFER {buffer}

/* The value of an sbnn_model. */
#define SBNN_MODEL \\
    {{ \\
        {{ \\
{digest}
        }}, \\
        {height}, {width}, {channels}, {wire.value_bits}, \\
        {wire.index_bits}, {wire.score_bits}, {wire.classes} \\
    }}

#endif
"""


def host_files(design: Design) -> dict[str, str]:
    """Return the files for the host of a board with this design, by name."""
    wire = Wire.of(design)
    digest = bytes.fromhex(design.network)
    height, width, channels = (*wire.shape, 0, 0)[:3]
    model = _MODEL.format(
        wire=wire,
        buffer=OVERHEAD + max(IDENTITY_BYTES, wire.batch * wire.result_bytes),
        digest="\n".join(
            f"            {' '.join(f'0x{byte:02X},' for byte in digest[at:at + 8])} \\"
            for at in range(0, len(digest), 8)
        ),
        height=height, width=width, channels=channels,
    )
    here = resources.files(__name__)
    return {name: here.joinpath(name).read_text(encoding="utf-8") for name in _FILES} | {
        "sbnn_model.h": model
    }
