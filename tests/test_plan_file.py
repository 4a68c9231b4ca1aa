"""A plan that is given back is computed once more, whole; nothing in it can be changed by hand."""

import json
import re

import pytest
from shells import small_network

from sbnn_hw.boards.table import BOARDS
from sbnn_hw.errors import UsageError
from sbnn_hw.planner import Wish, check_plan, choose, read_plan
from sbnn_hw.rtl_gen.options import Options

NETWORK = small_network((4, 4, 1))
BOARD = BOARDS["arty_a7"]
AGAIN = "; make it again with `sbnn-hw plan --json`"


@pytest.fixture
def plan():
    asked = Options(family="xc7", levels_per_stage=5)
    return choose(NETWORK, BOARD, 100_000_000, asked, Wish(end="fastest"))


def refused(content, path="p.json", network=NETWORK, board=BOARD):
    with pytest.raises(UsageError) as caught:
        check_plan(content, path, network, board)
    return str(caught.value)


def test_a_plan_comes_back_as_it_was(plan, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    found = check_plan(read_plan(path), path, NETWORK, BOARD)
    assert found == plan
    assert found.to_json() == plan.to_json()
    # Without a board it is the one that the plan names.
    assert check_plan(read_plan(path), path, NETWORK) == plan


def leaves(value, path=()):
    """Yield the path of every plain value in a file."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            yield from leaves(each, (*path, key))
        else:
            yield (*path, key)


def changed(content, path, value):
    content = json.loads(json.dumps(content))
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value(inner[path[-1]])
    return content


def other(value):
    """Return another value of the same kind, or as near as there is."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    return 1 if value is None else value + 1


def test_every_field_that_is_changed_is_found(plan):
    content = json.loads(plan.to_json())
    paths = list(leaves(content))
    assert len(paths) > 60
    for path in paths:
        # Another share to fill is another wish, which may lead to the same plan.
        if path in (("schema",), ("wish", "fill")):
            continue
        words = refused(changed(content, path, other))
        if path not in (("network",), ("target",)):
            assert words.startswith("The plan p.json was changed after it was made"), path
        assert words.endswith(AGAIN), path


def test_a_field_that_is_missing_or_unknown_is_found(plan):
    content = json.loads(plan.to_json())
    for name in content:
        if name == "schema":
            continue
        assert refused({key: each for key, each in content.items() if key != name})
    assert refused({**content, "more": 1}) == (
        f"The plan p.json was changed after it was made (more is unknown){AGAIN}"
    )


def test_what_was_changed_is_told(plan):
    content = json.loads(plan.to_json())
    right = plan.arrangement.interval
    assert refused({**content, "interval": 7}) == (
        f"The plan p.json was changed after it was made (interval is 7, not {right}){AGAIN}"
    )
    # True is 1 to Python.
    assert "interval is True, not 1" in refused({**content, "interval": True})


def test_a_plan_of_another_network_is_refused(plan):
    other = small_network((4, 4, 1), seed=1)
    content = json.loads(plan.to_json())
    assert refused(content, network=other) == (
        f"The plan p.json is for another network ({NETWORK.digest[:12]}, not "
        f"{other.digest[:12]}){AGAIN}"
    )


def test_a_plan_for_another_board_is_refused(plan):
    content = json.loads(plan.to_json())
    assert refused(content, board=BOARDS["ulx3s_12f"]) == (
        f"The plan p.json is for arty_a7, not for ulx3s_12f{AGAIN}"
    )
    assert "capacity" in refused({**content, "target": "arty_a7_100"}, board=BOARDS["arty_a7_100"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "{path} is not a plan" + AGAIN),
        ("[1]", "{path} is not a plan" + AGAIN),
        ('{"network": 1}', "{path} is not a plan" + AGAIN),
        ("[" * 100_000, "{path} is not a plan" + AGAIN),
        (
            '{"schema": 9}',
            "The plan {path} has form 9, but this release reads 1" + AGAIN,
        ),
    ],
)
def test_what_is_no_plan_is_one_sentence(text, words, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"^{re.escape(words.format(path=path))}$"):
        read_plan(path)
    with pytest.raises(UsageError, match=r"^The plan .* cannot be read: No such file"):
        read_plan(tmp_path / "none.json")
