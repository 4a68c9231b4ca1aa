"""The sections about the network: what it does, how it is wired, whether it is right."""

import math
from collections.abc import Sequence
from typing import Any

from sbnn_hw.report import charts, pieces, verdicts
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import (
    SPACE,
    Child,
    number,
    share,
    tag,
    times,
)

__all__ = ["accuracy", "agreement", "fan_in", "kernels", "operations", "terms"]


#: Confused pairs of classes that are listed.
MOST_PAIRS = 8


def operations(report: dict[str, Any]) -> pieces.Section:
    """Return binary operations, dense against sparse, for each layer and in all."""
    bops, layers = report["bops"], report["bops_layers"]
    pairs = [(layer["name"], layer["dense"], layer["sparse"], layer["q"]) for layer in layers]
    if bops["dense"] is not None and bops["static"] is not None:
        pairs.append(("All layers", bops["dense"], bops["static"], _total_q(layers)))
    low, high = charts.log_axis([value for pair in pairs for value in pair[1:3]])
    span = high - low
    # Bars begin a little below the lowest power of ten: what stands on it is not nothing.
    ground = 0.04

    def place(value: int) -> float:
        return ground + (1 - ground) * (math.log10(value) - low) / span if value > 0 else 0.0

    every = -(-span // 5)
    powers = range(low, high + 1, every)
    grid = [place(10**power) for power in range(low, high + 1)]
    parts, spoken = [], []
    for index, (name, dense, sparse, q) in enumerate(pairs):
        saving = f"{times(dense / sparse)}×{SPACE}fewer" if sparse and dense else None
        value = (
            tag("div", tag("span", f"{number(dense)} dense"), class_="pair"),
            tag(
                "div",
                tag("span", tag("b", number(sparse)), " sparse"),
                tag("span", f"· {saving}") if saving else None,
                class_="pair",
            ),
        )
        picture = [
            charts.bar([Bar(0, place(count), look)], grid=grid, height=11)
            for count, look in ((dense, "dense"), (sparse, "sparse"))
        ]
        label = (name, tag("small", f"{number(q)} of them for q") if q else None)
        last = index == len(layers)
        parts.append(pieces.bar_row(label, picture, value, "sum" if last else ""))
        spoken.append(f"{name} {number(dense)} dense, {number(sparse)} sparse")
    picture_of_all: Child = tag("p", "Nothing was counted.")
    if pairs:
        labels = [(place(10**power), f"10{_superscript(power)}") for power in powers]
        parts.append(pieces.bar_row(None, charts.scale(labels), None))
        picture_of_all = (
            pieces.legend(
                ("dense", "dense: 2N per neuron"), ("sparse", "sparse: one per connection, plus q")
            ),
            pieces.figure(
                f"Binary operations per image on a logarithmic scale: {'; '.join(spoken)}.",
                tag("div", parts, class_="rows"),
            ),
        )
    equal = None
    if None not in (bops["measured"], bops["static"]):
        equal = bops["measured"] == bops["static"]
    measured = pieces.known(bops["measured"], "not simulated")
    if equal is False:
        measured = tag("strong", f"{number(bops['measured'])}, which differs", class_="wrong")
    return pieces.section(
        "operations",
        "Operations",
        "Binary operations for one image, on a logarithmic scale.",
        picture_of_all,
        pieces.facts(
            [
                ("Counted in the netlist", pieces.known(bops["static"], "not counted")),
                ("Measured in simulation", measured),
                ("Dense network", pieces.known(bops["dense"], "not counted")),
                ("Paper's estimate EC·N, without q", pieces.known(bops["paper"], "not counted")),
            ]
        ),
        pieces.table(
            ("Layer", "Dense", "Sparse", "Of these for q"),
            [
                (name, number(dense), number(sparse), pieces.dash(q))
                for name, dense, sparse, q in pairs
            ],
            "Operations as a table",
        )
        if pairs
        else None,
    )


def _total_q(layers: Sequence[dict[str, Any]]) -> int | None:
    found = [layer["q"] for layer in layers]
    return None if None in found else sum(found)


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def fan_in(report: dict[str, Any]) -> pieces.Section:
    """Return how many connections neurons have, a histogram a layer."""
    panels = []
    for stage in report["stages"]:
        if stage["fan_in"] is None:
            continue
        counts = {int(key): value for key, value in stage["fan_in"]["histogram"].items()}
        neurons = sum(counts.values())
        if not neurons:
            continue
        taps = sum(key * value for key, value in counts.items())
        data = charts.bin_counts(counts)
        idle = counts.get(0, 0)
        least, most = stage["fan_in"]["least"], stage["fan_in"]["most"]
        words = (
            f"{pieces.plural(neurons, 'neuron')}, {number(least)} to {number(most)} connections, "
            f"{taps / neurons:.1f} on average"
        )
        alone = f"{pieces.plural(idle, 'neuron')} with none" if idle else None
        name = "Connections per neuron"
        if data.width > 1:
            name += f", in steps of {number(data.width)}"
        panels.append(
            tag(
                "div",
                tag("h3", stage["name"]),
                tag("p", words, f"; {alone}" if alone else None, class_="quiet"),
                pieces.figure(
                    f"Histogram of fan-in in {stage['name']}: {words}"
                    + (f"; {alone}." if alone else "."),
                    charts.histogram(data, muted=1 if idle and data.width == 1 else 0),
                ),
                tag("p", name, class_="axis-name"),
                pieces.table(
                    ("Connections", "Neurons"),
                    [
                        (data.label(index), number(count))
                        for index, count in enumerate(data.counts)
                        if count
                    ],
                    "As a table",
                ),
                class_="panel",
            )
        )
    return pieces.section(
        "fan-in",
        "Fan-in",
        "How many connections the neurons of each layer have." if panels else None,
        tag("div", panels, class_="panels")
        if panels
        else tag("p", pieces.absent("No layer has a histogram.")),
    )


def kernels(report: dict[str, Any]) -> pieces.Section | None:
    """Return how many ones 3×3 kernels have, and what that saves; nothing if there are none."""
    found = report["kernels"]
    if found is None:
        return None
    counts = found["histogram"]
    shares = charts.share_labels(counts)
    spoken = "; ".join(
        f"{weight} ones: {number(count)}, {part}"
        for weight, (count, part) in enumerate(zip(counts, shares, strict=True))
    )
    return pieces.section(
        "kernels",
        "Kernels",
        f"{number(sum(counts))} binary kernels of 3×3 weights, by their number of ones.",
        pieces.figure(
            f"Histogram of ones in a kernel: {spoken}.",
            charts.histogram(charts.Histogram(0, 1, tuple(counts)), height=140),
        ),
        tag("p", "Ones in a kernel", class_="axis-name"),
        pieces.facts(
            [
                ("K0, kernels without a one", share(found["k0"])),
                ("K1, kernels with a single one", share(found["k1"])),
                ("BOPs saved if both are dropped", share(found["bops_pr"])),
                ("BOPs saved if all zeros are skipped", share(found["sparse_pr"])),
                ("Storage saved compared with nine bits", share(found["bparams_pr"])),
            ]
        ),
        pieces.table(
            ("Ones", "Kernels", "Share"),
            [
                (number(weight), number(count), part)
                for weight, (count, part) in enumerate(zip(counts, shares, strict=True))
            ],
            "Kernels as a table",
        ),
    )


def agreement(report: dict[str, Any]) -> pieces.Section:
    """Return the verdict of the simulation, and what it compared."""
    found, verdict = report["agreement"], verdicts.agreement(report)
    if found is None:
        return pieces.section(
            "agreement", "Agreement", None, pieces.verdict_box(verdict, large=True)
        )
    vectors, wrong = found["vectors"], found["mismatches"]
    picture = None
    if vectors:
        picture = pieces.figure(
            f"{number(vectors - wrong)} images equal, {number(wrong)} different.",
            charts.proportion(vectors - wrong, wrong),
        )
    said = {True: "yes", False: "no"}
    facts: list[tuple[str, Child]] = [
        ("Images compared", number(vectors)),
        ("Different", number(wrong)),
        ("Source of the images", found["images"] or pieces.absent("not known")),
        ("Scores compared", said.get(found["scores"], pieces.absent("not known"))),
        ("Random stalls", said.get(found["stalls"], pieces.absent("not known"))),
        ("Violations of the stream protocol", pieces.known(found["violations"])),
        ("Cycles simulated", pieces.known(found["cycles"])),
        ("Latency", _against(found["latency"], report["latency_cycles"])),
        ("Interval", _against(found["interval"], report["initiation_interval"])),
    ]
    return pieces.section(
        "agreement",
        "Agreement",
        "The simulated hardware compared with the netlist's own arithmetic.",
        pieces.verdict_box(verdict, large=True),
        picture,
        pieces.facts(facts),
    )


def _against(measured: float | None, computed: float | None) -> Child:
    if measured is None:
        return pieces.absent()
    words = f"{number(measured)} measured"
    return words if computed is None else f"{words}, {number(computed)} computed"


def accuracy(report: dict[str, Any]) -> pieces.Section:
    """Return the accuracy, and which classes were taken for which."""
    value, rows = report["accuracy"], report["confusion"]
    tiles = tag(
        "dl",
        pieces.tile("Test accuracy", value, show=share, note=pieces.right_answers(report)),
        class_="tiles one",
    )
    if not rows:
        note = None if value is None else tag("p", "No confusion matrix was made.", class_="quiet")
        return pieces.section("accuracy", "Accuracy", None, tiles, note)
    classes = len(rows)
    numbered = classes <= charts.MOST_NUMBERED
    pairs = sorted(
        (
            (count, true, said)
            for true, counts in enumerate(rows)
            for said, count in enumerate(counts)
            if count and true != said
        ),
        key=lambda pair: (-pair[0], pair[1:]),
    )
    worst = [
        f"{number(true)} taken for {number(said)} {number(count)} times"
        for count, true, said in pairs[:3]
    ]
    label = f"Confusion matrix of {number(classes)} classes" + (
        f"; most often {', '.join(worst)}." if worst else "; no image was confused."
    )
    draw = charts.matrix_with_numbers if numbered else charts.matrix
    blocks = -(-classes // charts.MOST_CELLS)
    coarse = (
        f" A cell stands for {number(blocks)}×{number(blocks)} classes."
        if not numbered and blocks > 1
        else ""
    )
    hits = [
        (
            number(index),
            number(sum(counts)),
            number(counts[index]),
            share(counts[index] / sum(counts), 1) if sum(counts) else "–",
        )
        for index, counts in enumerate(rows)
    ]
    return pieces.section(
        "accuracy",
        "Accuracy",
        None,
        tiles,
        pieces.legend(("hit", "right"), ("miss", "wrong")),
        tag(
            "p",
            "Rows are the true classes, columns the network's answers. Mistakes are shaded on "
            f"their own scale, up to the most frequent one.{coarse}",
            class_="quiet",
        ),
        tag(
            "div",
            pieces.figure(label, draw(rows), look="confusion"),
            class_="scroll",
            tabindex=0,
        ),
        pieces.table(
            ("True class", "Answer", "Images"),
            [
                (number(true), number(said), number(count))
                for count, true, said in pairs[:MOST_PAIRS]
            ],
            "Most frequent mistakes",
        )
        if pairs
        else None,
        pieces.table(("Class", "Images", "Right", "Share"), hits, "Classes as a table"),
    )


#: The words and symbols of the page, and what they mean.
_TERMS = {
    "Connection, or tap": "An input that a neuron reads because its weight is 1. A weight of 0 "
    "takes no hardware.",
    "Fan-in": "The number of connections of a neuron.",
    "ξ": "The offset of a layer's weights: a weight of 0 stands for ξ and a weight of 1 for 1 + ξ, "
    "both times a common factor. All neurons of a layer share it.",
    "q": "The sum of all inputs of a layer. Every neuron adds ξ times q, so q is computed once for "
    "all of them, and not at all where ξ is 0.",
    "LUT": "A look-up table: the smallest piece of logic in an FPGA.",
    "FF": "A flip-flop: a register of one bit.",
    "Level": "A LUT on the way from one register to the next. Fewer levels per stage allow a "
    "faster clock and take more registers.",
    "Latency": "The time from the first word of an image to its class.",
    "Interval": "The number of cycles from the start of one image to the start of the next.",
    "Fmax": "The fastest clock that the routed design allows.",
    "Operation": "A binary operation. Dense counts 2N for a neuron with N inputs; sparse counts "
    "one for each connection, plus q.",
    "EC·N": "The paper's estimate of the operations: the share of the weights that are 1, times "
    "the N inputs of every neuron, without q.",
}


def terms(report: dict[str, Any]) -> pieces.Section:
    """Return what the words and symbols of the page mean."""
    entries = [(tag("dt", name), tag("dd", meaning)) for name, meaning in _TERMS.items()]
    return pieces.section("terms", "Terms", None, tag("dl", entries, class_="terms"))
