"""Compare random layers, as hardware would compute them, with what the netlist says.

Every case is a random network with a seed of its own: all candidates of all its stages are lowered
to tables, and engines' programs made of it, and both are computed in numpy. One case in a thousand
goes through Verilator too. A run that was stopped goes on where its file of state ends.

    python bench/fuzz.py --minutes 10            # go on for ten minutes
    python bench/fuzz.py --layers 100000         # go on until so many layers have passed
    python bench/fuzz.py --case 1234             # one case again, with all that differs
    python bench/fuzz.py --plant escape          # is this fault found?
    python bench/fuzz.py --minutes 0 --publish   # docs/bench/fuzz.json and docs/hardware.md
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from fuzzing.cases import Case
from fuzzing.faults import FAULTS, planted
from fuzzing.tally import Tally
from pages import put

from sbnn_hw.flow.steps import code_digest

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs/hardware.md", ROOT / "docs/bench/fuzz.json"

#: What is tested: a run that other code has begun cannot go on.
TESTED = ("sbnn_hw.netlist", "sbnn_hw.engine", "sbnn_hw.rtl_gen.design")

#: Seconds between two writings of the state.
_SAVED = 10


def fuzz(
    tally: Tally, minutes: float, layers: float, state: Path | None, *, first: bool = False
) -> None:
    """Go through cases until time is over, so many layers have passed, or the first is wrong."""
    end = time.monotonic() + 60 * minutes
    saved = time.monotonic()
    while time.monotonic() < end and tally.layers.total() < layers:
        case, before = tally.next_case(), time.process_time()
        result = case.run()
        tally.add(case, result, time.process_time() - before)
        for sentence in result.wrong:
            print(f"case {case.seed}, {result.kind}: {sentence}")
            print(f"  again: python bench/fuzz.py --case {case.seed}", flush=True)
        if result.wrong and first:
            break
        if state is not None and time.monotonic() > saved + _SAVED:
            tally.save(state)
            saved = time.monotonic()
    if state is not None:
        tally.save(state)


def again(seed: int) -> int:
    """Run a case, and say all of it; return 1 if something differs."""
    case = Case(seed)
    _, kind, network, pixels = case.make()
    print(f"case {seed}: {kind}, {len(pixels)} images of {network.input}")
    for number, stage in enumerate(network.stages):
        edges = ", ".join(str(edge.shape) for edge in network.edges_into(number))
        print(f"  {stage.name}: {edges} to {network.edge_from(number).shape}")
    result = case.run()
    print(", ".join(f"{way} {count}" for way, count in result.ways.items()))
    print("\n".join(result.wrong) or "all is equal")
    return int(bool(result.wrong))


def find(name: str, seed: int, minutes: float, layers: float) -> int:
    """Plant a fault and look for it; return 1 if it is not found."""
    tally, started = Tally(seed, ""), time.monotonic()
    with planted(name):
        fuzz(tally, minutes, layers, None, first=True)
    seconds = time.monotonic() - started
    told = f"{tally.cases:,} networks, {tally.layers.total():,} layers, {seconds:.1f} s"
    print(f"{FAULTS[name][0]}: {'found' if tally.wrong else 'NOT FOUND'} ({told})")
    return int(not tally.wrong)


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables in Markdown, by their marks on the page."""
    return Tally.of(results).tables()


def main() -> int:
    """Fuzz, or run one case again, or look for a planted fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long; 1 if nothing else is told")
    parser.add_argument("--layers", type=int, help="layers in all, those of the state included")
    parser.add_argument("--seed", type=int, help="of a new run; 0 if not told")
    parser.add_argument("--state", type=Path, default=ROOT / "build/fuzz.json")
    parser.add_argument("--case", type=int, metavar="SEED", help="run this case alone")
    parser.add_argument("--plant", choices=FAULTS, help="plant a fault, which must be found")
    parser.add_argument("--publish", action="store_true", help="write the tables into docs")
    args = parser.parse_args()
    if args.case is not None:
        return again(args.case)
    layers = math.inf if args.layers is None else args.layers
    minutes = args.minutes
    if minutes is None:
        minutes = 1 if args.layers is None else math.inf
    if args.plant:
        return find(args.plant, args.seed or 0, minutes, layers)
    tally = Tally.load(args.state, args.seed, code_digest(*TESTED))
    fuzz(tally, minutes, layers, args.state)
    print("\n".join(tally.tables().values()))
    if tally.missed:
        print(f"no network had: {', '.join(tally.missed)}")
    if args.publish:
        tally.save(RESULTS)
        put(PAGE, tables(json.loads(RESULTS.read_text(encoding="utf-8"))))
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
