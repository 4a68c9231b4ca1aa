"""Choose among arrangements: what fits, what was asked for, and why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sbnn_hw.boards.fit import Need, need_of
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.netlist import Network
from sbnn_hw.planner.candidates import Case, arrangements
from sbnn_hw.planner.values import Arrangement, HardwarePlan, Wish
from sbnn_hw.planner.words import describe_pace, missing_resource, refuse, unit_of

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.options import Options

__all__ = ["choose"]


def choose(
    network: Network,
    target: Board | Part,
    clock_hz: int,
    asked: "Options",
    wish: Wish | None = None,
    *,
    force: bool = False,
) -> HardwarePlan:
    """Return the plan of a network for a board or part: a pure function of its arguments.

    Unrolled where it fits and nothing else is asked, otherwise the fastest engine that fits; with a
    rate, the smallest plan that reaches it. With ``force`` a network that does not fit is unrolled.
    """
    wish = wish or Wish()
    case = Case(network, target, asked, wish)
    offers = [_Offer(case, number, each) for number, each in enumerate(arrangements(case))]
    if not offers:
        raise UsageError(
            f"There is no engine for this network ({_asked(wish)}); omit these options"
        )
    fitting = [offer for offer in offers if offer.fills <= 1]
    tight = not fitting
    if tight:
        # Better a full part than none.
        fitting = [offer for offer in offers if offer.need.fits(target)]
    if not fitting and force:
        fitting = offers[:1]
    if not fitting:
        raise ModelRejected(refuse(case, [(o.made, o.need) for o in offers]))
    chosen = _pick(fitting, wish, clock_hz, target)
    return HardwarePlan(
        network=network.digest,
        target=target,
        clock_hz=clock_hz,
        wish=wish,
        asked=asked,
        arrangement=chosen.made,
        need=chosen.need,
        why=_why(chosen, offers, wish, target) + (_tightness(chosen) if tight else ""),
        pace=describe_pace(chosen.made, [o.made for o in offers], [o.made for o in fitting]),
    )


class _Offer:
    """An arrangement, what it needs of the target, and how full that gets."""

    def __init__(self, case: Case, number: int, made: Arrangement) -> None:
        self.case, self.number, self.made = case, number, made
        self.need: Need = need_of(case.network, case.target, made.cost, made.word)
        room, wish = case.target.capacity, case.wish
        #: The largest share of what may be filled; above 1 it does not fit.
        self.fills = 0.0
        self.size: tuple[Any, ...] = (self.need.luts, self.need.brams)
        if room is not None:
            tables, registers, memory = self.need.shares(room)
            limits = (wish.fill, wish.fill, wish.memory_fill)
            pairs = zip((tables, registers, memory), limits, strict=True)
            # Rounded, since 0.85 is no number that a computer knows.
            self.fills = round(max(100 * share / limit for share, limit in pairs), 9)
            self.size = (max(tables, registers, memory), self.need.luts)

    @property
    def speed(self) -> tuple[Any, ...]:
        """The faster, the less; among equals the smaller one."""
        return (self.made.interval, *self.size, self.number)


def _pick(fitting: Sequence[_Offer], wish: Wish, clock_hz: int, target: Board | Part) -> _Offer:
    fastest = min(fitting, key=lambda offer: offer.speed)
    if wish.fps is not None:
        enough = [o for o in fitting if clock_hz >= wish.fps * o.made.interval]
        if not enough:
            raise UsageError(
                f"No plan reaches {wish.fps:,.10g} images/s on {target.name} at "
                f"{clock_hz / 1e6:g} MHz; the fastest that fits is {fastest.made.title}, with "
                f"{clock_hz / fastest.made.interval:,.0f} images/s ({fastest.made.interval:,} "
                f"cycles per image)"
            )
        return min(enough, key=lambda offer: (offer.size, offer.speed))
    if wish.end == "smallest":
        return min(fitting, key=lambda offer: (offer.size, offer.speed))
    if wish.end == "fastest":
        return fastest
    wired = [offer for offer in fitting if offer.made.wired]
    return wired[0] if wired else fastest


def _why(chosen: _Offer, offers: Sequence[_Offer], wish: Wish, target: Board | Part) -> str:
    if wish.fps is not None:
        return f"the smallest plan that reaches {wish.fps:,.10g} images/s"
    if wish.end:
        return f"the {wish.end} plan that fits"
    if target.capacity is None:
        return f"the size of {target.name} is not known"
    first = offers[0]
    if chosen is first:
        if not chosen.made.wired:
            return "as asked for" if len(offers) == 1 else "the fastest engine that fits"
        fits = chosen.need.fits(target)
        return "every connection fits as a wire" if fits else "no plan fits, and --force is given"
    limits = missing_resource(first.need, target, wish)
    if not first.made.wired:
        return f"the fastest engine that fits: {first.made.title} needs {limits}"
    if chosen.made.wired:
        return f"a whole image per clock needs {limits}, and a pixel per clock fits"
    return f"as wires the network needs {limits}; of the engines that fit, this is the fastest"


def _tightness(chosen: _Offer) -> str:
    room, wish = chosen.case.target.capacity, chosen.case.wish
    if room is None or not chosen.need.fits(chosen.case.target):
        return ""
    shares = chosen.need.shares(room)
    limits = (wish.fill, wish.fill, wish.memory_fill)
    number = max(range(3), key=lambda n: shares[n] / limits[n])
    what, limit = unit_of(chosen.case.target, number), f"{limits[number]:g}%"
    return f"; it takes {shares[number]:.1%} of the {what}, because no plan keeps to {limit}"


def _asked(wish: Wish) -> str:
    words = [f"--form {wish.form}"] if wish.form else []
    words += [f"--lanes {wish.lanes}"] if wish.lanes else []
    return ", ".join([*words, *(["--loadable"] if wish.loadable else [])])
