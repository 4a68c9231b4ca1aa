"""A network as an IP core: AXI4-Stream for images and results, AXI4-Lite for registers."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.ip.core import ADDRESS_BITS, IpDescription
from sbnn_hw.ip.registers import REGISTERS
from sbnn_hw.rtl_gen.axi import AxiStream, Boxed
from sbnn_hw.rtl_gen.axi_lite import AxiLite
from sbnn_hw.rtl_gen.streams import Narrow, Slice
from sbnn_hw.rtl_gen.verilog import to_verilog

__all__ = ["IpCore", "generate_core"]


def generate_core(core: IpDescription) -> str:
    """Return the Verilog of a core's top module, which instantiates ``core.network``."""
    return to_verilog(IpCore(core), core.module)


class IpCore(wiring.Component):
    """The top module of a core; the network's Verilog lies in another file.

    Members are those of ``core.ports``, one signal each. No path leads from an input to an output
    within a cycle. The reset is synchronous.
    """

    def __init__(self, core):
        self._core = core
        super().__init__({
            port.name: (Out if port.output else In)(port.width) for port in core.ports
        })

    def elaborate(self, platform):
        m = Module()
        core = self._core

        # What images pass is in a domain of its own, which software can reset. Results that have
        # left it are not: a packet that has begun to leave the core must come to its end.
        restart = Signal()
        for name in ("sync", "stream"):
            domain = ClockDomain(name)
            domain.clk = self.aclk
            setattr(m.domains, name, domain)
        m.d.comb += [
            ResetSignal("sync").eq(~self.aresetn),
            ResetSignal("stream").eq(~self.aresetn | restart),
        ]

        axis = AxiStream(Boxed(core.design, core.network), core.s_width)
        m.submodules.axis = DomainRenamer("stream")(axis)
        # Nothing is taken or given in the cycle of a restart.
        m.d.comb += [
            axis.s_axis.tdata.eq(self.s_axis_tdata),
            axis.s_axis.tlast.eq(self.s_axis_tlast),
            axis.s_axis.tvalid.eq(self.s_axis_tvalid & ~restart),
            self.s_axis_tready.eq(axis.s_axis.tready & ~restart),
        ]

        count = core.result_words
        m.submodules.slice = out = Slice(core.m_width + 1)
        last = Signal()
        waits = Signal()
        result = axis.m_axis.tvalid & ~restart
        if count > 1:
            m.submodules.narrow = narrow = Narrow(core.m_width, count)
            m.d.comb += [
                narrow.i.payload.eq(axis.m_axis.tdata),
                narrow.i.valid.eq(result),
                axis.m_axis.tready.eq(narrow.i.ready),
                waits.eq(narrow.o.valid),
            ]
            word, valid, ready = narrow.o.payload, narrow.o.valid, narrow.o.ready
            index = Signal(range(count))
            m.d.comb += last.eq(index == count - 1)
            with m.If(valid & ready):
                m.d.sync += index.eq(Mux(last, 0, index + 1))
        else:
            word, valid, ready = axis.m_axis.tdata, result, axis.m_axis.tready
            m.d.comb += last.eq(1)
        m.d.comb += [
            out.i.payload[:-1].eq(word),
            out.i.payload[-1].eq(last),
            out.i.valid.eq(valid),
            ready.eq(out.i.ready),
            Cat(self.m_axis_tdata, self.m_axis_tlast).eq(out.o.payload),
            self.m_axis_tvalid.eq(out.o.valid),
            out.o.ready.eq(self.m_axis_tready),
        ]

        # What happens in a cycle. A network holds fewer images than it has ranks of registers.
        taken = self.s_axis_tvalid & self.s_axis_tready
        given = self.m_axis_tvalid & self.m_axis_tready
        unfinished = Signal(range(2 * core.design.latency + 16))
        m.d.stream += unfinished.eq(unfinished + (taken & (axis.index == 0))
                                - (result & axis.m_axis.tready))
        busy = Signal()
        m.d.comb += busy.eq((unfinished != 0) | waits | out.o.valid)
        counted = {
            "IMAGES_IN":    taken & (axis.index == axis.words - 1),
            "RESULTS_OUT":  given & self.m_axis_tlast,
            "BUSY_CYCLES":  busy,
            "STALL_CYCLES": self.m_axis_tvalid & ~self.m_axis_tready,
        }

        m.submodules.lite = lite = AxiLite(ADDRESS_BITS)
        for port in core.ports:
            if port.bus == "s_axi":
                inner = getattr(lite.bus, port.signal.lower())
                outer = getattr(self, port.name)
                m.d.comb += outer.eq(inner) if port.output else inner.eq(outer)

        by_name = {register.name: register for register in REGISTERS}
        live = {name: Signal(32, name=name.lower()) for name in (*counted, "SCRATCH")}
        control, status = by_name["CONTROL"], by_name["STATUS"]
        clear = Signal()
        for name, event in counted.items():
            # What happens in the cycle of a clear is counted from it on.
            m.d.sync += live[name].eq(Mux(clear, 0, live[name]) + event)
        live["STATUS"] = Cat(
            {"MISFRAMED": axis.misframed, "BUSY": busy}[each.name] for each in status.fields
        )
        live["CONTROL"] = C(0, 32)

        m.d.comb += [lite.read_error.eq(1), lite.write_error.eq(1)]
        m.d.sync += restart.eq(0)
        with m.Switch(lite.read_word):
            for register in REGISTERS:
                with m.Case(register.offset // 4):
                    value = register.value
                    m.d.comb += [
                        lite.read_data.eq(live[register.name] if value is None else value(core)),
                        lite.read_error.eq(0),
                    ]
        with m.Switch(lite.write_word):
            for register in REGISTERS:
                if register.writable:
                    with m.Case(register.offset // 4):
                        m.d.comb += lite.write_error.eq(0)
        with m.If(lite.write & (lite.write_word == control.offset // 4) & lite.write_bytes[0]):
            m.d.comb += clear.eq(lite.write_data[control.bit("CLEAR")])
            m.d.sync += restart.eq(lite.write_data[control.bit("RESET")])
        with m.If(lite.write & (lite.write_word == by_name["SCRATCH"].offset // 4)):
            for byte in range(4):
                with m.If(lite.write_bytes[byte]):
                    m.d.sync += live["SCRATCH"].word_select(byte, 8).eq(
                        lite.write_data.word_select(byte, 8))

        return m
