"""Derive the energy of a toggle on iCE40 from a published measurement, for decision 25.

tinyVision.ai measured the core current of an iCE40 UP5K at 12 MHz with a counter, and with the same
counter and a multiplier of two counters (github.com/tinyvision-ai-inc/ice40_power). The difference
is what the multiplier draws. Its toggles are counted here, in the netlist that Yosys makes of the
same arithmetic: outputs of tables and flip-flops, once settled in a clock, as for designs.
"""

import json
from dataclasses import dataclass

from sbnn_hw.families import find_fpga_family
from sbnn_hw.yosys import run_yosys

#: As published: amperes at this voltage and clock, and the logic cells that both designs took.
AMPERES, VOLTS, HERTZ, CELLS = (645e-6, 996e-6), 1.219, 12e6, (28, 208)

#: What the multiplier takes in a clock.
JOULES = (AMPERES[1] - AMPERES[0]) * VOLTS / HERTZ

#: The counter, and the multiplier with it. What is multiplied is kept: nothing reads it.
COUNTER = "reg [23:0] c = 0; always @(posedge clk) c <= c + 1'b1;"
MULTIPLIER = (
    "reg [7:0] a = 0, b = 0; always @(posedge clk) begin a <= a + 3; b <= b + 5; end "
    "(* keep *) wire [15:0] r = a * b;"
)
READ = "assign q = c[23] | (&a) | (&b) | (&r);"
DESIGNS = (
    f"module top(input clk, output q); {COUNTER} assign q = c[23]; endmodule",
    f"module top(input clk, output q); {COUNTER} {MULTIPLIER} {READ} endmodule",
)

#: Clocks that are simulated; the sums of both counters repeat after 256.
CLOCKS = 1024


@dataclass(frozen=True)
class Activity:
    """Tables of a design, and toggles of tables and flip-flops in a clock."""

    tables: int
    toggles: float


def activity(verilog: str) -> Activity:
    """Synthesise a design for iCE40, and count what toggles in its netlist."""
    script = "read_verilog top.v\nsynth_ice40 -top top\nwrite_json netlist.json\n"
    cells = json.loads(run_yosys(script, {"top.v": verilog})["netlist.json"])
    gates, registers, carries = [], [], set()
    for cell in cells["modules"]["top"]["cells"].values():
        pins = {name: bits[0] for name, bits in cell["connections"].items()}
        match cell["type"]:
            case "SB_LUT4":
                contents = int(cell["parameters"]["LUT_INIT"], 2)
                gates.append((contents, [pins[f"I{n}"] for n in range(4)], pins["O"]))
            case "SB_CARRY":
                # The majority of three, as a table; it is no output of a table or flip-flop.
                gates.append((0xE8, [pins["I0"], pins["I1"], pins["CI"]], pins["CO"]))
                carries.add(pins["CO"])
            case "SB_DFF":
                registers.append((pins["D"], pins["Q"]))
            case other:
                raise SystemExit(f"Cannot simulate a {other}")
    gates = _in_order(gates, {q for _, q in registers})
    outputs = [out for _, _, out in gates if out not in carries]
    watched = [*outputs, *(q for _, q in registers)]
    values = dict.fromkeys((q for _, q in registers), 0) | {"0": 0, "1": 1, "x": 0}
    _settle(gates, values)
    toggles = 0
    for _ in range(CLOCKS):
        before = dict(values)
        values |= {q: before[d] for d, q in registers}
        _settle(gates, values)
        toggles += sum(values[net] != before[net] for net in watched)
    return Activity(len(outputs), toggles / CLOCKS)


def _in_order(gates: list, known: set) -> list:
    """Return gates so that each comes behind those that it reads."""
    known, ordered, left = known | {"0", "1", "x"}, [], gates
    while left:
        ready = [gate for gate in left if known.issuperset(gate[1])]
        ordered += ready
        known |= {out for _, _, out in ready}
        left = [gate for gate in left if gate not in ready]
    return ordered


def _settle(gates: list, values: dict) -> None:
    for contents, inputs, out in gates:
        index = sum(values[net] << place for place, net in enumerate(inputs))
        values[out] = contents >> index & 1


def capacitance_pf(toggles: float) -> float:
    """Return the capacitance of a toggle if the multiplier has so many in a clock."""
    return 2 * JOULES / toggles / VOLTS**2 * 1e12


def main() -> None:
    """Print each step of the derivation."""
    counter, both = map(activity, DESIGNS)
    toggles = both.toggles - counter.toggles
    print(f"tables       {both.tables}, {CELLS[1]} logic cells as published")
    print(f"toggles      {toggles:.2f} a clock more than the counter's")
    print(f"energy       {JOULES * 1e12:.1f} pJ a clock, {JOULES / toggles * 1e12:.2f} pJ a toggle")
    print(f"capacitance  {capacitance_pf(toggles):.3f} pF")
    print(f"in use       {find_fpga_family('ice40').switching.capacitance_pf} pF")


if __name__ == "__main__":
    main()
