"""Proofs that the tables written for a heap say whether a plain sum reaches a constant.

What is proved is the generated text, with the models of primitives that simulations use, for all
inputs at once: Yosys looks for one at which the two differ and finds that there is none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from heaps import heap_verilog, heaps_of

from sbnn_hw.netlist import Network
from sbnn_hw.sim.library import primitives
from sbnn_hw.yosys import run_yosys

__all__ = ["LIMIT", "Heap", "prove_heap", "prove_heaps", "prove_network", "prove_text"]

#: Inputs up to which a proof takes a second at most; with each one more the time grows by half.
LIMIT = 16

# Seconds for one proof. What takes longer counts as not proved.
_PATIENCE = 120

_SCRIPT = """\
read_verilog primitives.v top.v check.v
hierarchy -check -top check
proc
flatten
opt
techmap
opt
"""


@dataclass(frozen=True)
class Heap:
    """Weighted bits, and the sum from which they fire.

    Examples
    --------
    >>> Heap.of_counts((3, 1), 4)
    Heap(columns=((0, 1, 2), (3,)), threshold=4)
    """

    # The numbers of the inputs in each column, column *c* weighing 2^c.
    columns: tuple[tuple[int, ...], ...]
    threshold: int  # What the sum must reach.

    @classmethod
    def of_counts(cls, counts: Sequence[int], threshold: int) -> "Heap":
        """Return a heap of so many different bits in each column."""
        ends = [sum(counts[:n]) for n in range(len(counts) + 1)]
        columns = (tuple(range(a, b)) for a, b in pairwise(ends))
        return cls(tuple(columns), threshold)

    @property
    def inputs(self) -> int:
        """Number of different inputs."""
        return 1 + max((bit for column in self.columns for bit in column), default=-1)

    def reference(self, start: int) -> str:
        """Return the comparison in Verilog, of inputs that begin at some bit of ``i``."""
        if self.threshold <= 0:
            return "1'd1"
        most = sum(len(column) << n for n, column in enumerate(self.columns))
        width = max(most, self.threshold).bit_length()
        terms = [
            f"{width}'d{1 << n} * i[{start + bit}]"
            for n, column in enumerate(self.columns)
            for bit in column
        ]
        total = " + ".join([f"{width}'d0", *terms])
        return f"({total}) >= {width}'d{self.threshold}"


def prove_text(verilog: str, heaps: Sequence[Heap]) -> list[bool]:
    """Tell for each of some heaps whether the text computes it.

    The text's module ``top`` has the inputs of all heaps, in order, at ``i``, and at ``o`` a bit
    for each heap.
    """
    if not heaps:
        return []
    width = max(1, sum(heap.inputs for heap in heaps))
    lines = [
        f"module check(input [{width - 1}:0] i);",
        f"  wire [{len(heaps) - 1}:0] o;",
        "  top dut(.i(i), .o(o));",
    ]
    script = [_SCRIPT]
    start = 0
    for number, heap in enumerate(heaps):
        lines.append(f"  (* keep *) wire equal{number} = o[{number}] == ({heap.reference(start)});")
        start += heap.inputs
        # Each proof sees its own heap alone.
        script += [
            f"select check/w:equal{number} %ci*",
            f"tee -q -o proof{number}.txt sat -timeout {_PATIENCE} -prove equal{number} 1",
            "select -clear",
        ]
    check = "\n".join([*lines, "endmodule", ""])
    written = run_yosys(
        "\n".join([*script, ""]), {"primitives.v": primitives(), "top.v": verilog, "check.v": check}
    )
    return [
        "SAT proof finished - no model found: SUCCESS!" in written[f"proof{number}.txt"]
        for number in range(len(heaps))
    ]


def prove_heaps(
    heaps: Iterable[Heap], family: str, *, limit: int = LIMIT, split_pairs: bool = False
) -> dict[Heap, bool]:
    """Generate each heap of up to ``limit`` inputs for a family, and tell which were proved."""
    chosen = [heap for heap in dict.fromkeys(heaps) if heap.inputs <= limit]
    if not chosen:
        return {}
    text = heap_verilog(
        [(heap.columns, heap.threshold) for heap in chosen], family, split_pairs=split_pairs
    )
    return dict(zip(chosen, prove_text(text, chosen), strict=True))


def prove_heap(
    counts: Sequence[int], threshold: int, family: str, *, split_pairs: bool = False
) -> bool:
    """Generate a heap of so many bits in each column for a family, and tell if it was proved."""
    heap = Heap.of_counts(counts, threshold)
    found = prove_heaps([heap], family, limit=heap.inputs, split_pairs=split_pairs)
    return found[heap]


def prove_network(network: Network, family: str, *, limit: int = LIMIT) -> dict[Heap, bool]:
    """Generate each distinct heap of a network by itself, and tell which were proved.

    Heaps with more than ``limit`` inputs are left out.
    """
    heaps = [Heap(columns, threshold) for columns, threshold in heaps_of(network, family)]
    return prove_heaps(heaps, family, limit=limit)
