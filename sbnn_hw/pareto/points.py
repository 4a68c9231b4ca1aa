"""Networks as points, accuracy over look-up tables, and the front of those that none beats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

__all__ = ["Point", "front", "points_of_peers"]


@dataclass(frozen=True)
class Point:
    """One network in the picture.

    Without an accuracy only its tables are known. Those of a ``series`` are joined by a line, and
    only one of them has a name.
    """

    name: str
    data: str
    kind: str
    luts: float
    accuracy: float | None
    series: str = ""


class _Rated(Protocol):
    @property
    def luts(self) -> float: ...

    @property
    def accuracy(self) -> float | None: ...


_Network = TypeVar("_Network", bound=_Rated)


def front(networks: Iterable[_Network]) -> list[_Network]:
    """Return the networks that no other one beats, fewest tables first.

    One beats another if it is at least as good in both and better in one. Of equals the first
    stays.

    >>> sizes = {"a": (1, 90), "b": (2, 80), "c": (3, 95)}
    >>> [p.name for p in front([Point(n, "", "ours", x, y) for n, (x, y) in sizes.items()])]
    ['a', 'c']
    """
    best: list[_Network] = []
    reached = -1.0
    for network in sorted(networks, key=lambda n: (n.luts, -(n.accuracy or 0))):
        if network.accuracy is not None and network.accuracy > reached:
            best.append(network)
            reached = network.accuracy
    return best


def points_of_peers(peers: Iterable[dict[str, Any]]) -> list[Point]:
    """Return the published networks that have a place in the picture."""
    found = []
    for peer in peers:
        # What counts in gates, or only tells its speed, has no place on this axis.
        if "luts" not in peer["numbers"]:
            continue
        luts, accuracy = (peer["numbers"][key] for key in ("luts", "accuracy"))
        kind = "published" if luts["verified"] and accuracy["verified"] else "unverified"
        brams = peer["numbers"].get("brams")
        # Tables alone would flatter a network that keeps its weights in memory.
        name = peer["name"] + (f" + {brams['value']:g} BRAM" if brams else "")
        series = peer.get("series") or ""
        found.append(Point(name, peer["data"], kind, luts["value"], accuracy["value"], series))
    return _name_once(found)


def _name_once(points: Sequence[Point]) -> list[Point]:
    """Let the best of a series bear its name, for all of them."""
    best = {p.series: p for p in sorted(points, key=lambda p: p.accuracy or 0)}
    return [
        replace(p, name=p.series if p is best[p.series] else "") if p.series else p for p in points
    ]
