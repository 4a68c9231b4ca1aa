"""The page shows what a report holds, safely, on phones and desks."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_samples import REPORTS, blank, change, nasty, residual, sample

from sbnn_hw.report import charts, render, verdicts

SECTIONS = [
    "summary",
    "pipeline",
    "plan",
    "utilisation",
    "timing",
    "energy",
    "operations",
    "fan-in",
    "kernels",
    "agreement",
    "accuracy",
    "steps",
    "tools",
    "terms",
]


class Page(HTMLParser):
    """The page as a browser reads it: elements closed in order, nothing from outside."""

    VOID = frozenset({"meta"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.labels, self.text, self.found = [], [], [], "", []
        self.feed(text)
        self.close()
        assert self.open == [], self.open
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), attributes
        self.found.append(tag)
        values = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if values.get("role") == "img":
            self.labels.append(values["aria-label"])
        if tag == "figure":
            assert values["role"] == "img"
            assert values["aria-label"]
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name not in ("src", "srcset", "data", "xlink:href", "action"), name
            assert name != "style" or re.fullmatch(r"min-width:\d+px", value), value
            assert name != "href" or value.startswith("#"), value

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def words(text):
    """Return text as it is read: with plain spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("name", REPORTS)
def test_page_is_whole_and_alone(name):
    built = REPORTS[name]()
    text = render(built)
    assert render(built) == text
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>\n<html")
    absent = {name for name in ("kernels", "plan") if getattr(built, name) is None}
    expected = [s for s in SECTIONS if s not in absent]
    assert page.ids == expected
    assert not {"script", "img", "link", "iframe", "object", "embed", "base"} & set(page.found)
    assert "://" not in text
    assert "url(" not in text
    assert "@import" not in text
    text.encode()  # nothing that a file could not hold


def test_nothing_of_a_report_becomes_markup():
    text = render(nasty())
    shown = "<script>alert(1)</script>\"'&amp;↵����</style><img src=x onerror=y>"
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("</style>") == 1
    assert html.escape(shown) in text
    page = Page(text)
    assert shown in page.text
    assert any(shown in label for label in page.labels)


def test_a_plan_shows_which_engine_works_when():
    page = Page(render(sample()))
    (times,) = [label for label in page.labels if label.startswith("An interval of")]
    assert times == (
        "An interval of 2,618 cycles: the next image comes in during 784 cycles; gaps: linear0 "
        "1,812, scores 806 cycles."
    )
    (memory,) = [label for label in page.labels if label.startswith("Block RAM: ")]
    assert memory == (
        "Block RAM: gaps 4.5, shell 2; together 6.5 of 50 (13.0\N{NO-BREAK SPACE}%). Programs: "
        "linear0 39.1, scores 19.5 kbit."
    )
    assert "linear0 sets the pace: 1,812 of 2,618 cycles; 8 lanes give 1,340" in page.text


def test_a_plan_of_wires_alone_needs_no_picture():
    wires = replace(sample().plan.parts[0], form="unrolled", lanes=0)
    page = Page(render(replace(sample(), plan=replace(sample().plan, parts=(wires,)))))
    assert "plan" in page.ids
    assert not [label for label in page.labels if label.startswith(("An interval", "Block RAM:"))]


def test_links_lead_to_sections():
    text = render(sample())
    assert re.findall(r'href="#([^"]*)"', text) == SECTIONS


def test_both_schemes_are_there_and_the_page_may_load_nothing():
    text = render(sample())
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "default-src &#x27;none&#x27;" in text


def test_figures_hold_the_numbers():
    page = Page(render(sample()))
    labels = words(" ".join(page.labels))
    for expected in (
        "input 28×28×1 of 8 bits; encode, encode, 784 bits; flatten0, flatten; linear0, linear, 3,207 LUTs, 16 cycles, 256 bits;",
        "LUTs 6,331 of 20,800, 30.4 %; Flip-flops 22,643 of 41,600, 54.4 %; Block RAM 0.5 of 50",
        "Fmax 112.4 MHz, target 100 MHz",
        "linear0 401,408 dense, 4,634 sparse; scores 5,120 dense, 222 sparse; All layers 668,672 dense, 7,971 sparse",
        "fan-in in linear0: 256 neurons, 0 to 46 connections, 10.1 on average; 6 neurons with none",
        "0 ones: 4,120, 51.7 %",
        "10,000 images equal, 0 different",
        "Confusion matrix of 10 classes; most often 4 four taken for 9 nine 217 times",
        "netlist 1.2 s, cached; rtl 12.3 s; bitstream 1 min 15 s",
    ):
        assert expected in labels
    shown = words(page.text)
    for expected in (
        "5,519",
        "6,331 with the shell",
        "0.83",
        "96.45 %",
        "9,645 of 10,000, mnist",
        "100,000,000",
        "380 ns",
        "83.9 times fewer than dense",
        "6,272 bits",
        "ξ = −3/128",
        "5,519 + 812",
        "2,000,000 baud, 50 clocks per bit",
        "−4.63 %",
        "Yosys 0.70, synth_xilinx",
        "5.48.0",
        "8f" * 32,
    ):
        assert expected in shown, expected


def test_what_is_not_known_is_said_to_be_so():
    page = Page(render(blank()))
    for expected in (
        "Not simulated",
        "Timing not measured",
        "Fit not known",
        "No bitstream",
        "not synthesised",
        "No layer has a histogram.",
        "3 steps, 1 of them reused from an earlier build.",
    ):
        assert expected in words(page.text), expected
    assert "None" not in page.text
    assert "✓" not in page.text


def test_the_title_is_the_models_name_without_its_place():
    for model in ("mnist_sfc_98.pt", "/home/me/models/mnist_sfc_98.pt"):
        text = render(change(model=model))
        assert "<title>mnist_sfc_98 on Digilent Arty A7-35T – sbnn-hw</title>" in text
        assert "<h1>mnist_sfc_98</h1>" in text
        assert "/home/me" not in text


def test_a_missing_bitstream_is_told_once():
    why = "There is no bitstream, since it rains."
    page = Page(render(change(bitstream=None, missing=why))).text
    assert page.count("since it rains") == 1
    assert "not made" not in page


def test_a_part_without_a_board_has_no_shell_and_no_bitstream():
    why = "The timing is not known, since it rains."
    unknown = dict.fromkeys(("board", "board_title", "bitstream", "fmax_mhz", "uart", "timing"))
    part = change(**unknown, missing=why)
    page = Page(render(part)).text
    assert "6,331 with the AXI4-Stream face" in words(page)
    assert "shell" not in page
    assert verdicts.timing(part).reason == why
    assert verdicts.bitstream(part).reason == "A part without a board has no pins."


def test_there_is_no_bar_where_there_is_no_fmax():
    def bars(built):
        text = render(built)
        start = text.index('<section id="timing">')
        return text[start : text.index("</section>", start)].count('class="bar"')

    assert bars(sample()) == 1
    assert bars(change(fmax_mhz=None, timing={"met": None})) == 0


def test_arrows_of_the_pipeline_start_at_a_block():
    text = render(sample())
    hops = re.findall(r'<div class="hop[^"]*"><div class="(block|edge)', text)
    assert len(hops) > 4
    assert set(hops) == {"block"}
    # Nothing follows the last one.
    assert text.count('class="edge"') == len(hops) - 1


def test_every_symbol_is_explained():
    text = render(sample())
    start = text.index('<section id="terms">')
    terms = Page(text[start : text.index("</section>", start) + len("</section>")]).text
    for term in ("ξ", "q", "Connection", "LUT", "Level", "Fmax", "Interval", "EC·N", "Dense"):
        assert term in terms, term


def test_words_of_graphs_are_explained_where_there_is_one():
    explained = "Where ways through the network meet, values of the faster one wait"
    assert explained in Page(render(residual())).text
    assert explained not in Page(render(sample())).text


def test_empty_lists_are_drawn_too():
    page = Page(render(blank(stages=[], bops_layers=[], steps=[], tools={})))
    assert [s for s in SECTIONS if s not in ("kernels", "plan")] == page.ids


@pytest.mark.parametrize(
    ("judge", "fields", "state", "headline", "reason"),
    [
        (
            verdicts.agreement,
            {},
            "good",
            "Hardware equals software",
            "10,000 of 10,000 images equal in class and scores.",
        ),
        (
            verdicts.agreement,
            {"agreement": {"scores": False}},
            "good",
            "Hardware equals software",
            "10,000 of 10,000 images equal in class.",
        ),
        (
            verdicts.agreement,
            {"agreement": {"mismatches": 3, "violations": 2}},
            "bad",
            "Hardware and software differ",
            "3 of 10,000 images differ; the output violates the stream protocol in 2 cycles.",
        ),
        (
            verdicts.agreement,
            {"latency_cycles": 39},
            "bad",
            "Simulation found a fault",
            "Latency is 38 cycles, not 39.",
        ),
        (
            verdicts.agreement,
            {"bops": {"measured": 7972}},
            "bad",
            "Simulation found a fault",
            "7,972 operations measured, not 7,971.",
        ),
        (
            verdicts.agreement,
            {"agreement": {"vectors": 0}},
            "open",
            "Nothing compared",
            "The simulation had no images.",
        ),
        (
            verdicts.timing,
            {},
            "good",
            "Timing met",
            "The design meets 100 MHz, with an Fmax of 112.4 MHz.",
        ),
        (
            verdicts.timing,
            {"timing": {"met": False}, "fmax_mhz": None},
            "bad",
            "Timing not met",
            "The design misses 100 MHz. Worst path: linear0, rank 3.",
        ),
        # A tool that is content and an Fmax that is too low cannot both be right.
        (
            verdicts.timing,
            {"fmax_mhz": 99.94, "timing": {"worst": None}},
            "bad",
            "Timing not met",
            "The design misses 100 MHz. It reaches 99.9 MHz.",
        ),
        (
            verdicts.timing,
            {"fmax_mhz": None, "timing": {"met": None}},
            "open",
            "Timing not measured",
            "No tool has placed and routed the design.",
        ),
        (verdicts.fit, {}, "good", "Fits", "6,331 of 20,800 LUTs."),
        (
            verdicts.fit,
            {"design": {"luts": 31400, "bram": 51}},
            "bad",
            "Does not fit",
            "Needs 31,400 of 20,800 LUTs, 51 of 50 block RAM.",
        ),
        (
            verdicts.fit,
            {"design": None, "luts": None},
            "open",
            "Should fit",
            "An estimate before synthesis: 6,369 of 20,800 LUTs.",
        ),
        (
            verdicts.fit,
            {"capacity": None},
            "open",
            "Fit not known",
            "The size of this part is not known.",
        ),
        (verdicts.bitstream, {}, "good", "Bitstream made", "top.bit"),
        (verdicts.bitstream, {"bitstream": None}, "open", "No bitstream", "Nothing is missing."),
    ],
)
def test_verdicts(judge, fields, state, headline, reason):
    built = change(**fields)
    found = judge(built)
    assert (found.state, found.headline, words(found.reason)) == (state, headline, reason)
    text = render(built)
    assert ('class="verdict bad' in text) == (state == "bad")
    assert headline in Page(text).text


def test_a_failure_is_told_in_the_heading_and_in_its_section():
    text = render(change(agreement={"mismatches": 1}, timing={"met": False}))
    heading = text[: text.index("<main>")]
    assert heading.count('class="verdict bad"') == 2
    assert len(re.findall(r'class="verdict bad large"', text)) == 2


def test_more_than_the_board_has_is_drawn_beyond_its_mark():
    text = render(change(design={"luts": 41600}))
    section = text[text.index('id="utilisation"') : text.index('id="timing"')]
    assert '<rect class="over" x="50%" y="0" width="50%"' in section
    assert "200.0\N{NO-BREAK SPACE}%" in section


def test_a_design_smaller_than_its_core_has_no_shell():
    row = verdicts.usage(change(design={"luts": 5000}))[0]
    assert (row.core, row.shell, row.total) == (5000, 0, 5000)


def test_a_single_difference_is_seen_among_many():
    drawn = charts.proportion(999_999, 1)
    assert '<rect class="wrong" x="99%" y="0" width="1%"' in drawn
    assert "wrong" not in charts.proportion(10, 0)


def test_neurons_without_connections_do_not_hide_the_others():
    drawn = charts.histogram(charts.bin_counts({0: 1000, 1: 4, 2: 8}), muted=1)
    assert 'class="gap"' in drawn
    heights = re.findall(r'class="column[^>]*height="([^"]*)"', drawn)
    assert heights == ["96", "48", "96"]


def test_many_classes_are_drawn_without_numbers_and_stay_small():
    classes = 1000
    confusion = [[int(a == b) * 50 for a in range(classes)] for b in range(classes)]
    confusion[3][998] = 7
    output = {"classes": classes, "names": None}
    text = render(change(output=output, correct=None, confusion=confusion))
    Page(text)
    assert "A cell stands for 10×10 classes." in text
    assert 'viewBox="0 0 100 100"' in text
    assert "3 taken for 998 7 times" in words(text)
    assert len(text) < 500_000


# The browser. Each run takes a second or two; one page holds all the frames that are measured.

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: Opens every table, and tells how wide the page is beside how wide it may be.
MEASURE = """
for (const frame of document.querySelectorAll("iframe")) {
  frame.addEventListener("load", () => {
    const inside = frame.contentDocument;
    inside.querySelectorAll("details").forEach((table) => { table.open = true; });
    const page = inside.documentElement;
    const hidden = [...inside.querySelectorAll("section")].filter((s) => s.offsetHeight < 40);
    const cut = [...inside.querySelectorAll("h1, h2, h3, p, dt, dd, div, span, figure")].filter(
      (e) => !e.closest(".scroll") && e.clientWidth && e.scrollWidth > e.clientWidth + 1
    );
    const line = document.createElement("p");
    line.textContent = JSON.stringify({
      name: frame.title, wide: page.scrollWidth, room: frame.contentWindow.innerWidth,
      sections: [...inside.querySelectorAll("section")].map((s) => s.id), hidden: hidden.length,
      cut: cut.map((e) => e.className + ": " + e.textContent.slice(0, 40)),
    });
    document.body.append(line);
  });
}
"""


def browse(folder, page):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is on PATH")
    target = folder / "page.html"
    target.write_text(page, encoding="utf-8")
    ran = subprocess.run(
        [
            browser,
            *OPTIONS,
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            target.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def measure(folder, pages):
    """Return what a browser measures of pages, each a text by its name and width."""
    frames = "".join(
        f'<iframe title="{name}" style="width:{width}px;height:900px" '
        f'srcdoc="{html.escape(text)}"></iframe>'
        for (name, width), text in pages.items()
    )
    # Frames load after the script that listens to them has run.
    moved = frames.replace("srcdoc=", "data-page=")
    start = 'for (const f of document.querySelectorAll("iframe")) { f.srcdoc = f.dataset.page; }'
    page = f"<!DOCTYPE html><body>{moved}<script>{MEASURE}{start}</script></body>"
    shown = browse(folder, page)
    found = [json.loads(html.unescape(line)) for line in re.findall(r"<p>(\{.*?\})</p>", shown)]
    return {(entry["name"], entry["room"]): entry for entry in found}


def test_a_browser_finds_the_sections(tmp_path):
    shown = browse(tmp_path, render(sample()))
    assert Page(shown.removeprefix("<!DOCTYPE html>")).ids == SECTIONS


def test_pages_fit_phones_and_desks(tmp_path):
    pages = {
        (name, width): render(make())
        for name, make in REPORTS.items()
        for width in (320, 390, 700, 1000, 1400)
    }
    # A page that is too wide must be found out, or all the rest says nothing.
    wide = render(sample()).replace("<main>", '<main><div style="width:999px">x</div>')
    found = measure(tmp_path, {**pages, ("too wide", 390): wide})
    assert found.keys() == {*pages, ("too wide", 390)}
    assert found.pop(("too wide", 390))["wide"] > 999
    assert {key for key, entry in found.items() if entry["wide"] > entry["room"]} == set()
    for (name, _), entry in found.items():
        assert entry["sections"] == [
            s for s in SECTIONS if s not in ("kernels", "plan") or name != "blank"
        ]
        assert (entry["hidden"], entry["cut"]) == (0, [])
