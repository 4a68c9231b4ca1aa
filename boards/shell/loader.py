"""A program, from the line into the network."""

from amaranth import *

from sbnn_hw.boards.protocol import DIGEST_BYTES, Command

__all__ = ["Loader", "drop"]


class Loader:
    """Hands programs to the network, and knows whether it has a whole one.

    The first byte of a packet that loads takes the program away; its end, if the packet is
    accepted, gives the new one. In between nothing is classified: the network is kept in reset
    except while its bytes come.

    A reset of the board does not change what lies in memories. So it does not change either what is
    known of them: half a program is none, whatever happens to the other half.
    """

    def __init__(self):
        #: There is a whole program.
        self.loaded = Signal(init=1, reset_less=True)
        #: A byte of the network's digest comes; its place.
        self.named = Signal()
        self.at = Signal(range(DIGEST_BYTES + 1))

    def add_to(self, m, listener, core):
        """Build it: ``listener`` gives packets, ``core`` is the network."""
        loaded, at = self.loaded, self.at
        whole = Signal()
        m.d.comb += [
            whole.eq(at == DIGEST_BYTES),
            self.named.eq(listener.load & ~whole),
            listener.loaded.eq(loaded),
            core.program.reset.eq(~loaded & ~whole),
            core.program.valid.eq(listener.load & whole),
            core.program.byte.eq(listener.byte),
        ]
        with m.If(listener.load):
            m.d.sync += [loaded.eq(0), at.eq(at + ~whole)]
        with m.If(listener.accepted | listener.refused):
            m.d.sync += at.eq(0)
        with m.If(listener.accepted & (listener.command == Command.LOAD)):
            m.d.sync += loaded.eq(1)


def drop(m, loader, state):
    """Go to a state of an FSM if there is no program; without a ``loader`` there always is one."""
    if loader is not None:
        with m.If(~loader.loaded):
            m.next = state
