"""What a generated design promises, each promise as a cocotb bench.

Everything about the design comes from the files beside this one: ``design.json`` says how wide the
streams are and how long a result takes, ``vectors.hex`` has the words that go in and
``expected.hex`` what must come out.
"""

import functools
import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from watchdog import explain, patience

HERE = Path(__file__).parent
DESIGN = json.loads((HERE.parent / "design.json").read_text(encoding="utf-8"))
BEATS: int = DESIGN["input"]["beats"]
WIDTH: int = DESIGN["input"]["width"]
LATENCY: int = DESIGN["latency"]
INTERVAL: int = DESIGN["interval"]
VECTORS = [int(line, 16) for line in (HERE / "vectors.hex").read_text().split()]
EXPECTED = [int(line, 16) for line in (HERE / "expected.hex").read_text().split()]

#: How many cycles a bench with stalls may take, about; it then uses as many images as fit.
CYCLES = int(os.environ.get("SUITE_CYCLES", "3000"))

#: So long after the last word nothing else can come: whatever is inside has left by then.
DRAIN = 2 * (LATENCY + INTERVAL) + 50

ODDS = [1.0, 0.5, 0.1]


def images(count: int, first: int = 0) -> tuple[list[int], list[int]]:
    """Return the words of some images, and their results."""
    count = min(count, len(EXPECTED) - first)
    return VECTORS[first * BEATS : (first + count) * BEATS], EXPECTED[first : first + count]


class Streams:
    """Source, sink and monitor of a design; they act in the middle of a cycle, far from the edge.

    Every word that is offered and not taken must be there, unchanged, in the next cycle. This is
    checked in each one, whatever else a bench is about.
    """

    def __init__(self, dut: Any, seed: int = 0) -> None:
        self.dut = dut
        self.random = random.Random(seed)
        self.now = 0
        self.taken: list[int] = []  # the cycles in which words went in
        self.given: list[int] = []  # the cycles in which words came out
        self.words: list[int] = []
        self.offered = False
        self._waits: int | None = None

    async def start(self) -> None:
        """Start the clock, and the design from reset."""
        Clock(self.dut.clk, 10, unit="ns").start()
        await self.reset(3)

    async def reset(self, cycles: int) -> None:
        """Hold the design in reset; forget what went in and came out before."""
        for _ in range(cycles):
            await FallingEdge(self.dut.clk)
            self.dut.rst.value = 1
            self._drive(self.random.random() < 0.5, None, self.random.random() < 0.5)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        # The first cycle after reset is an idle one, because this is its middle already.
        self._drive(False, None, False)
        self.taken, self.given, self.words = [], [], []
        self._waits = None

    async def cycle(self, word: int | None, ready: bool) -> bool:
        """Offer a word, or none, for one cycle; return whether it is taken."""
        await FallingEdge(self.dut.clk)
        self._drive(word is not None, word, ready)
        await ReadOnly()
        self.now += 1
        self.offered = bool(self.dut.o__valid.value)
        if self._waits is not None:
            assert self.offered, f"cycle {self.now}: a result was taken back"
        if self.offered:
            given = int(self.dut.o__payload.value)
            if self._waits is not None:
                assert given == self._waits, f"cycle {self.now}: a result changed while it waited"
            self._waits = None if ready else given
            if ready:
                self.given.append(self.now)
                self.words.append(given)
        if word is None or not self.dut.i__ready.value:
            return False
        self.taken.append(self.now)
        return True

    async def idle(self, cycles: int) -> None:
        """Offer nothing and take everything for some cycles."""
        for _ in range(cycles):
            await self.cycle(None, True)

    async def send(
        self,
        words: list[int],
        *,
        results: int = 0,
        valid_odds: float = 1.0,
        ready_odds: float = 1.0,
    ) -> None:
        """Send words, and wait until as many results have come since reset as are asked for."""
        place, offered, quiet = 0, False, 0
        limit = patience(DESIGN, min(valid_odds, ready_odds))
        while place < len(words) or len(self.words) < results:
            # What is offered stays so until it is taken.
            if not offered and place < len(words):
                offered = self.random.random() < valid_odds
            before = len(self.words)
            ready = self.random.random() < ready_odds
            took = await self.cycle(words[place] if offered else None, ready)
            if took:
                place, offered = place + 1, False
            quiet = 0 if took or len(self.words) > before else quiet + 1
            if quiet == limit:
                found = await self._watch(words)
                raise AssertionError(f"nothing moved for {limit} cycles; sent again, {found}")

    async def _watch(self, words: list[int]) -> str:
        """Send words again from reset, without a pause; say which stage gives no more."""
        try:
            strobes = {
                stage["name"]: [
                    functools.reduce(getattr, path.split("."), self.dut)
                    for path in stage["strobes"]
                ]
                for stage in DESIGN["stages"]
                if stage["strobes"]
            }
        except AttributeError:
            strobes = {}  # a simulator may hide what is inside
        counts, waiting = dict.fromkeys(strobes, 0), set[str]()
        place = quiet = 0
        await self.reset(3)
        while quiet < patience(DESIGN):
            before = len(self.words)
            took = await self.cycle(words[place] if place < len(words) else None, True)
            place += took
            quiet = 0 if took or len(self.words) > before else quiet + 1
            waiting.clear()
            for name, signals in strobes.items():
                # What is not known is no 1.
                first, *others = (str(signal.value) == "1" for signal in signals)
                counts[name] += first and all(others)
                if first and not all(others):
                    waiting.add(name)
        found: str = explain(DESIGN, place, len(self.words), counts, waiting)
        return found

    def check(self, expected: list[int]) -> None:
        """Compare everything that came out since reset with what had to."""
        for number, (given, wanted) in enumerate(zip(self.words, expected, strict=False)):
            assert given == wanted, f"result {number} is {given:x}, not {wanted:x}"
        assert len(self.words) == len(expected), f"{len(self.words)} results, not {len(expected)}"

    def _drive(self, valid: bool, word: int | None, ready: bool) -> None:
        self.dut.i__valid.value = int(valid)
        # A payload that is not valid must not matter.
        self.dut.i__payload.value = self.random.getrandbits(WIDTH) if word is None else word
        self.dut.o__ready.value = int(ready)


@cocotb.test()
@cocotb.parametrize(valid_odds=ODDS, ready_odds=ODDS)
async def every_vector_gives_its_result(dut: Any, valid_odds: float, ready_odds: float) -> None:
    """Each result comes once, in order and as expected, however source and sink hesitate."""
    each = max(BEATS / valid_odds, INTERVAL, 1 / ready_odds)
    stalls = min(valid_odds, ready_odds) < 1
    words, expected = images(max(3, int(CYCLES / each)) if stalls else len(EXPECTED))
    streams = Streams(dut, seed=int(100 * valid_odds + 10 * ready_odds))
    await streams.start()
    await streams.send(words, results=len(expected), valid_odds=valid_odds, ready_odds=ready_odds)
    await streams.idle(DRAIN)
    streams.check(expected)


@cocotb.test()
async def result_holds_until_it_is_taken(dut: Any) -> None:
    """A result is offered to a sink that is not ready, and stays whatever the source does."""
    words, expected = images(4)
    streams = Streams(dut)
    await streams.start()
    place = 0
    for number in range(len(expected)):
        waited = 0
        # A sink may wait for a result before it is ready: the design must not wait for the sink.
        while not streams.offered or waited < 20:
            word = words[place] if place < len(words) else None
            place += await streams.cycle(word, False)
            waited += 1
            assert waited < DRAIN * 2, f"result {number} is not offered to a sink that is not ready"
        word = words[place] if place < len(words) else None
        place += await streams.cycle(word, True)
        streams.offered = False
    # A stride can leave an image's last words unread: its result did not wait for them.
    await streams.send(words[place:])
    await streams.idle(DRAIN)
    streams.check(expected)


@cocotb.test()
async def nothing_comes_that_was_not_sent(dut: Any) -> None:
    """Without images there is no result, and each image has one, however long its words take."""
    streams = Streams(dut)
    await streams.start()
    await streams.idle(DRAIN)
    streams.check([])
    words, expected = images(2)
    for number in range(len(expected)):
        image = words[number * BEATS : (number + 1) * BEATS]
        await streams.send(image[:-1])
        await streams.idle(DRAIN)
        # The result may be there already: a stride can leave an image's last words unread.
        streams.check(expected[: max(number, min(len(streams.words), number + (BEATS > 1)))])
        await streams.send(image[-1:])
        await streams.idle(DRAIN)
        streams.check(expected[: number + 1])


@cocotb.test()
async def latency_is_as_described(dut: Any) -> None:
    """An image by itself has its result so many cycles after its first word."""
    streams = Streams(dut)
    await streams.start()
    words, expected = images(3)
    for number in range(len(expected)):
        await streams.send(words[number * BEATS : (number + 1) * BEATS], results=number + 1)
        latency = streams.given[-1] - streams.taken[number * BEATS]
        assert latency == LATENCY, f"image {number} takes {latency} cycles, not {LATENCY}"
        await streams.idle(number)
    streams.check(expected)


@cocotb.test()
async def interval_is_as_described(dut: Any) -> None:
    """Images without a pause are taken, and have their results, at the same pace."""
    streams = Streams(dut)
    await streams.start()
    words, expected = images(max(4, -(-LATENCY // INTERVAL) + 4))
    await streams.send(words, results=len(expected))
    streams.check(expected)
    # Behind the last image no other one comes, and its result may come sooner. Where images are
    # held back, the second one is, and all others follow it.
    given = streams.given[1 if DESIGN["input"]["held"] else 0 : -1]
    # Where images are taken ahead, the first of them come as fast as they can.
    taken = streams.taken[::BEATS][DESIGN["input"]["ahead"] :]
    for times, name in ((taken, "inputs"), (given, "results")):
        for first, second in itertools.pairwise(times):
            assert second - first == INTERVAL, f"{second - first} cycles between {name}"


def _cuts() -> dict[str, int]:
    """Return after how many words to reset: in an image, between two, with results inside."""
    flying = (-(-LATENCY // INTERVAL) + 1) * BEATS
    return {
        "first_word": 1,
        "half_an_image": max(1, BEATS // 2),
        "all_but_a_word": max(1, BEATS - 1),
        "one_image": BEATS,
        "results_inside": flying + BEATS // 3,
    }


@cocotb.test()
@cocotb.parametrize(after=list(_cuts()), cycles=[1, 4])
async def reset_in_mid_stream_leaves_nothing_behind(dut: Any, after: str, cycles: int) -> None:
    """What was inside is gone, and all that is sent after reset is right."""
    count = _cuts()[after]
    words, expected = images(6)
    streams = Streams(dut, seed=count)
    await streams.start()
    # Other images than those that follow, so that a remnant is seen.
    await streams.send((list(reversed(VECTORS)) * (count // len(VECTORS) + 1))[:count])
    await streams.reset(cycles)
    await streams.send(words, results=len(expected))
    await streams.idle(DRAIN)
    streams.check(expected)


@cocotb.test()
@cocotb.parametrize(cycles=[1, 4])
async def reset_drops_a_result_that_waits(dut: Any, cycles: int) -> None:
    """A result that nobody took before reset does not come after it."""
    words, expected = images(3)
    streams = Streams(dut)
    await streams.start()
    for word in (words * 2)[: 2 * BEATS]:
        if not await streams.cycle(word, False):
            break
    for _ in range(DRAIN):
        await streams.cycle(None, False)
    assert streams.offered
    await streams.reset(cycles)
    await streams.idle(DRAIN)
    streams.check([])
    await streams.send(words, results=len(expected))
    await streams.idle(DRAIN)
    streams.check(expected)
