"""Whether hardware and software agree, and how often the network is right."""

from sbnn_hw.report import charts, pieces, verdicts
from sbnn_hw.report.markup import Child, number, share, tag
from sbnn_hw.report.schema import Report

__all__ = ["accuracy", "agreement"]


#: Confused pairs of classes that are listed.
MOST_PAIRS = 8


def agreement(report: Report) -> pieces.Section:
    """Return the verdict of the simulation, and what it compared."""
    found, verdict = report.agreement, verdicts.agreement(report)
    if found is None:
        return pieces.section(
            "agreement", "Agreement", None, pieces.verdict_box(verdict, large=True)
        )
    vectors, wrong = found.vectors, found.mismatches
    picture = None
    if vectors:
        picture = pieces.figure(
            f"{number(vectors - wrong)} images equal, {number(wrong)} different.",
            charts.proportion(vectors - wrong, wrong),
        )
    facts: list[tuple[str, Child]] = [
        ("Images compared", number(vectors)),
        ("Different", number(wrong)),
        ("Source of the images", found.images or pieces.absent("not known")),
        ("Scores compared", _said(found.scores)),
        ("Random stalls", _said(found.stalls)),
        ("Violations of the stream protocol", pieces.known(found.violations)),
        ("Cycles simulated", pieces.known(found.cycles)),
        ("Latency", _against(found.latency, report.latency_cycles)),
        ("Interval", _against(found.interval, report.initiation_interval)),
    ]
    return pieces.section(
        "agreement",
        "Agreement",
        "The simulated hardware compared with the netlist's own arithmetic.",
        pieces.verdict_box(verdict, large=True),
        picture,
        pieces.facts(facts),
    )


def _said(flag: bool | None) -> Child:
    if flag is None:
        return pieces.absent("not known")
    return "yes" if flag else "no"


def _against(measured: float | None, computed: float | None) -> Child:
    if measured is None:
        return pieces.absent()
    words = f"{number(measured)} measured"
    return words if computed is None else f"{words}, {number(computed)} computed"


def accuracy(report: Report) -> pieces.Section:
    """Return the accuracy, and which classes were taken for which."""
    value, rows = report.accuracy, report.confusion
    tiles = tag(
        "dl",
        pieces.tile("Test accuracy", value, show=share, note=pieces.right_answers(report)),
        class_="tiles one",
    )
    if not rows:
        note = None if value is None else tag("p", "No confusion matrix was made.", class_="quiet")
        return pieces.section("accuracy", "Accuracy", None, tiles, note)
    classes = len(rows)
    called = pieces.class_names(report)
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
        f"{called[true]} taken for {called[said]} {number(count)} times"
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
            called[index],
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
        tag("div", pieces.figure(label, draw(rows), look="confusion"), class_="scroll", tabindex=0),
        pieces.table(
            ("True class", "Answer", "Images"),
            [
                (called[true], called[said], number(count))
                for count, true, said in pairs[:MOST_PAIRS]
            ],
            "Most frequent mistakes",
        )
        if pairs
        else None,
        pieces.table(("Class", "Images", "Right", "Share"), hits, "Classes as a table"),
    )
