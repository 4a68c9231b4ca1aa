"""A network of look-up tables, each thing in it once.

Generators describe what they want here first, without a clock: tables are reduced to the inputs
that matter, equal ones are shared, constants and inversions vanish into the tables behind them.
:mod:`sbnn_hw.rtl_gen.pipeline` then cuts the network into ranks and
:mod:`sbnn_hw.rtl_gen.fabric` writes it for an FPGA family.

A *literal* is twice the number of a net, plus one for its complement. Net 0 is constant zero.
"""

from collections.abc import Sequence
from functools import cache

__all__ = ["FALSE", "TRUE", "Logic", "table_of"]

FALSE, TRUE = 0, 1

#: Truth tables are integers: bit *i* is the answer where input *n* is bit *n* of *i*.
Table = int

# The table of input n alone, for up to six inputs.
_VARIABLE = [
    sum(1 << i for i in range(64) if i >> n & 1)
    for n in range(6)
]


@cache
def _reduce(table: Table, pattern: tuple[int, ...]) -> tuple[Table, tuple[int, ...], int]:
    """Bring a table into its one form.

    ``pattern`` has for each input its rank among the distinct nets, doubled, plus one if
    inverted; −2 and −1 stand for the constants. Returns the table over the inputs that matter,
    in the order of their ranks, these ranks, and whether the table was complemented.
    """
    ranks = sorted({p >> 1 for p in pattern if p >= 0})
    place = {rank: n for n, rank in enumerate(ranks)}
    size = 1 << len(ranks)
    wide = 0
    for i in range(size):
        j = 0
        for n, p in enumerate(pattern):
            bit = p & 1 if p < 0 else (i >> place[p >> 1] & 1) ^ (p & 1)
            j |= bit << n
        wide |= (table >> j & 1) << i
    kept = []
    for n, rank in enumerate(ranks):
        mask = _VARIABLE[n] & ((1 << size) - 1)
        if (wide & mask) >> (1 << n) != wide & ~mask & ((1 << size) - 1):
            kept.append((n, rank))
    small = 0
    for i in range(1 << len(kept)):
        j = sum((i >> m & 1) << n for m, (n, _) in enumerate(kept))
        small |= (wide >> j & 1) << i
    negated = small & 1
    if negated:
        small ^= (1 << (1 << len(kept))) - 1
    return small, tuple(rank for _, rank in kept), negated


@cache
def table_of(weights: tuple[int, ...], least: int, modulus: int = 0, base: int = 0) -> Table:
    """Return the table of ⌊(base + weighted sum of the inputs)⌋ ≥ least.

    With a ``modulus`` 2^m the sum is taken modulo 2^m first: bit *b* of a sum is
    ``table_of(weights, 1 << b, 2 << b)``.
    """
    table = 0
    for i in range(1 << len(weights)):
        total = base + sum(w for n, w in enumerate(weights) if i >> n & 1)
        if modulus:
            total %= modulus
        table |= (total >= least) << i
    return table


class Logic:
    """A growing network of tables over some inputs.

    Parameters
    ----------
    inputs : int
        How many nets come from outside; they are numbered from 1.
    """

    def __init__(self, inputs: int):
        self.inputs = inputs
        #: For each net its table and the nets it reads; ``None`` for constant and inputs.
        self.tables: list[Table] = [0] * (inputs + 1)
        self.reads: list[tuple[int, ...]] = [()] * (inputs + 1)
        self.levels: list[int] = [0] * (inputs + 1)
        self.names: list[str] = ["zero", *(f"i{n}" for n in range(inputs))]
        #: The heaps that were built: inputs in each column, numbered afresh, and the threshold.
        self.heaps: set[tuple[tuple[tuple[int, ...], ...], int]] = set()
        #: What the nets made next are for: part of their names.
        self.owner = "t"
        #: Equal tables are one within a scope. What neurons share has its own, so that it can be
        #: told from what is theirs.
        self.scope = ""
        self._known: dict[tuple[str, Table, tuple[int, ...]], int] = {}
        self._made: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.tables) - self.inputs - 1

    def input(self, number: int) -> int:
        """Return the literal of an input."""
        if not 0 <= number < self.inputs:
            raise ValueError(f"Input must be below {self.inputs}, not {number!r}")
        return 2 * (number + 1)

    def level(self, literal: int) -> int:
        """Return how many tables lie between the inputs and a literal, at most."""
        return self.levels[literal >> 1]

    def table(self, table: Table, literals: Sequence[int]) -> int:
        """Return the literal of a function of literals."""
        nets = sorted({literal >> 1 for literal in literals if literal > 1})
        rank = {net: n for n, net in enumerate(nets)}
        pattern = tuple(
            2 * rank[literal >> 1] + (literal & 1) if literal > 1 else literal - 2
            for literal in literals
        )
        reduced, ranks, negated = _reduce(table, pattern)
        if not ranks:
            return negated
        reads = tuple(nets[rank] for rank in ranks)
        if len(reads) == 1:
            return 2 * reads[0] + negated
        return 2 * self._net(reduced, reads) + negated

    def _net(self, table: Table, reads: tuple[int, ...]) -> int:
        key = (self.scope, table, reads)
        net = self._known.get(key)
        if net is None:
            net = self._known[key] = self._append(table, reads)
        return net

    def _append(self, table: Table, reads: tuple[int, ...]) -> int:
        number = self._made.get(self.owner, 0)
        self._made[self.owner] = number + 1
        self.tables.append(table)
        self.reads.append(reads)
        self.levels.append(1 + max(self.levels[net] for net in reads))
        self.names.append(f"{self.owner}_{number}")
        return len(self.tables) - 1

    def positive(self, literals: Sequence[int]) -> list[int]:
        """Return nets that carry the literals themselves, as a register or a port needs.

        A complement becomes a table of its own, with the inputs of the net that it inverts; if
        nothing else reads that one, it is gone with the next :meth:`live`.
        """
        nets = []
        for literal in literals:
            net = literal >> 1
            if literal == TRUE:
                net = self._plain(1, ())
            elif literal & 1:
                reads = self.reads[net]
                if reads:
                    full = (1 << (1 << len(reads))) - 1
                    net = self._plain(self.tables[net] ^ full, reads)
                else:
                    net = self._plain(1, (net,))
            nets.append(net)
        return nets

    def _plain(self, table: Table, reads: tuple[int, ...]) -> int:
        if not reads:
            known = self._known.get(("", table, reads))
            if known is None:
                self.tables.append(table)
                self.reads.append(())
                self.levels.append(0)
                self.names.append("one")
                known = self._known["", table, reads] = len(self.tables) - 1
            return known
        return self._net(table, reads)

    def live(self, nets: Sequence[int]) -> list[int]:
        """Return the nets that some nets depend on, themselves included, inputs before readers."""
        seen = bytearray(len(self.tables))
        stack = list(nets)
        while stack:
            net = stack.pop()
            if not seen[net]:
                seen[net] = 1
                stack.extend(self.reads[net])
        return [net for net in range(len(self.tables)) if seen[net]]

    def evaluate(self, inputs: Sequence[int], nets: Sequence[int], cases: int) -> list[int]:
        """Compute nets in software, in many cases at once.

        Bit *v* of an input's, and of a result's, integer is its value in case *v*.
        """
        every = (1 << cases) - 1
        values: dict[int, int] = {}
        for net in self.live(nets):
            reads = self.reads[net]
            if not reads:
                is_input = 0 < net <= self.inputs
                values[net] = inputs[net - 1] if is_input else every * self.tables[net]
                continue
            result = 0
            for i in range(1 << len(reads)):
                if self.tables[net] >> i & 1:
                    term = every
                    for n, read in enumerate(reads):
                        term &= values[read] if i >> n & 1 else ~values[read]
                    result |= term
            values[net] = result
        return [values[net] for net in nets]
