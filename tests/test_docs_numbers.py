"""Every number in README and docs is in a file that a command wrote, and those files are up to date.

``docs/numbers.toml`` names, for each page, the files that its numbers come from.
"""

import hashlib
import importlib
import io
import json
import re
import tokenize
import tomllib

import pytest
from conftest import ROOT

SOURCES = tomllib.loads((ROOT / "docs/numbers.toml").read_text(encoding="utf-8"))
ABLATION = json.loads((ROOT / "sbnn_hw/paper/measured.json").read_text(encoding="utf-8"))
ABLATION = ABLATION["cifar10_ablation"]["rows"]
BENCH = json.loads((ROOT / "docs/bench/bench.json").read_text(encoding="utf-8"))


#: Written whole by `sbnn-hw bench`; tests/test_zoo.py compares it with bench.json.
GENERATED = "docs/bench/bench.md"


def pages():
    found = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *(page for page in found if page != GENERATED)]


# Numbers of a page, and of the files behind it


def rows_of(file, key):
    return json.loads((ROOT / f"docs/bench/{file}.json").read_text(encoding="utf-8"))[key]


NUMBER = re.compile(r"(?<![\w.,/^])\d[\d,]*(?:\.\d+)?(?!\w|[.,]\d)(?P<percent>\s?%)?")


def numbers_in(text):
    """Yield what looks measured: a share in percent, a decimal fraction, or a thousand and more."""
    unread = (
        # Tables that scripts write are compared whole, below.
        r"<!-- bench/[a-z_]+\.py.*? -->\n.*?<!-- end -->",
        *(r"```(?:python|toml)\n.*?```", r"`[^`\n]+`", r"\]\([^)]*\)", r"<!--.*?-->"),
        *(r"--[a-z][a-z0-9-]* [\d.]+", r"arXiv \d+\.\d+"),
    )
    for pattern in unread:
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    for match in NUMBER.finditer(text):
        number = match[0].rstrip(" %").rstrip(",")
        if match["percent"] or "." in number or re.fullmatch(r"\d{1,3}(,\d{3})+", number):
            yield number


def forms_of(value):
    """Yield how a page may print a value; a share may be printed in percent."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, str):
        yield from numbers_in(value)
    elif isinstance(value, int):
        yield f"{value:,}"
    elif isinstance(value, float):
        yield from (f"{value:,.{digits}f}" for digits in range(5))
        if abs(value) <= 1:
            yield from (f"{100 * value:.{digits}f}" for digits in range(3))


def values_in(content):
    """Yield all values of plain content."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from values_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from values_in(value)
    else:
        yield content


def values_of(path):
    """Yield all values of a file."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".json":
            yield from values_in(json.loads(text))
        case ".toml":
            yield from values_in(tomllib.loads(text))
        case ".py":
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NUMBER:
                    number = token.string.replace("_", "").lower()
                    if re.fullmatch(r"[\d.]+", number):
                        yield float(number) if "." in number else int(number)
        case _:
            yield text


def derived():
    """Return numbers that pages compute from measured ones: differences and ratios."""
    entries = {entry["name"]: entry for entry in (*BENCH["models"], *BENCH["dense"])}

    def of(name, key):
        return entries[name]["numbers"][key]["value"]

    def points(better, worse):
        return f"{100 * (of(better, 'accuracy') - of(worse, 'accuracy')):.2f}"

    def times(larger, smaller):
        return f"{of(larger, 'luts') / of(smaller, 'luts'):.1f}"

    def mean(domain, method, ec, key="accuracy"):
        rows = [
            row
            for row in ABLATION
            if (row["domain"], row["method"], row["ec"]) == (domain, method, ec)
        ]
        return 100 * sum(row[key] for row in rows) / len(rows)

    def spread(domain, method, ec):
        values = [
            100 * row["accuracy"]
            for row in ABLATION
            if (row["domain"], row["method"], row["ec"]) == (domain, method, ec)
        ]
        return max(values) - min(values)

    def mnist(domain, method, gamma, key="accuracy"):
        rows = [
            row
            for row in rows_of("domain_ablation", "rows")
            if (row["domain"], row["method"], row["gamma"]) == (domain, method, gamma)
        ]
        return 100 * sum(row[key] for row in rows) / len(rows)

    learned, closed = mean("learned", "penalty", 0.05), mean("closed_form", "topk", 0.05)
    dense = mean("bnn", "none", 0.5)
    return {
        "docs/domain_ablation.md": {
            f"{mnist('learned', 'penalty', 0.5):.1f}",
            f"{mnist('learned', 'penalty', 0.5, 'ones'):.2f}",
            f"{mnist('learned', 'topk', 0.0):.1f}",
            f"{mnist('symmetric', 'topk', 0.0):.1f}",
        },
        "docs/cifar_ablation.md": {
            f"{value:.1f}"
            for value in (
                *(learned, closed, dense, dense - closed),
                learned - mean("symmetric", "penalty", 0.05),
                learned - mean("bnn", "penalty", 0.05),
                spread("symmetric", "penalty", 0.05),
                spread("bnn", "penalty", 0.05),
                mean("closed_form", "penalty", 0.05),
                mean("bnn", "topk", 0.05),
                mean("symmetric", "topk", 0.05),
            )
        }
        | {f"{closed:.2f}", f"{mean('learned', 'penalty', 0.05, 'ones'):.2f}"},
        "docs/zoo.md": {
            points("mnist_dense_sfc", "mnist_2k_sfc"),
            points("mnist_dense_512", "mnist_2k2_narrow"),
            points("mnist_dense_768", "mnist_4k_zero"),
        },
        "docs/bench.md": {times("mnist_dense_sfc", "mnist_2k_sfc")},
    }


def unfounded(page, text):
    """Return the numbers of a page's text that none of its sources has."""
    entry = SOURCES.get(page, {})
    known = {form for note in entry.get("noted", []) for form in note["numbers"]}
    known |= derived().get(page, set())
    for pattern in entry.get("files", []):
        found = sorted(ROOT.glob(pattern))
        assert found, f"{page}: there is no {pattern}"
        for path in found:
            known |= {form for value in values_of(path) for form in forms_of(value)}
    return [number for number in numbers_in(text) if number not in known]


@pytest.mark.parametrize("page", pages())
def test_numbers_have_a_source(page):
    assert unfounded(page, (ROOT / page).read_text(encoding="utf-8")) == []


def test_the_demonstration_printed_what_the_readme_quotes():
    """`make demo` wrote docs/bench/demo.txt; the README quotes some of its lines."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = next(b for b in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "agreement" in b)
    printed = (ROOT / "docs/bench/demo.txt").read_text(encoding="utf-8").splitlines()
    places = [printed.index(line) for line in quoted.splitlines()]
    assert len(places) == 5
    assert places == sorted(places)


def test_a_number_that_no_file_has_is_found():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "2,113 of 20,800 LUTs" in text
    assert unfounded("README.md", text.replace("2,113 of", "2,112 of")) == ["2,112"]
    assert unfounded("README.md", "An accuracy of 12.34 %, 56,789 LUTs, 66 % more.") == [
        *("12.34", "56,789", "66"),
    ]


@pytest.mark.parametrize("page", SOURCES)
def test_noted_numbers_are_still_on_their_page(page):
    """A number that was entered by hand, with where it is from, goes when the page loses it."""
    there = set(numbers_in((ROOT / page).read_text(encoding="utf-8")))
    for note in SOURCES[page].get("noted", []):
        assert note["from"].strip()
        assert set(note["numbers"]) <= there


# Tables that scripts write


@pytest.mark.parametrize(
    ("script", "page", "results"),
    [
        ("boards", "docs/boards.md", "docs/bench/boards.json"),
        ("lut_cost", "docs/lut_cost.md", "docs/bench/lut_cost.json"),
        ("estimate", "docs/explore.md", "docs/bench/estimate.json"),
        ("domain_ablation", "docs/domain_ablation.md", "docs/bench/domain_ablation.json"),
        ("tabular", "docs/tables.md", "docs/bench/tabular.json"),
        ("cifar_ablation", "docs/cifar_ablation.md", "sbnn_hw/paper/measured.json"),
        ("stream_ablation", "docs/streams.md", "docs/bench/stream_ablation.json"),
        ("fuzz", "docs/hardware.md", "docs/bench/fuzz.json"),
    ],
)
def test_tables_are_those_of_their_results(script, page, results, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    spec = importlib.util.spec_from_file_location(f"bench_{script}", ROOT / f"bench/{script}.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    content = json.loads((ROOT / results).read_text(encoding="utf-8"))
    if script == "cifar_ablation":
        content = content["cifar10_ablation"]["rows"]
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = bench.tables(content)
    assert tables
    for mark, table in tables.items():
        assert f"<!-- {mark} -->\n{table}<!-- end -->" in text


# Results and the code that they are of


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def open_model(name):
    from sbnn_hw.models import open_network

    path = next(p for p in (ROOT / "models").glob(f"{name}.*") if p.suffix in (".pt", ".onnx"))
    return path, open_network(path)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{row['model']}-{row['family']}-{row['share']}",
            marks=()
            if (row["model"], row["family"], row["share"]) == ("digits", "xc7", 3000)
            else pytest.mark.long,
        )
        for row in rows_of("lut_cost", "whole")
    ],
)
def test_counted_networks_are_still_generated(row):
    """The text that Yosys counted is the text that today's code generates."""
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.lower import Options

    _, network = open_model(row["model"])
    assert network.digest == row["network"]
    design = generate(network, Options(family=row["family"], share=row["share"]))
    assert sha256(design.verilog) == row["verilog"]


def board_rows():
    for key in ("models", "levels"):
        for row in rows_of("boards", key):
            quick = (row["model"], row["board"], row["levels"]) in (
                *(("digits", "arty_a7", None), ("digits", "icebreaker", None)),
            )
            name = f"{row['model']}-{row['board']}-{row['levels'] or 'auto'}"
            yield pytest.param(row, id=name, marks=() if quick else pytest.mark.long)


@pytest.mark.parametrize("row", list(board_rows()))
def test_built_boards_are_still_generated(row, tmp_path):
    """The network's text and the shell's are those that today's code generates."""
    from sbnn_hw.boards.table import BOARDS
    from sbnn_hw.flow import Plan
    from sbnn_hw.flow.board_steps import prepare
    from sbnn_hw.flow.network_steps import choose_clock, choose_images, fold
    from sbnn_hw.flow.network_steps import generate as generate_step
    from sbnn_hw.flow.plan import Built, Flow, require_tools
    from sbnn_hw.flow.planning import choose_plan
    from sbnn_hw.flow.steps import Steps
    from sbnn_hw.planner import Wish

    path, _ = open_model(row["model"])
    plan = Plan(
        model=path,
        target=BOARDS[row["board"]],
        out=tmp_path,
        until="synthesis",
        levels=row["levels"],
        # As `bench/boards.py` builds them.
        wish=Wish(form="unrolled", fill=100),
    )
    flow = Flow(plan, Steps(tmp_path, lambda *_: None), require_tools(plan), lambda *_: None)
    network, _ = fold(flow)
    assert network.digest == row["network"]
    built = Built(network)
    choose_clock(flow, built)
    images, _ = choose_images(flow, network, None)
    generate_step(flow, built, choose_plan(flow, built).options, images)
    files = {**prepare(flow, built).files, "top.v": (tmp_path / "top.v").read_text()}
    assert len(row["texts"]) == 2
    assert {name: sha256(files[name]) for name in row["texts"]} == row["texts"]
