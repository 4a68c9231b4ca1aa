"""The collector by itself: results of packets that are accepted, and none of those refused."""

import random
from types import SimpleNamespace

import pytest
from amaranth import Module, Signal
from simulated import simulate, stub

from sbnn_hw.boards.protocol import Wire
from sbnn_hw.boards.shell.collector import Collector

#: Results of two bytes; up to 16 in a packet.
WIRE = Wire((2, 2, 1), 8, 4, 2, 6)
IDENTITY = bytes(range(100, 140))


def collect(packets, *, latency, apart=40, deaf=False):
    """Send packets of some images, accepted or not; return those answered, with their results.

    Results are the numbers of images, and come ``latency`` cycles after these. A ``deaf`` collector
    is not told what was refused.
    """
    m = Module()
    listener, o = stub(write=1, last=1), stub(payload=16, valid=1, ready=1)
    collector = Collector(WIRE, IDENTITY)
    collector.add_to(m, listener, SimpleNamespace(o=o))
    accept, refuse, count, index, named = (
        Signal(width, name=name)
        for name, width in [("a", 1), ("r", 1), ("count", 6), ("index", 8), ("named", 1)]
    )
    # As the responder does it.
    with m.If(accept):
        m.d.sync += [collector.waiting.eq(1), collector.needed.eq(count)]
    with m.If(refuse):
        m.d.sync += collector.forget.eq(not deaf)
    byte = collector.byte_at(m, index, named)
    due, answers, accepted, over = [], [], [], []

    async def host(ctx):
        number = 0
        for name, (images, good) in enumerate(packets):
            # Head and check of a packet take time too; see the bound in the shell.
            await ctx.tick().repeat(28)
            for _ in range(images):
                await ctx.tick().repeat(apart - 1)
                ctx.set(listener.write, 1)
                ctx.set(listener.last, 1)
                await ctx.tick()
                ctx.set(listener.write, 0)
                due.append([latency, number])
                number += 1
            await ctx.tick().repeat(16)
            verdict = accept if good and not ctx.get(collector.waiting) else refuse
            if verdict is accept:
                accepted.append((name, list(range(number - images, number))))
            ctx.set(count, images)
            ctx.set(verdict, 1)
            await ctx.tick()
            ctx.set(verdict, 0)
        await ctx.tick().repeat(latency + 40 * len(due) + 200)
        over.append(ctx.get(collector.under_way))
        ctx.set(named, 1)
        for at, wanted in enumerate(IDENTITY):
            ctx.set(index, at)
            await ctx.tick()
            assert ctx.get(byte) == wanted

    async def network(ctx):
        while True:
            for result in due:
                result[0] -= 1
            ctx.set(o.valid, bool(due) and due[0][0] <= 0)
            ctx.set(o.payload, due[0][1] if due else 0xDEAD)
            _, _, valid, ready = await ctx.tick().sample(o.valid, o.ready)
            if valid and ready:
                due.pop(0)

    async def reader(ctx):
        while True:
            _, _, answered = await ctx.tick().sample(collector.answered)
            data = []
            for at in range(2 * answered * ctx.get(collector.needed)):
                ctx.set(index, at)
                await ctx.tick()
                data.append(ctx.get(byte))
            if answered:
                answers.append(
                    [low | high << 8 for low, high in zip(*[iter(data)] * 2, strict=True)]
                )

    simulate(m, host, background=[network, reader])
    assert over == [0]
    return answers, [numbers for _, numbers in accepted], [name for name, _ in accepted]


def random_packets(seed, count=12):
    rng = random.Random(seed)
    return [(rng.randint(1, 6), rng.random() < 0.6) for _ in range(count)]


@pytest.mark.parametrize("latency", [1, 30, 75])
def test_accepted_packets_get_their_own_results(latency):
    for seed in range(2):
        found, wanted, _ = collect(random_packets(seed), latency=latency)
        assert found == wanted
        assert len(found) > 4


def test_the_largest_packet_is_kept_whole_on_either_side():
    found, wanted, names = collect([(WIRE.batch, True)] * 3, latency=20)
    assert (found, names) == (wanted, [0, 1, 2])


def test_results_of_a_refused_packet_that_come_late_are_not_taken_for_others():
    # Of the second packet nothing has come when it is refused, and the third is already there.
    found, wanted, names = collect([(2, True), (1, False), (2, True)], latency=75)
    assert (found, names) == (wanted, [0, 2])


def test_a_collector_that_forgets_nothing_is_found_out():
    found, wanted, _ = collect([(2, True), (1, False), (2, True)], latency=20, deaf=True)
    assert found != wanted
