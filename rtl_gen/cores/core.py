"""The components of parts: payload and valid move together while ``enable`` is set."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Core", "builds", "core_of", "flow"]

#: The component of each kind of part.
_CORES = {}


def flow(width):
    """Return the signature of a stream that cannot wait: payload and valid."""
    return wiring.Signature({"payload": Out(width), "valid": Out(1)})


class Core(wiring.Component):
    """The component of a part.

    It has no ready: whoever chains cores stops them all by lowering :py:`enable`.

    Parameters
    ----------
    part : Part
        What it is built from.

    Members
    -------
    enable : :py:`In(1)`
        Whether registers follow in this cycle.
    i : :py:`In(flow(part.width_in))`
        What comes in; taken in every cycle in which enable and valid are set.
    o : :py:`Out(flow(part.width_out))`
        What goes out.
    """

    # A core whose island is refused is no oversight.
    _MustUse__silence = True

    def __init__(self, part):
        self.part = part
        super().__init__({
            "enable": In(1),
            "i": In(flow(part.width_in)),
            "o": Out(flow(part.width_out)),
        })

    @property
    def inputs(self):
        """What comes in: one flow for each of the part's widths."""
        return [self.i]


def builds(kind):
    """Make a component the one of a kind of part."""
    def enter(component):
        _CORES[kind] = component
        return component

    return enter


def core_of(part):
    """Return the component of a part."""
    return _CORES[type(part)](part)
