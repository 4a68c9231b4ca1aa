"""Plan every shipped network without windows on three boards, and one with every number of lanes.

Writes docs/bench/plans.json, the tables of docs/plans.md and the figure docs/bench/folding.svg.
Nothing is synthesised: what is written are the planner's own numbers.
"""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import put, table

from sbnn_hw.boards.table import BOARDS, Board
from sbnn_hw.commands.planning import print_plan
from sbnn_hw.drawing import new_figure, save_figure
from sbnn_hw.engine.folded import LANES
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.flow.planning import clock_of, options_for
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Network
from sbnn_hw.planner import HardwarePlan, Wish, choose

ROOT = Path(__file__).parents[1]
MARK = "bench/plans.py"
TARGETS = ("icebreaker", "arty_a7", "ulx3s_12f")

#: The network whose curve is drawn, and the board of it.
CURVE, CURVE_BOARD = "mnist_sfc_98", "arty_a7"

Row = dict[str, Any]


def networks() -> Iterator[tuple[str, Network]]:
    """Yield the shipped networks that have no windows."""
    for path in sorted([*ROOT.glob("models/*.pt"), *ROOT.glob("models/*.onnx")]):
        network = open_network(path)
        if not any(stage.operation.windowed for stage in network.stages):
            yield path.stem, network


def plan(network: Network, board: Board, wish: Wish) -> HardwarePlan:
    """Plan a network on a board, at the board's own clock."""
    clock = clock_of(board, None)
    return choose(network, board, clock, options_for(board, clock, None, {}), wish)


def row_of(model: str, network: Network, board: Board, wish: Wish) -> Row:
    """Return a plan in short, or why there is none."""
    row: Row = {"model": model, "board": board.name, "network": network.digest}
    try:
        found = plan(network, board, wish)
    except (ModelRejected, UsageError) as error:
        return {**row, "refused": error.sentence}
    tables, _, memory = found.need.shares(board.capacity)
    made = found.arrangement
    return {
        **row,
        "plan": made.title,
        "tables": found.need.luts,
        "tables_share": round(100 * tables, 1),
        "memory": found.need.brams,
        "memory_share": round(100 * memory, 1),
        "core_tables": made.cost.tables,
        "core_memory": made.cost.blocks,
        "interval": made.interval,
        "clock_mhz": found.clock_hz / 1e6,
        "images_per_second": round(found.images_per_second),
    }


def measure() -> dict[str, Any]:
    """Return the plans of all networks, and those of the curve."""
    shipped = dict(networks())
    rows = [
        row_of(name, network, BOARDS[board], Wish())
        for name, network in shipped.items()
        for board in TARGETS
    ]
    wishes = [Wish(form=form, lanes=n, fill=100) for form, known in LANES.items() for n in known]
    network, board = shipped[CURVE], BOARDS[CURVE_BOARD]
    curve = [row_of(CURVE, network, board, wish) for wish in (*wishes, Wish(form="unrolled"))]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        print_plan(plan(network, BOARDS[TARGETS[0]], Wish()), Path(f"{CURVE}.pt"))
    return {"example": said.getvalue(), "boards": rows, "curve": curve}


def cell_of(row: Row) -> str:
    """Return a plan as a cell of the table."""
    if "refused" in row:
        return "no plan: " + row["refused"].partition(": ")[2].partition(";")[0]
    return (
        f"{row['plan']}; {row['tables_share']:.0f} % of tables, {row['memory_share']:.0f} % of "
        f"memory; {row['images_per_second']:,} images/s"
    )


def tables_of(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page by their marks."""
    names = dict.fromkeys(row["model"] for row in found["boards"])
    places = {(row["model"], row["board"]): cell_of(row) for row in found["boards"]}
    boards = [(f"`{name}`", *(places[name, board] for board in TARGETS)) for name in names]
    curve = [
        (
            *(row["plan"], f"{row['core_tables']:,}", f"{row['core_memory']:g}"),
            *(f"{row['interval']:,}", f"{row['images_per_second']:,}"),
        )
        for row in found["curve"]
        if "plan" in row
    ]
    head = ("plan", "tables", "memory blocks", "cycles per image", "images/s at 100 MHz")
    return {
        f"{MARK}: example": f"```\n{found['example']}```\n",
        f"{MARK}: boards": table(("model", *(f"`{board}`" for board in TARGETS)), boards),
        f"{MARK}: curve": table(head, curve),
    }


def draw(curve: list[Row], stem: Path) -> None:
    """Draw images a second over tables, from one lane to wires."""
    figure = new_figure(8, 3.6)
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_yscale("log")
    for form, mark, colour in (("gaps", "o", "#0b5394"), ("bitmap", "s", "#b45f06")):
        rows = [row for row in curve if row.get("plan", "").startswith(form)]
        if not rows:
            continue
        x, y = [row["core_tables"] for row in rows], [row["images_per_second"] for row in rows]
        axis.plot(x, y, color=colour, lw=1, marker=mark, ms=6, label=f"engine, {form}", zorder=3)
        for row, *place in zip(rows, x, y, strict=True):
            words = row["plan"].partition(", ")[2]
            note = f"{words}, {row['core_memory']:g} blocks"
            up = row["interval"] > rows[-1]["interval"] or row is rows[0]
            axis.annotate(note, place, xytext=(8, -11) if up else (-4, 8),
                          textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
    (wires,) = [row for row in curve if row.get("plan", "").startswith("unrolled")]
    place = wires["core_tables"], wires["images_per_second"]
    axis.plot(*place, color="#38761d", marker="D", ms=7, ls="", label="wires", zorder=3)
    axis.annotate("every connection a wire", place, xytext=(-10, -3), ha="right",
                  textcoords="offset points", fontsize=8, color="#38761d")  # fmt: skip
    axis.margins(x=0.12, y=0.14)
    axis.set_xlabel("look-up tables of the network")
    axis.set_ylabel("images/s at 100 MHz")
    axis.set_title(f"{CURVE}, 7-series", loc="left", fontsize=11)
    axis.grid(which="both", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, loc="upper left", frameon=False)
    for path in save_figure(figure, stem):
        if path.suffix == ".png":
            path.unlink()


def main() -> None:
    """Plan, and write everything."""
    found = measure()
    place = ROOT / "docs/bench/plans.json"
    place.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    put(ROOT / "docs/plans.md", tables_of(found))
    draw(found["curve"], ROOT / "docs/bench/folding")


if __name__ == "__main__":
    main()
