"""Where the stages of a graph stand in its picture: rows by depth, ways beside each other in lanes.

Nothing here knows HTML. The longest way through the graph is lane 0 and has a stage in every row.
Whatever runs beside it, a shortcut or stages of its own, is in a lane to the right. Lines turn only
in the gaps between rows, each on a track of its own, so that they never run through a stage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Gap", "Lanes", "Track", "Way", "arrange", "is_chain"]


@dataclass(frozen=True)
class Way:
    """A line from a node to one below it, perhaps through other nodes, in a lane of its own."""

    start: int
    through: tuple[int, ...]
    end: int
    lane: int


@dataclass(frozen=True)
class Track:
    """A line across a gap: it connects the lanes from which it is reached with those it leads to.

    Those from above and those downwards may be the same.
    """

    above: frozenset[int]
    below: frozenset[int]
    #: The lane in which a node stands that is read by others too.
    fork: int | None = None


@dataclass(frozen=True)
class Gap:
    """What lies between a row and the next one."""

    #: Lanes with a line straight through.
    straight: frozenset[int]
    #: Lines across, from the top.
    tracks: tuple[Track, ...]
    #: Lanes in which a line arrives at a node below.
    arrivals: frozenset[int]


@dataclass(frozen=True)
class Lanes:
    """An arrangement of nodes 0, 1, …: the row and the lane of each, and the ways between them."""

    rows: tuple[int, ...]
    lanes: tuple[int, ...]
    ways: tuple[Way, ...]

    @property
    def height(self) -> int:
        """Number of rows."""
        return max(self.rows) + 1

    @property
    def width(self) -> int:
        """Number of lanes."""
        return max((0, *self.lanes, *(way.lane for way in self.ways))) + 1

    def node(self, row: int, lane: int) -> int | None:
        """Return the node that stands in a place."""
        places = zip(self.rows, self.lanes, strict=True)
        return next((n for n, place in enumerate(places) if place == (row, lane)), None)

    def passing(self, row: int, lane: int) -> Way | None:
        """Return the way that runs past a row in a lane without a node there."""
        for way in self.ways:
            if way.lane == lane and self.rows[way.start] < row < self.rows[way.end]:
                return None if self.node(row, lane) is not None else way
        return None

    def gap(self, above: int) -> Gap:
        """Return the lines between a row and the next one."""
        straight, leaving, arriving = set[int](), dict[int, set[int]](), dict[int, set[int]]()
        arrivals = {lane for row, lane in zip(self.rows, self.lanes, strict=True)
                    if row == above + 1}  # fmt: skip
        # The longest way goes straight down.
        straight.add(0)
        for way in self.ways:
            first, last = self.rows[way.start], self.rows[way.end] - 1
            if not first <= above <= last:
                continue
            start, end = self.lanes[way.start], self.lanes[way.end]
            if above == first == last:
                leaving.setdefault(way.start, set()).add(end)
            elif above == first and start != way.lane:
                leaving.setdefault(way.start, set()).add(way.lane)
            elif above == last and end != way.lane:
                arriving.setdefault(way.end, set()).add(way.lane)
            else:
                straight.add(way.lane)
        tracks = [
            *(
                Track(frozenset({self.lanes[n]}), frozenset(to), self.lanes[n])
                for n, to in leaving.items()
            ),
            *(Track(frozenset(of), frozenset({self.lanes[n]})) for n, of in arriving.items()),
        ]
        return Gap(frozenset(straight), tuple(tracks), frozenset(arrivals))


def is_chain(sources: Sequence[Sequence[int]]) -> bool:
    """Whether each node but the first reads just the one before it.

    Examples
    --------
    >>> is_chain([[], [0], [1]]), is_chain([[], [0], [1, 0]])
    (True, False)
    """
    return all(set(read) == {n - 1} for n, read in enumerate(sources) if n)


def arrange(sources: Sequence[Sequence[int]]) -> Lanes:
    """Arrange a graph of nodes, the first of which reads nothing and the last of which is the end.

    Parameters
    ----------
    sources : sequence of sequence of int
        The nodes that each node reads, all of them before it.

    Examples
    --------
    >>> shortcut = arrange([[], [0], [1], [2, 0]])
    >>> shortcut.rows, shortcut.lanes, shortcut.ways
    ((0, 1, 2, 3), (0, 0, 0, 0), (Way(start=0, through=(), end=3, lane=1),))
    """
    rows: list[int] = []
    for read in sources:
        rows.append(1 + max((rows[n] for n in read), default=-1))

    def deepest(node: int) -> int:
        return max(dict.fromkeys(sources[node]), key=lambda n: rows[n])

    node = len(sources) - 1
    lane_of = {node: 0}
    waiting: list[tuple[int, int]] = []
    while sources[node]:
        before = deepest(node)
        waiting += [(n, node) for n in dict.fromkeys(sources[node]) if n != before]
        lane_of[before], node = 0, before
    # Each other edge begins a way, backwards to a node that has a place already.
    ways: list[tuple[int, tuple[int, ...], int]] = []
    placed = set(lane_of)
    while waiting:
        node, end = waiting.pop()
        through: list[int] = []
        while node not in placed:
            placed.add(node)
            through.insert(0, node)
            before = deepest(node)
            waiting += [(n, node) for n in dict.fromkeys(sources[node]) if n != before]
            node = before
        ways.append((node, tuple(through), end))
    return _in_lanes(sources, rows, lane_of, ways)


def _in_lanes(
    sources: Sequence[Sequence[int]],
    rows: list[int],
    lane_of: dict[int, int],
    ways: list[tuple[int, tuple[int, ...], int]],
) -> Lanes:
    """Give each way the first lane that is free in all gaps that it passes, short ways first."""
    taken: dict[int, set[int]] = {}
    made = []
    for start, through, end in sorted(ways, key=lambda w: (rows[w[2]] - rows[w[0]], rows[w[0]])):
        gaps = set(range(rows[start], rows[end]))
        lane = 0
        if len(gaps) > 1:
            lane = 1
            while taken.setdefault(lane, set()) & gaps:
                lane += 1
            taken[lane] |= gaps
        lane_of |= dict.fromkeys(through, lane)
        made.append(Way(start, through, end, lane))
    lanes = tuple(lane_of[n] for n in range(len(sources)))
    # What leads to the next row turns once, and needs no lane.
    ways_made = [Way(way.start, way.through, way.end, way.lane or lanes[way.start]) for way in made]
    ways_made.sort(key=lambda way: (rows[way.start], way.lane))
    return Lanes(tuple(rows), lanes, tuple(ways_made))
