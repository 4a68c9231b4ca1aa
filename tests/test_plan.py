"""The planner chooses what fits, what was asked for, and says why."""

import re
from dataclasses import replace

import pytest
from shells import small_network

from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.cost.cost import Cost
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.families import Capacity
from sbnn_hw.planner import Wish, candidates, choose
from sbnn_hw.planner.values import Arrangement, Candidate, StageWork
from sbnn_hw.rtl_gen.options import Options

NETWORK = small_network((4, 4, 1))
#: With the shell's tables and registers in front of what candidates take.
BOARD = replace(BOARDS["arty_a7"], capacity=Capacity(10_600, 100_000, 50, 0))
ASKED = Options(family="xc7", levels_per_stage=5)
CLOCK = 100_000_000


def engine(lanes, cycles, tables, blocks, form="gaps", options=ASKED):
    """Return an arrangement of one engine, half of whose cycles are in each of two layers."""
    works = (
        StageWork("first", cycles - cycles // 4, Cost(memory_bits=70)),
        StageWork("second", cycles // 4, Cost(memory_bits=30)),
    )
    parts = (Candidate(form, lanes, works, cycles, Cost(tables, blocks=blocks)),)
    told = replace(options, form=form, lanes=lanes) if form == "gaps" else options
    return Arrangement(told, parts, cycles, cycles + 9, 16, 8)


def wires(tables, interval=1, options=ASKED):
    works = (StageWork("first", interval, Cost(tables)),)
    parts = (Candidate("unrolled", 0, works, interval, Cost(tables)),)
    return Arrangement(options, parts, interval, 7, interval, 8)


ENGINES = (engine(1, 4000, 100, 10), engine(4, 1000, 400, 12), engine(8, 500, 800, 20))


def planned(monkeypatch, offers, target=BOARD, **wish):
    monkeypatch.setattr(candidates, "GENERATORS", [lambda case: iter(offers)])
    return choose(NETWORK, target, CLOCK, ASKED, Wish(**wish))


def test_wires_are_taken_where_they_fit(monkeypatch):
    found = planned(monkeypatch, (wires(8000), *ENGINES))
    assert found.arrangement == wires(8000)
    assert found.why == "every connection fits as a wire"
    assert found.pace == "an image in every cycle"
    assert found.images_per_second == CLOCK


def test_a_pixel_per_clock_is_taken_where_an_image_does_not_fit(monkeypatch):
    found = planned(monkeypatch, (wires(9000), wires(7000, 16), *ENGINES))
    assert found.arrangement == wires(7000, 16)
    assert found.why == (
        "a whole image per clock needs 9,600 of 10,600 LUTs, of which 85% may be filled, and a "
        "pixel per clock fits"
    )
    assert found.pace == ("the input sets the pace: 16 cycles; wires would give 1, but do not fit")


def test_the_fastest_engine_is_taken_where_wires_do_not_fit(monkeypatch):
    found = planned(monkeypatch, (wires(20_000), *ENGINES))
    assert found.arrangement == ENGINES[2]
    assert found.why == (
        "as wires the network needs 20,600 of 10,600 LUTs; of the engines that fit, this is the "
        "fastest"
    )
    assert found.pace == (
        "first sets the pace: 375 of 500 cycles; wires would give 1, but do not fit"
    )
    assert found.arrangement.title == "gaps, 8 lanes"


@pytest.mark.parametrize(
    ("fps", "lanes"), [(25_000, 1), (25_001, 4), (100_000, 4), (100_001, 8), (200_000, 8)]
)
def test_the_smallest_that_is_fast_enough_is_taken(monkeypatch, fps, lanes):
    found = planned(monkeypatch, (wires(20_000), *ENGINES), fps=fps)
    assert found.options.lanes == lanes
    assert found.why == f"the smallest plan that reaches {fps:,} images/s"
    assert found.images_per_second >= fps


def test_the_cure_is_the_next_step(monkeypatch):
    found = planned(monkeypatch, (wires(20_000), *ENGINES), end="smallest")
    assert found.options.lanes == 1
    assert found.pace == "first sets the pace: 3,000 of 4,000 cycles; 4 lanes give 1,000"
    assert found.why == "the smallest plan that fits"
    found = planned(monkeypatch, (wires(8000), *ENGINES), fps=100_000)
    assert found.pace == "first sets the pace: 750 of 1,000 cycles; 8 lanes give 500"


def test_the_ends_are_the_smallest_and_the_fastest(monkeypatch):
    offers = (wires(9000, 16), *ENGINES, wires(8000))
    assert planned(monkeypatch, offers, end="fastest").arrangement == wires(8000)
    assert planned(monkeypatch, offers, end="smallest").arrangement == ENGINES[0]


def test_a_target_that_no_plan_reaches_names_the_best(monkeypatch):
    with pytest.raises(UsageError) as refused:
        planned(monkeypatch, (wires(20_000), *ENGINES), fps=250_000.5)
    assert str(refused.value) == (
        "No plan reaches 250,000.5 images/s on arty_a7 at 100 MHz; the fastest that fits is gaps, 8 "
        "lanes, with 200,000 images/s (500 cycles per image)"
    )


def test_no_plan_is_one_sentence_with_the_number(monkeypatch):
    with pytest.raises(ModelRejected) as refused:
        planned(monkeypatch, (wires(20_000), engine(1, 4000, 100, 60), engine(4, 999, 400, 61)))
    # As wires, which are estimated, the small network itself fits all other boards.
    others = [name for name in BOARDS if name != "arty_a7"]
    assert str(refused.value) == (
        "No plan fits arty_a7: as gaps, 1 lane the network needs 62 of 50 memory blocks, and as "
        f"wires 20,600 of 10,600 LUTs; it fits {', '.join(others)}; train it sparser or smaller, or "
        "add --force to continue"
    )


def test_limits_hold_for_tables_registers_and_memory(monkeypatch):
    """At 85 % of tables and registers and 95 % of memory, and one more is too many."""
    shell, registers = BOARD.family.shell
    slow = engine(1, 4000, 10, 1)
    room = BOARD.capacity
    for limit, cost in (
        (int(0.85 * room.luts) - shell, lambda n: Cost(tables=n)),
        (int(0.85 * room.flip_flops) - registers - 8, lambda n: Cost(registers=n)),
        (int(0.95 * room.brams) - 2, lambda n: Cost(blocks=n)),
    ):
        for extra, fits in ((0, True), (1, False)):
            part = Candidate("gaps", 8, (StageWork("a", 9, Cost()),), 9, cost(limit + extra))
            fast = Arrangement(ASKED, (part,), 9, 9, 9, 8)
            found = planned(monkeypatch, (slow, fast), end="fastest")
            assert (found.arrangement == fast) == fits
            # All of the part, if that is asked for.
            assert planned(monkeypatch, (slow, fast), end="fastest", fill=100).arrangement == fast


def test_better_a_full_part_than_none(monkeypatch):
    found = planned(monkeypatch, (wires(9900),))
    assert found.arrangement == wires(9900)
    assert found.why.endswith("; it takes 99.1% of the LUTs, because no plan keeps to 85%")
    with pytest.raises(ModelRejected, match=r"^The network needs 10,601 of 10,600 LUTs on arty_a7"):
        planned(monkeypatch, (wires(10_001),))


def test_a_part_of_unknown_size_has_room_for_all(monkeypatch):
    part = part_family("xc7k999tffg901-2")
    found = planned(monkeypatch, (wires(10**6), *ENGINES), target=part)
    assert found.arrangement == wires(10**6)
    assert found.why == "the size of xc7k999tffg901-2 is not known"
    assert planned(monkeypatch, (wires(10**6), *ENGINES), target=part, end="smallest").options.lanes


def test_a_generator_of_candidates_is_enough(monkeypatch):
    """A new kind of engine is one function in the list."""

    def rows(case):
        assert case.network is NETWORK
        yield engine(64, 40, 2, 0, form="rows")

    monkeypatch.setattr(candidates, "GENERATORS", [*candidates.GENERATORS, rows])
    found = choose(NETWORK, BOARD, CLOCK, ASKED, Wish(end="smallest"))
    assert found.arrangement.title == "rows, 64 lanes"
    assert choose(NETWORK, BOARD, CLOCK, ASKED).arrangement.wired


def test_same_input_same_bytes():
    texts = {choose(NETWORK, BOARD, CLOCK, ASKED).to_json() for _ in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"fps": 0}, "Target must be more than 0 images per second, not 0"),
        ({"fps": float("nan")}, "Target must be more than 0 images per second, not nan"),
        ({"end": "best"}, "Target must be smallest or fastest, not 'best'"),
        (
            {"end": "fastest", "fps": 3},
            "A plan has one target; give --target-fps or --target, not both",
        ),
        ({"form": "dense"}, "Form must be one of unrolled, gaps, bitmap, not 'dense'"),
        ({"form": "gaps", "lanes": -1}, "Lanes must be 1 or more, not -1"),
        ({"lanes": 4}, "Lanes are those of an engine; add --form gaps or bitmap"),
        (
            {"form": "unrolled", "loadable": True},
            "Wires cannot be loaded; omit --loadable, or --form unrolled",
        ),
        ({"fill": 101}, "Fill must be from 1 to 100 percent, not 101"),
    ],
)
def test_a_wish_that_cannot_be_meant_is_one_sentence(wish, words):
    with pytest.raises(UsageError, match=f"^{re.escape(words)}$"):
        Wish(**wish)
