"""Components in Amaranth's own simulator, with hesitation where they allow it."""

import random
from types import SimpleNamespace

from amaranth import Const, Signal
from amaranth.sim import Simulator

from sbnn_hw.rtl_gen.cores import core_of


def simulate(dut, *benches, background=()):
    """Run a component until all benches are over; those in the background are then stopped."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for bench in benches:
        simulator.add_testbench(bench)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    simulator.run()


def stub(**widths):
    """Return an object with a signal for each name: it stands for a neighbour of what is tested."""
    return SimpleNamespace(**{name: Signal(width, name=name) for name, width in widths.items()})


def restless(part):
    """Return the core of a part with a fault: it does not stop when it is told to."""
    core = core_of(part)
    elaborate, enable = core.elaborate, core.enable

    def faulty(platform):
        core.enable = Const(1)
        m = elaborate(platform)
        core.enable = enable
        return m

    core.elaborate = faulty
    return core


def run_streams(dut, words, expected, *, odds=1.0, seed=0):
    """Send words through a component and return what comes out, with hesitation on both sides."""
    rng = random.Random(seed)
    given = []

    async def source(ctx):
        for word in words:
            while rng.random() > odds:
                await ctx.tick()
            ctx.set(dut.i.payload, word)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def sink(ctx):
        waited = 0
        while len(given) < expected and waited < 3000:
            ctx.set(dut.o.ready, rng.random() <= odds)
            _, _, valid, ready, payload = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload
            )
            waited += 1
            if valid and ready:
                given.append(payload)
                waited = 0

    simulate(dut, source, sink)
    return given


def run_part(part, words, **how):
    """Send words through the core of a part, as :func:`run_core` does."""
    return run_core(core_of(part), words, **how)


def run_core(core, words, *, odds=1.0, seed=0, apart=1, drain=40):
    """Send words through a core; return its outputs, their cycles, and the cycles of the words.

    Only cycles with ``enable`` count. Words come with these odds, at least so many cycles apart,
    and with the same odds the core is enabled; at last it runs for so many cycles more.
    """
    rng = random.Random(seed)
    given, times, arrivals = [], [], []

    async def bench(ctx):
        left, cycle, rest, soonest = list(words), 0, drain, 0
        while left or rest:
            enable = rng.random() <= odds
            sends = bool(left) and cycle >= soonest and rng.random() <= odds
            ctx.set(core.enable, enable)
            ctx.set(core.i.valid, sends)
            # What is not valid means nothing.
            ctx.set(core.i.payload, left[0] if sends else rng.getrandbits(len(core.i.payload)))
            if enable:
                if ctx.get(core.o.valid):
                    times.append(cycle)
                    given.append(ctx.get(core.o.payload))
                if sends:
                    arrivals.append(cycle)
                    soonest = cycle + apart
                    left.pop(0)
                else:
                    rest -= not left
                cycle += 1
            await ctx.tick()

    simulate(core, bench)
    return given, times, arrivals
