"""Many networks in one design: they share the words that come in, and compiling takes once."""

import contextlib
import gc

import numpy as np
from amaranth import Cat, Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.outline import describe, describe_output
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim.library import Probe, compile_design, primitives
from sbnn_hw.vectors import pack_images, pack_results


class Packed(wiring.Component):
    """Networks side by side. Each takes the lowest bits of every word.

    A word of the output has for each network whether it gives a result, and that result.
    """

    def __init__(self, networks):
        self.networks = networks
        self.widths = [1 + len(Value.cast(network.o.payload)) for network in networks]
        super().__init__({
            "i": In(stream.Signature(max(len(network.i.payload) for network in networks))),
            "o": Out(stream.Signature(sum(self.widths))),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        ready = Cat(network.i.ready for network in self.networks).all()
        valid = Cat(network.o.valid for network in self.networks).any()
        m.d.comb += [self.i.ready.eq(ready), self.o.valid.eq(valid)]
        for number, network in enumerate(self.networks):
            m.submodules[f"net{number}"] = network
            m.d.comb += [
                network.i.payload.eq(self.i.payload),
                network.i.valid.eq(self.i.valid & ready),
                network.o.ready.eq(self.o.ready),
            ]
        results = (Cat(network.o.valid, Value.cast(network.o.payload)) for network in self.networks)
        m.d.comb += self.o.payload.eq(Cat(*results))
        return m


@contextlib.contextmanager
def without_collection():
    """Let Python look for no garbage: among Amaranth's objects that takes a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Pack:
    """Networks with their options, compiled side by side.

    ``hardware`` is what was made of them, if it is not what is generated.
    """

    def __init__(self, pairs, *, words=300, change=lambda text: text, hardware=None):
        self.pairs, self.words = pairs, words
        self.hardware = hardware or [Datapath(network, options) for network, options in pairs]
        self.top = Packed(self.hardware)
        with without_collection():
            text = to_verilog(self.top)
        self.library = compile_design(
            {"primitives.v": primitives(), "top.v": change(text)},
            in_width=len(self.top.i.payload),
            out_width=len(self.top.o.payload),
            probes=[Probe(path, (path,)) for paths in self._overflows() for path in paths],
            vectors=words,
        )
        self.bits = self._noise(np.random.default_rng(0))

    def _overflows(self):
        """Return for each network the signals that tell of a queue that is too short."""
        return [
            [
                f"net{number}.{queue.overflow}"
                for stage in describe(network, top.lowered, top.options).stages
                for queue in stage.queues
            ]
            for number, ((network, _), top) in enumerate(
                zip(self.pairs, self.hardware, strict=True)
            )
        ]

    def _noise(self, rng):
        """Return words of which many bytes are all zeros or all ones: pixels at their ends."""
        size = -(-len(self.top.i.payload) // 8)
        octets = rng.integers(0, 256, (self.words, size), dtype=np.uint8)
        ends = rng.choice(np.array([0, 255], np.uint8), octets.shape)
        octets = np.where(rng.random(octets.shape) < 0.4, ends, octets)
        return np.unpackbits(octets, axis=1, bitorder="little")[:, : len(self.top.i.payload)]

    def differing(self, *, ready_odds=1.0, valid_odds=1.0, seed=0):
        """Simulate, and return the numbers of the networks that do not say what they should."""
        trace = self._run(ready_odds=ready_odds, valid_odds=valid_odds, seed=seed)
        flat = np.unpackbits(trace.outputs, axis=1, bitorder="little")
        overflows = self._overflows()
        wrong, at = [], 0
        for number, width in enumerate(self.top.widths):
            mine = flat[:, at : at + width]
            given, wanted = mine[mine[:, 0] == 1, 1:], self._wanted(number)
            # Words that are left over begin another image: the last one waits for the rest of it,
            # or it gets its answer before it is complete, where strides leave its end out.
            more = len(given) - len(wanted)
            if more and abs(more) == 1 and self.words % self.hardware[number].beats:
                given, wanted = given[: len(wanted)], wanted[: len(given)]
            short = any(trace.counts[path] for path in overflows[number])
            if short or not np.array_equal(given, wanted):
                wrong.append(number)
            at += width
        return wrong

    def overflows(self, **how):
        """Simulate, and return for each network the queues that were too short, first ones first.

        They are told by the paths of their probes below the network.
        """
        counts = self._run(**how).counts
        found = []
        for number, paths in enumerate(self._overflows()):
            short = sorted((path for path in paths if counts[path]), key=lambda path: -counts[path])
            found.append([path.removeprefix(f"net{number}.") for path in short])
        return found

    def _run(self, **how):
        # The longest that a network can be silent: one image may wait for as many words of the
        # next one as it has, and pipelines follow.
        silent = max(top.latency + top.beats for top in self.hardware)
        return self.library.run(
            np.packbits(self.bits, axis=1, bitorder="little"),
            expect=self.words * len(self.hardware),
            limit=10 * silent,
            **how,
        )

    def _wanted(self, number):
        (network, _), top = self.pairs[number], self.hardware[number]
        images, bits = self.words // top.beats, network.input.bits
        used = self.bits[: images * top.beats, : len(top.i.payload)]
        values = used.reshape(len(used), -1, bits) @ (1 << np.arange(bits))
        outcome = network.compute(values.astype(np.uint8).reshape(images, *network.input.shape))
        wanted = pack_results(
            outcome.classes, outcome.scores, describe_output(network, top.lowered, top.options)
        )
        return np.unpackbits(wanted, axis=1, bitorder="little")[:, : self.top.widths[number] - 1]


def results(design, text, pixels, words, *, odds=1.0, seed=0):
    """Return how many results come of some words of images, and whether a queue is too short."""
    queues = [queue for stage in design.stages for queue in stage.queues]
    library = compile_design(
        {"primitives.v": primitives(), "top.v": text},
        in_width=design.input.width,
        out_width=design.output.width,
        probes=[Probe(f"queue{n}", (queue.overflow,)) for n, queue in enumerate(queues)],
    )
    found = []
    for count in words:
        trace = library.run(
            pack_images(pixels, design.input)[:count],
            expect=len(pixels) + 1,
            valid_odds=odds,
            seed=seed + count,
            limit=4 * design.latency + 1000,
        )
        found.append((len(trace.outputs), sum(trace.counts.values())))
    return found
