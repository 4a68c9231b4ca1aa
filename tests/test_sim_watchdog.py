# amaranth: UnusedElaboratable=no
"""A design that stops is told in a sentence that names the stage: never a hang."""

import re
from dataclasses import replace

import numpy as np
import pytest
from random_networks import random_images, random_taps
from random_residual import Graph as Stages
from random_residual import random_affine, random_binary_sums
from shells import Talk, make_rig, small_network
from test_rtl_gen_join import forked, shortened

from sbnn_hw.boards.protocol import Answer, Command
from sbnn_hw.errors import Disagreement
from sbnn_hw.hardware import Folder
from sbnn_hw.netlist import Edge, Encode, Flatten, Scores
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.graph import Graph
from sbnn_hw.rtl_gen.lower import Lowered, Options
from sbnn_hw.sim.agreement import check_agreement
from sbnn_hw.sim.watchdog import explain, patience


def chain():
    """Return a network whose stages are read by the next one only."""
    rng = np.random.default_rng(3)
    stages = Stages(Edge.of_bits((4, 4, 1), 4, scan="raster"))
    bits = stages.add(Encode(np.array([[5, 9]])), -1)
    sums = stages.add(random_binary_sums(rng, stages.edges[bits], 2), bits)
    stream = stages.add(random_affine(rng, stages.edges[sums], bits=3, slopes=False), sums)
    flat = stages.add(Flatten(), stream)
    taps = random_taps(rng, 2, stages.edges[flat].size, most=4)
    weights = rng.choice([-2, 1, 3], len(taps.indices))
    stages.add(Scores(taps=taps, weights=weights, offsets=[0, 1]), flat)
    return stages.finish()


@pytest.fixture
def two_islands(monkeypatch):
    """Return a design of two islands, a stream between them: its network, text and description."""
    network = chain()

    def islands(self):
        names = [*self.parts]
        cut = names.index("sums1") + 1
        return tuple(Graph.chain({name: self.parts[name] for name in part})
                     for part in (names[:cut], names[cut:]))  # fmt: skip

    monkeypatch.setattr(Lowered, "islands", property(islands))
    made = generate(network, Options(family="generic", levels_per_stage=2, serial=1))
    stages = []
    for number, stage in enumerate(made.design.stages):
        place = f"island{int(number > 1)}."
        stages.append(replace(
            stage, strobes=tuple(place + path for path in stage.strobes),
            payload=stage.payload and place + stage.payload,
        ))  # fmt: skip
    return network, made.verilog, replace(made.design, stages=tuple(stages))


def within(text, module, pattern, new):
    """Change something in the text of a module, wherever it is there."""
    start = text.index(f"module \\top.{module} " if module else "module top(")
    end = text.index("endmodule", start)
    changed, count = re.subn(pattern, new, text[start:end])
    assert count
    return text[:start] + changed + text[end:]


def found_in(network, text, design, **how):
    pixels = random_images(np.random.default_rng(2), network, 6)
    return check_agreement(network, text, design, pixels, **how)


def test_two_islands_agree(two_islands):
    for stalls in (False, True):
        found = found_in(*two_islands, stalls=stalls, inside=True)
        # A stream between islands may add to the latency.
        assert [each for each in found.differences if "latency" not in each] == []
        assert found.stopped is None


@pytest.mark.parametrize("stalls", [False, True])
def test_a_stage_that_never_gives_a_word_is_named(two_islands, stalls):
    network, text, design = two_islands
    text = within(text, "island1.affine2", r"o_valid <= (?!1'h0)[^;]+;", "o_valid <= 1'h0;")
    found = found_in(network, text, design, stalls=stalls)
    odds = 0.7 if stalls else 1.0
    assert found.stopped == (
        f"nothing moved for {patience(design.to_dict(), odds)} cycles when 0 of 6 results have "
        "come: stage affine2 has handed on 0 of 96 words"
    )
    assert not found.equal
    sent = 6 * design.input.beats / odds
    assert found.cycles < 2 * sent + patience(design.to_dict(), odds)


def test_an_island_that_takes_nothing_is_to_blame_and_not_the_one_in_front(two_islands):
    network, text, design = two_islands
    text = within(text, "island1", r"assign enable = [^;]+;", "assign enable = 1'h0;")
    found = found_in(network, text, design)
    assert found.stopped.endswith(
        ": stage affine2 has handed on 0 words, and does not take what comes from stage sums1"
    )
    assert found.mismatches == 6


def test_a_queue_that_makes_its_source_wait_is_named(monkeypatch):
    """It does not overflow, as within an island, but stops what is in front of it: a deadlock."""
    network = forked(1, "skip")
    shortened(monkeypatch, "join")
    made = generate(network, Options(levels_per_stage=2))
    (stage,) = [stage for stage in made.design.stages if stage.name == "join"]
    number, queue = max(enumerate(stage.queues), key=lambda each: each[1].depth)
    full = f"join_join.queue{number}_level == {queue.depth - 1}"
    # One signal lets all parts of an island go on, and the input.
    text = within(made.verilog, "", r"assign i__ready = ([^;]+);",
                  rf"assign i__ready = (\1) & ~({full});")  # fmt: skip
    found = found_in(network, text, made.design)
    assert found.overflows == []
    assert found.stopped.endswith(
        f"0 of 1 results have come: stage join waits for stage left1, and its queue of "
        f"{queue.depth} for what comes from stage encode is full"
    )


def test_a_design_that_stops_fails_with_that_sentence(two_islands, tmp_path):
    network, text, design = two_islands
    text = within(text, "island1.affine2", r"o_valid <= (?!1'h0)[^;]+;", "o_valid <= 1'h0;")
    found = found_in(network, text, design)
    with pytest.raises(Disagreement, match="stage affine2 has handed on 0 of 96 words") as error:
        Folder(tmp_path).insist(found)
    assert error.value.exit_code == 7


def test_a_simulated_board_says_which_stage_of_its_network_has_stopped():
    network = small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4)
    rig = make_rig(network, change=lambda text: within(
        text, "scores", r"o_valid <= (?!1'h0)[^;]+;", "o_valid <= 1'h0;"))  # fmt: skip
    line = rig.line()
    talk = Talk(line)
    assert [packet.kind for packet in talk.ask(Command.IDENTIFY, 1)] == [Answer.IDENTITY]
    pixels = random_images(np.random.default_rng(0), network, 3)
    sentence = (
        r"^The simulated network has stopped: nothing moved for [\d,]+ cycles when 0 of 3 results "
        r"have come: stage scores has handed on 0 of 3 words$"
    )
    with pytest.raises(Disagreement, match=sentence):
        talk.ask(Command.CLASSIFY, 2, pixels.tobytes())
    line.close()


def test_what_cannot_be_seen_is_not_blamed():
    network = chain()
    design = generate(network, Options(family="generic")).design.to_dict()
    for stage in design["stages"]:
        stage["strobes"] = []
    assert explain(design, 32, 1, {}, ()) == (
        "1 of 2 results have come, and no stage that can be seen is to blame"
    )
