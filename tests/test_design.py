"""The description of a design: read as it was written, and refused in a sentence if it is wrong."""

import json
import re
from dataclasses import fields, is_dataclass, replace
from typing import get_args, get_type_hints

import pytest
from conftest import ROOT

from sbnn_hw.cost.cost import Cost
from sbnn_hw.design import (
    SCHEMA,
    Design,
    InputStream,
    OutputStream,
    QueueDesign,
    StageDesign,
    load_design,
)
from sbnn_hw.errors import ModelRejected

HIDDEN = StageDesign(
    name="fc",
    kind="linear",
    sources=("", "other"),
    queues=(QueueDesign("", 3, 8, Cost(tables=9), "fc_join.queue0_overflow"),),
    cores=("fc",),
    connections=20,
    counted=0,
    cost=Cost(tables=7, registers=9, memory_bits=32, blocks=0.5),
    latency=2,
    words=4,
    width=6,
    value_bits=2,
    signed=False,
    unread=(1,),
    strobes=("fc.o__valid", "fc.enable"),
    payload="fc.o__payload",
)
LAST = replace(
    HIDDEN, name="scores", kind="scores", width=17, value_bits=5, unread=(), payload=None
)
DESIGN = Design(
    network="00ff",
    options={"family": "xc7", "levels_per_stage": 3, "scores": True},
    input=InputStream(beats=4, held=3, width=8, value_bits=8, shape=(2, 2, 1)),
    output=OutputStream(width=17, index_bits=2, score_bits=5, classes=3),
    latency=9,
    interval=4,
    stages=(HIDDEN, LAST),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "design.json"


def test_is_read_as_it_was_written(path):
    path.write_text(DESIGN.to_json())
    assert load_design(path) == DESIGN
    assert (DESIGN.cost.tables, DESIGN.cost.blocks, DESIGN.family) == (14, 1.0, "xc7")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": 5, "latency": ' + "9" * 30 + "}"])
def test_what_is_deep_or_beyond_bounds_is_damaged(path, text):
    path.write_text(text)
    with pytest.raises(ModelRejected, match=r"is damaged \(.*\); generate the design again$"):
        load_design(path)


def test_begins_with_its_form(path):
    assert next(iter(json.loads(DESIGN.to_json()).items())) == ("schema", SCHEMA)
    path.write_text(json.dumps(DESIGN.to_dict() | {"schema": 1}))
    said = f"The design in {path.parent} has form 1, but this release reads 5; generate it again"
    with pytest.raises(ModelRejected, match=f"^{re.escape(said)}$"):
        load_design(path)


def places(plain, *before):
    """Yield where each value of plain ones is."""
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, *before, key)


def spoilt(where, change):
    plain = json.loads(DESIGN.to_json())
    inner = plain
    for key in where[:-1]:
        inner = inner[key]
    change(inner, where[-1])
    return json.dumps(plain)


PLACES = list(places(json.loads(DESIGN.to_json())))


def test_a_missing_field_is_found_wherever_it_is(path):
    named = [where for where in PLACES if isinstance(where[-1], str) and where[0] != "options"]
    assert len(named) > 30
    for where in [*named, ("options", "family"), ("options", "levels_per_stage")]:
        path.write_text(spoilt(where, lambda inner, key: inner.pop(key)))
        with pytest.raises(ModelRejected, match=r"is damaged \(.*\); generate the design again$"):
            load_design(path)


@pytest.mark.parametrize("value", [-1, 1.5, {}, [[]], None])
def test_a_wrong_type_is_found_wherever_it_is(path, value):
    def change(inner, key):
        inner[key] = value

    for where in PLACES:
        # A stage need not be one that can be looked into.
        if where == ("schema",) or (where[-1] == "payload" and value is None):
            continue
        # Blocks have halves.
        if where[-1] == "blocks" and value == 1.5:
            continue
        # Options are any numbers.
        if where[0] == "options" and where[-1] != "family" and value == -1:
            continue
        path.write_text(spoilt(where, change))
        with pytest.raises(ModelRejected, match="is damaged"):
            load_design(path)


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("stages", 0, "cost", "tables"), True, "stages.cost.tables must not be True"),
        (("stages", 0, "cost", "tables"), "7", "stages.cost.tables must not be '7'"),
        (("stages", 0, "unread"), [3], "stage fc has no such values as are unread"),
        (("stages", 0, "width"), 7, "payload of stage fc does not add up"),
        (("stages", 0, "strobes"), [], "payload of stage fc does not add up"),
        (("stages", 1, "name"), "fc", "stages must have different names"),
        (("input", "width"), 9, "widths of the input do not add up"),
        (("output", "width"), 18, "widths of the output do not add up"),
        (("options", "family"), "xc8", "unknown family"),
        (("options", "levels_per_stage"), "3", "options.levels_per_stage must not be '3'"),
        (("options", "levels_per_stage"), 0, "options.levels_per_stage must not be 0"),
        (("output", "colour"), 1, "output.colour is unknown"),
        (("latency",), -1, "latency must not be -1"),
        (("stages",), {}, "stages must not be {}"),
    ],
)
def test_what_does_not_add_up_is_one_sentence(path, where, value, said):
    def change(inner, key):
        inner[key] = value

    path.write_text(spoilt(where, change))
    whole = f"{path} is damaged ({said}); generate the design again"
    with pytest.raises(ModelRejected, match=f"^{re.escape(whole)}$"):
        load_design(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "2", "{}", '{"schema": 5}', "\udcff"])
def test_what_is_no_design_is_damaged(path, text):
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ModelRejected, match="is damaged"):
        load_design(path)


def named_fields(kind=Design, before=""):
    """Yield the fields of a dataclass and of those inside, as paths."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        inner = [hints[field.name], *get_args(hints[field.name])]
        below = next((each for each in inner if is_dataclass(each)), None)
        if below is None:
            yield f"{before}{field.name}"
        else:
            several = "[]" if below in (StageDesign, QueueDesign) else ""
            yield from named_fields(below, f"{before}{field.name}{several}.")


def test_every_field_is_documented():
    text = (ROOT / "docs/hardware.md").read_text(encoding="utf-8")
    section = text.split("\n## The description\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(.*?)`", row)]
    assert documented == ["schema", *named_fields()]
    assert f"format {SCHEMA}" in section
