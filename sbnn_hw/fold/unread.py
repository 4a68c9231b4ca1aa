"""What no later stage reads need not be built."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import INPUT, Network, Operation

__all__ = ["drop_unread"]


def drop_unread(network: Network) -> Network:
    """Strip what nothing reads, from the last stage to the first.

    Where Ξ is not zero every input counts in pc_N, so nothing is unread there.
    """
    stages = list(network.stages)
    read = [np.zeros(network.edge_from(number).shape, bool) for number in range(len(stages))]
    read[-1][:] = True
    unread: list[npt.NDArray[np.bool_]] = [np.zeros(0, bool)] * len(stages)
    left: list[Operation] = [stage.operation for stage in stages]
    for number in reversed(range(len(stages))):
        edges = network.edges_into(number)
        channels = read[number].reshape(-1, read[number].shape[-1])
        unread[number] = np.logical_not(channels.any(axis=0))
        if unread[number].any():
            left[number] = left[number].without(unread[number], *edges)
        masks = left[number].reads(read[number], *edges)
        for source, mask in zip(stages[number].sources, masks, strict=True):
            if source != INPUT:
                read[source] |= mask
    absent: dict[int, npt.NDArray[np.int64]] = {INPUT: np.zeros(0, np.int64)}
    for number, stage in enumerate(stages):
        before = tuple(absent[source] for source in stage.sources)
        absent[number] = stage.operation.absent(unread[number], before)
        stages[number] = replace(stage, operation=left[number], absent=absent[number])
    return replace(network, stages=tuple(stages))
