"""What a network takes, without synthesis: the tables of the design as it would be generated."""

from sbnn_hw.netlist import Conv2d, Edge, Flatten, MaxPool2d, Network

__all__ = ["tables_of"]

#: Tables that count where a window is, and those that number the pixels behind the last one, as
#: Yosys makes them: 27 to 37 and 10 to 21 were seen.
_CONTROL, _NUMBER = 32, 15
#: Lines up to this long are registers in the text, of which Yosys makes shift registers in tables
#: where so many are in a row.
_SHORT, _IN_A_ROW = 8, 3


def tables_of(network: Network) -> int:
    """Return the look-up tables of a network on a 7-series FPGA.

    Every heap, comparison and sum is laid out as `sbnn-hw generate` does, with encoder, q and
    argmax; only the text is not written. Of a network that takes an image a clock Yosys then finds
    hardly anything to add or to take away. Where pixels come one by one, counters and short lines
    are added as Yosys makes them.
    """
    from sbnn_hw.rtl_gen.design import outline
    from sbnn_hw.rtl_gen.lower import Options

    stages = outline(network, Options(family="xc7"))["stages"]
    return sum(int(stage["tables"]) for stage in stages) + _beside(network)


def _beside(network: Network) -> int:
    """Return the tables beside what is laid out; none where an image comes as a whole."""
    tables = 0
    for number, stage in enumerate(network.stages):
        operation = stage.operation
        if isinstance(operation, Conv2d | MaxPool2d):
            tables += _CONTROL + _short_lines(operation, network.edge_into(number))
        elif isinstance(operation, Flatten) and tables:
            tables += _NUMBER
    return tables


def _short_lines(operation: Conv2d | MaxPool2d, edge: Edge) -> int:
    """Return the shift registers of lines that the layout takes for registers."""
    rows, columns = operation.window.kernel
    width = edge.shape[1]
    if width > _SHORT:
        return 0
    channels = edge.channels
    if isinstance(operation, Conv2d):
        taps = sorted(set(operation.taps.indices.tolist()))
    else:
        taps = list(range(operation.window.size * channels))
    # How far back each channel is read in each line; a row above is a line later.
    reach: list[dict[int, int]] = [{} for _ in range(rows)]
    for tap in taps:
        row, column = divmod(tap // channels, columns)
        line, channel = reach[rows - 1 - row], tap % channels
        line[channel] = max(line.get(channel, 0), columns - 1 - column)
    tables = 0
    for line in range(rows - 1):
        later = {channel for further in reach[line + 1 :] for channel in further}
        tables += sum(width - reach[line].get(channel, 0) >= _IN_A_ROW for channel in later)
    return tables * edge.bits
