"""What stands around a network on a board: everything between its streams and a line.

Bytes of the line (:mod:`uart` or :mod:`spi`) are packets (:mod:`listener`, :mod:`speaker`, both
with a :mod:`check`). Images of a packet are fed to the network (:mod:`feeder`), results are
collected (:mod:`collector`), and every packet is answered (:mod:`responder`).
"""

from sbnn_hw.boards.shell.shell import Shell

__all__ = ["Shell"]
