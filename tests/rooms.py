"""The rooms of the house, which imports which, and the picture of it in docs/architecture.md.

A room is a folder of the package, or a few of its single modules. Every import counts: those inside
functions, and those for type checkers too, because whoever names another's type knows of it.
``python tests/rooms.py`` draws the picture again and rewrites the table of the page.
"""

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from sbnn_hw.flow.sources import imports_in

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs/architecture.md", ROOT / "docs/architecture.svg"
FOLDERS = ("sbnn_hw", "train", "rtl_gen", "sim", "boards")


class Room(NamedTuple):
    """What a room is for, in a sentence and in a word or two, and the single modules in it."""

    purpose: str
    short: str
    modules: tuple[str, ...] = ()


#: A folder has the room of its own name; a single module that is in no list does too.
ROOMS = {
    "commands": Room("One file for each subcommand of `sbnn-hw`.", "subcommands", ("__main__", "cli")),
    "api": Room("What Python programs call: build a model, and simulate its board.", "for Python programs"),
    "flow": Room("The steps of `sbnn-hw build`, each done again only if what it reads has changed.", "steps of a build"),
    "zoo": Room("Measures all models of the zoo, and compares them with dense and published networks.", "measures the zoo"),
    "pareto": Room("Points of accuracy over tables, ours and published ones, and the picture of them.", "the Pareto front"),
    "explore": Room("Searches for networks with few look-up tables and high accuracy.", "searches networks"),
    "paper": Room("The tables and figures of the paper, counted again.", "the paper's tables"),
    "report": Room("The page that shows what was built, and the form of its data.", "page of a build"),
    "models": Room("Opens a model, whichever kind of file it is.", "opens any model"),
    "hardware": Room("The folder of a generated design: writes it, reads it back, keeps the verdict of a simulation.", "a design on disk", ("generate", "hardware")),
    "design": Room("The description of a generated design, and the words on its streams.", "describes a design", ("design", "vectors")),
    "ip": Room("A network as an IP core: its ports and registers, and the files by which Vivado, FuseSoC and LiteX find it.", "an IP core's files"),
    "train": Room("Trains networks in PyTorch, keeps checkpoints, folds them to integers. The only room that knows torch.", "PyTorch"),
    "qonnx": Room("Reads and writes ONNX with QONNX's operators. The only room that knows onnx.", "ONNX"),
    "fold": Room("From trained floats to integer thresholds, exactly.", "floats to integers"),
    "sim": Room("Simulates generated Verilog with Verilator, and compares every bit with the netlist.", "Verilator"),
    "boards": Room("Boards and parts, the shell around a network, place and route, the driver on the host.", "boards, bitstreams"),
    "rtl_gen": Room("The hardware of each operation, in Amaranth, down to Verilog.", "hardware, Amaranth"),
    "engine": Room("A chain of layers as a program in block RAM: its words, its cycles, what its hardware is built from.", "programs of engines"),
    "cost": Room("What hardware takes of a part, and the search for the cheapest sums.", "prices hardware"),
    "bops": Room("Counts binary operations.", "counts operations"),
    "netlist": Room("The integer network: operations, how each computes, the file `.sbnn`.", "the integer network"),
    "families": Room("What is known of each family of FPGAs, a file each.", "FPGA families"),
    "programs": Room("Finds programs such as Yosys, asks for their versions, runs synthesis.", "finds tools, Yosys", ("tools", "yosys")),
    "data": Room("Data sets, and data of one's own, as arrays of integers.", "data sets", ("data", "datasets", "images")),
    "basics": Room("Errors that are one sentence, files that are written whole or not at all, the cache.", "errors, files, cache", ("cache", "drawing", "errors", "files", "sbnn_hw")),
}  # fmt: skip

#: Rooms that data pass on their way from a checkpoint to a board, in this order.
WAY = ("train", "qonnx", "fold", "netlist", "rtl_gen", "sim", "boards", "report")


class Edge(NamedTuple):
    """A module that imports one of another room, and where."""

    module: str
    imported: str
    place: str


def room_of(module):
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return next((room for room, (_, _, inside) in ROOMS.items() if name in inside), name)


def sources():
    """Return the text of every module, by its name."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "suite_files" in parts:
                continue  # runs beside designs, where it is no module of ours
            parts = parts if folder == "sbnn_hw" else ("sbnn_hw", *parts)
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    return found


def graph(texts=None):
    """Return the imports between rooms, by pair of rooms; a room without any is there too."""
    found = defaultdict(list)
    for name, (path, text) in (texts or sources()).items():
        for each in imports_in(name, text):
            pair = room_of(name), room_of(each.name)
            edge = Edge(name, each.name, f"{path}:{each.line}")
            if pair[0] != pair[1] and edge not in found[pair]:
                found[pair].append(edge)
    return {pair: inner for pair, inner in found.items() if inner}


def below(edges):
    """Return, by room, those that it imports."""
    found = defaultdict(set)
    for a, b in edges:
        found[a].add(b)
        found[b] |= set()
    return dict(found)


def find_cycle(edges):
    """Return a shortest cycle of rooms, or nothing."""
    under = below(edges)
    best = None
    for start in sorted(under):
        paths, seen = [[start]], {start}
        while paths:
            path = paths.pop(0)
            for room in sorted(under[path[-1]]):
                if room == start and (best is None or len(path) < len(best)):
                    best = path
                if room not in seen:
                    seen.add(room)
                    paths.append([*path, room])
    return best


def tell_cycle(edges, cycle):
    """Return the imports that make a cycle, a line each."""
    lines = [f"These rooms import each other: {' → '.join([*cycle, cycle[0]])}"]
    for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        lines += [f"  {edge.place}: {edge.module} imports {edge.imported}" for edge in edges[a, b]]
    return "\n".join(lines)


# The picture

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 132, 44, 18, 46, 14


def reduce(under):
    """Return a graph without the edges that a longer way stands for."""

    def reach(room):
        return {room}.union(*(reach(lower) for lower in under[room]))

    return {
        room: {b for b in lower if not any(b in reach(c) for c in lower - {b})}
        for room, lower in under.items()
    }


def layers_of(under):
    """Return how far above the lowest room each is."""
    found = {}

    def height(room):
        if room not in found:
            found[room] = 1 + max((height(lower) for lower in under[room]), default=-1)
        return found[room]

    for room in under:
        height(room)
    # Nearer to those that import it than to the ground, if that makes lines shorter.
    reduced = reduce(under)
    for room in sorted(found, key=lambda room: (-found[room], room)):
        above = [found[other] for other in reduced if room in reduced[other]]
        if len(above) > len(reduced[room]):
            found[room] = min(above) - 1
    return found


def place(under):
    """Return the middle of each room, and for each edge the points that it goes through."""
    reduced, layers = reduce(under), layers_of(under)
    # An edge across several layers passes through each of them.
    rows = [sorted(r for r in layers if layers[r] == n) for n in range(max(layers.values()) + 1)]
    links, chains = defaultdict(list), {}
    for a in sorted(reduced):
        for b in sorted(reduced[a]):
            chain = [a, *((a, b, n) for n in range(layers[a] - 1, layers[b], -1)), b]
            for _, _, n in chain[1:-1]:
                rows[n].append((a, b, n))
            for upper, lower in itertools.pairwise(chain):
                links[upper].append(lower)
                links[lower].append(upper)
            chains[a, b] = chain

    def width(node):
        return WIDTH if isinstance(node, str) else 12

    def spread(row, wish):
        """Return places near those wished for that do not overlap, in the row's order."""
        left, right, x = {}, {}, -1e9
        for node in row:
            x = left[node] = max(wish[node], x + width(node) / 2)
            x += width(node) / 2 + ACROSS
        x = 1e9
        for node in reversed(row):
            x = right[node] = min(wish[node], x - width(node) / 2)
            x -= width(node) / 2 + ACROSS
        middle = {node: (left[node] + right[node]) / 2 for node in row}
        x = -1e9
        for node in row:
            x = middle[node] = max(middle[node], x + width(node) / 2)
            x += width(node) / 2 + ACROSS
        return middle

    at = {}
    for row in rows:
        at |= {node: (n - len(row) / 2) * WIDTH for n, node in enumerate(row)}
    for sweep in range(60):
        for n in range(len(rows)) if sweep % 2 else reversed(range(len(rows))):
            wish = {}
            for node in rows[n]:
                near = [at[other] for other in links[node]]
                wish[node] = sum(near) / len(near) if near else at[node]
            if sweep < 40:
                rows[n].sort(key=lambda node: (wish[node], str(node)))
            at |= spread(rows[n], wish)
    first = min(at[node] - width(node) / 2 for node in at) - MARGIN
    tall = len(rows) * (HEIGHT + DOWN) - DOWN + 2 * MARGIN
    spots = {
        node: (at[node] - first, tall - MARGIN - HEIGHT / 2 - n * (HEIGHT + DOWN))
        for n, row in enumerate(rows)
        for node in row
    }
    wide = max(spots[node][0] + width(node) / 2 for node in at) + MARGIN
    lines = {pair: [spots[node] for node in chain] for pair, chain in chains.items()}
    return {room: spots[room] for room in layers}, lines, (round(wide), round(tall))


STYLE = """
    text { font: 11px DejaVu Sans, Helvetica, Arial, sans-serif; text-anchor: middle; fill: #444 }
    .name { font-size: 14px; font-weight: bold; fill: #14385f }
    rect { fill: #f4f4f2; stroke: #8a8a84; stroke-width: 1.2 }
    .way { fill: #e3effb; stroke: #2f6db3 }
    path { fill: none; stroke: #777; stroke-width: 1.3 }
    marker path { fill: #777; stroke: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #c9c9c4 }
      .name { fill: #dbeafc }
      rect { fill: #2a2a28; stroke: #77776f }
      .way { fill: #16324f; stroke: #5b9ade }
      path { stroke: #999 }
      marker path { fill: #999 }
    }
"""


def draw(edges):
    """Return the picture: rooms in layers, an arrow from each to those that it imports."""
    spots, lines, (wide, tall) = place(below(edges))
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" '
            f'height="{tall}" role="img" aria-labelledby="t">'
        ),
        '  <title id="t">The rooms of sbnn-hw; each imports only rooms below it</title>',
        f"  <style>{STYLE}  </style>",
        (
            '  <defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
        ),
    ]
    for _, points in sorted(lines.items()):
        (x, y), rest = points[0], points[1:]
        y += HEIGHT / 2
        way = [f"M{x:.0f} {y:.0f}"]
        for number, (to_x, to_y) in enumerate(rest):
            end = to_y - HEIGHT / 2
            half = (y + end) / 2
            way.append(f"C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {end:.0f}")
            x, y = to_x, to_y + HEIGHT / 2
            if number < len(rest) - 1:
                way.append(f"V{y:.0f}")
        out.append(f'  <path d="{"".join(way)}" marker-end="url(#a)"/>')
    for room, (x, y) in sorted(spots.items()):
        kind = ' class="way"' if room in WAY else ""
        out += [
            (
                f'  <rect{kind} x="{x - WIDTH / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{WIDTH}" '
                f'height="{HEIGHT}" rx="7"/>'
            ),
            f'  <text class="name" x="{x:.0f}" y="{y - 3:.0f}">{room}</text>',
            f'  <text x="{x:.0f}" y="{y + 13:.0f}">{ROOMS[room].short}</text>',
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


# The page

BEGIN, END = "<!-- rooms -->", "<!-- end of rooms -->"


def table(edges):
    """Return the rooms of the page: from the top of the picture to its bottom."""
    layers, present = layers_of(below(edges)), {room_of(name) for name in sources()}
    lines = ["| room | what it is for | where |", "|---|---|---|"]
    for room in sorted(present, key=lambda room: (-layers.get(room, 0), room)):
        files = [f"{name}.py" for name in ROOMS[room].modules if name != "sbnn_hw"]
        folder = room if (ROOT / room).is_dir() and room in FOLDERS else f"sbnn_hw/{room}"
        places = [f"`{folder}/`"] if (ROOT / folder).is_dir() else []
        files = files or ([] if places else [f"{room}.py"])
        places += [f"`sbnn_hw/{file}`" for file in files if (ROOT / "sbnn_hw" / file).exists()]
        lines.append(f"| {room} | {ROOMS[room].purpose} | {', '.join(places)} |")
    return "\n".join(lines)


def put_table(text, edges):
    """Return the page with its table rewritten."""
    pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
    made = f"{BEGIN}\n\n{table(edges)}\n\n{END}"
    return re.sub(pattern, lambda _: made, text, count=1, flags=re.S)


if __name__ == "__main__":
    found = graph()
    PICTURE.write_text(draw(found), encoding="utf-8")
    PAGE.write_text(put_table(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
