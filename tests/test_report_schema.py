"""The report's form is checked field by field, and its documentation has every field."""

import importlib.util
import json
import re

import pytest
from conftest import ROOT
from report_samples import blank, hard, nasty, sample

from sbnn_hw.report import SCHEMA, Report
from sbnn_hw.report.form import Each, Maybe, Record
from sbnn_hw.report.schema import FORM


def paths(part, above=()):
    """Return the path to each field of the form; the first item stands for a list."""
    match part:
        case Maybe(inner):
            yield from paths(inner, above)
        case Record(_, fields):
            for name, field in fields.items():
                yield (*above, name)
                yield from paths(field.part, (*above, name))
        case Each(item):
            yield from paths(item, (*above, 0))


def spoken(path):
    return "".join(f"[{key}]" if key == 0 else f".{key}" for key in path).removeprefix(".")


def parent(value, path):
    for key in path[:-1]:
        value = value[key]
    return value


def content():
    """Return what report.json of the sample holds, without the stages that have no neurons."""
    written = sample().to_dict()
    written["stages"] = written["stages"][2:]
    written["stages"][0]["sources"] = [-1]
    written["stages"][0]["queues"][0]["source"] = -1
    return written


@pytest.mark.parametrize("make", [sample, blank, nasty, hard])
def test_a_report_comes_back_from_its_file(make):
    written = json.loads(json.dumps(make().to_dict()))
    assert Report.read(written) == make()
    assert Report.read(written).to_dict() == written


def test_fields_are_written_in_their_order():
    """A file in which only the order differs is another file."""
    assert list(sample().to_dict()) == list(FORM.fields)
    assert SCHEMA == sample().schema == 1


@pytest.mark.parametrize("path", list(paths(FORM)), ids=spoken)
def test_a_missing_field_is_named(path):
    broken = content()
    del parent(broken, path)[path[-1]]
    with pytest.raises(ValueError, match=f"^The report has no field {re.escape(spoken(path))}$"):
        Report.read(broken)


@pytest.mark.parametrize("path", list(paths(FORM)), ids=spoken)
def test_a_value_of_the_wrong_kind_is_named(path):
    broken = content()
    parent(broken, path)[path[-1]] = {1}
    with pytest.raises(
        ValueError,
        match=rf"^Field {re.escape(spoken(path))} of the report must be .*, not \{{1\}}$",
    ):
        Report.read(broken)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("schema",), 2, "Field schema of the report must be 1 for this release, not 2"),
        (("luts",), True, "Field luts of the report must be a whole number from 0 up, not True"),
        (("luts",), -1, "Field luts of the report must be a whole number from 0 up, not -1"),
        (("network",), "", "Field network of the report must be text that is not empty, not ''"),
        (
            ("fmax_mhz",),
            float("nan"),
            "Field fmax_mhz of the report must be a number from 0 up, not nan",
        ),
        (
            ("accuracy",),
            96.5,
            "Field accuracy of the report must be a number from 0 to 1, not 96.5",
        ),
        (("stages",), "x" * 99, f"Field stages of the report must be a list, not '{'x' * 58}…"),
        (
            ("kernels", "histogram"),
            [1],
            "Field kernels.histogram of the report must be a list of 10, not [1]",
        ),
        (
            ("stages", 2, "fan_in", "histogram"),
            {"²": 1},
            "Field stages[2].fan_in.histogram of the report must be an object whose names are numbers, not {'²': 1}",
        ),
        (
            ("agreement", "mismatches"),
            10001,
            "Field agreement.mismatches of the report must be at most agreement.vectors (10000), not 10001",
        ),
        (
            ("output", "classes"),
            9,
            "Field output.names of the report must be 9 names, not 10",
        ),
        (
            ("confusion",),
            [[0] * 9] * 10,
            "Field confusion of the report must have 10 rows and columns, as output.classes says",
        ),
        (
            ("correct",),
            9646,
            "Field correct of the report must be the diagonal of confusion (9645), not 9646",
        ),
    ],
)
def test_what_a_field_must_be_is_said(path, value, sentence):
    broken = sample().to_dict()
    parent(broken, path)[path[-1]] = value
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Report.read(broken)


def test_a_report_is_an_object():
    with pytest.raises(ValueError, match=r"^The report must be an object, not \[\]$"):
        Report.read([])


def test_fields_of_later_releases_do_no_harm():
    later = sample().to_dict()
    later["new"] = later["stages"][0]["new"] = later["agreement"]["new"] = 1
    assert Report.read(later) == sample()


def test_the_documentation_has_the_tables_of_the_schema(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    spec = importlib.util.spec_from_file_location("fields", ROOT / "bench/report_fields.py")
    fields = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fields)
    tables = fields.tables()
    text = (ROOT / "docs/report.md").read_text(encoding="utf-8")
    for mark, table in tables.items():
        assert f"<!-- {mark} -->\n{table}<!-- end -->" in text, mark
    # Every field has its row, with a sentence.
    rows = "".join(tables.values())
    for path in paths(FORM):
        assert re.search(rf"^\| `{path[-1]}`.* \| \S.*\. \|$", rows, re.M), spoken(path)
