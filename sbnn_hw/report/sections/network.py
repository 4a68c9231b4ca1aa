"""What the network does, and how it is wired."""

import math
from collections.abc import Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import SPACE, Child, number, share, tag, times
from sbnn_hw.report.schema import LayerOperations, Report

__all__ = ["fan_in", "kernels", "operations"]


def operations(report: Report) -> pieces.Section:
    """Return binary operations, dense against sparse, for each layer and in all."""
    bops, layers = report.bops, report.bops_layers
    pairs = [(layer.name, layer.dense, layer.sparse, layer.q) for layer in layers]
    if bops.dense is not None and bops.static is not None:
        pairs.append(("All layers", bops.dense, bops.static, _total_q(layers)))
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
    measured = pieces.known(bops.measured, "not simulated")
    if None not in (bops.measured, bops.static) and bops.measured != bops.static:
        measured = tag("strong", measured, ", which differs", class_="wrong")
    return pieces.section(
        "operations",
        "Operations",
        "Binary operations for one image, on a logarithmic scale.",
        picture_of_all,
        pieces.facts(
            [
                ("Counted in the netlist", pieces.known(bops.static, "not counted")),
                ("Measured in simulation", measured),
                ("Dense network", pieces.known(bops.dense, "not counted")),
                ("Paper's estimate EC·N, without q", pieces.known(bops.paper, "not counted")),
                *(
                    (f"{name.capitalize()} of integers", number(count))
                    for name in ("additions", "multiplications")
                    if (count := getattr(bops, name))
                ),
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
        _arithmetic(report),
    )


def _arithmetic(report: Report) -> Child:
    """Return which stages add and multiply integers; nothing if none does."""
    rows = [
        (stage.name, stage.kind, pieces.dash(stage.additions), pieces.dash(stage.multiplications))
        for stage in report.stages
        if stage.additions or stage.multiplications
    ]
    head = ("Stage", "Kind", "Additions", "Multiplications")
    return pieces.table(head, rows, "Additions and multiplications as a table") if rows else None


def _total_q(layers: Sequence[LayerOperations]) -> int | None:
    found = [layer.q for layer in layers if layer.q is not None]
    return sum(found) if len(found) == len(layers) else None


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def fan_in(report: Report) -> pieces.Section:
    """Return how many connections neurons have, a histogram a layer."""
    panels = []
    for stage in report.stages:
        if stage.fan_in is None:
            continue
        counts = {int(key): value for key, value in stage.fan_in.histogram.items()}
        neurons = sum(counts.values())
        if not neurons:
            continue
        taps = sum(key * value for key, value in counts.items())
        data = charts.bin_counts(counts)
        idle = counts.get(0, 0)
        least, most = stage.fan_in.least, stage.fan_in.most
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
                tag("h3", stage.name),
                tag("p", words, f"; {alone}" if alone else None, class_="quiet"),
                pieces.figure(
                    f"Histogram of fan-in in {stage.name}: {words}"
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


def kernels(report: Report) -> pieces.Section | None:
    """Return how many ones 3×3 kernels have, and what that saves; nothing if there are none."""
    found = report.kernels
    if found is None:
        return None
    counts = found.histogram
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
            charts.histogram(charts.Histogram(0, 1, counts), height=140),
        ),
        tag("p", "Ones in a kernel", class_="axis-name"),
        pieces.facts(
            [
                ("K0, kernels without a one", share(found.k0)),
                ("K1, kernels with a single one", share(found.k1)),
                ("BOPs saved if both are dropped", share(found.bops_pr)),
                ("BOPs saved if all zeros are skipped", share(found.sparse_pr)),
                ("Storage saved compared with nine bits", share(found.bparams_pr)),
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
