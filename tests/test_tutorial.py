"""The tutorial runs from top to bottom, and what is stored in it is what it prints."""

import importlib.util
import re

import pytest
from conftest import ROOT

nbformat = pytest.importorskip("nbformat", reason="needs nbformat (pip install 'sbnn-hw[dev]')")
pytest.importorskip("nbclient", reason="needs nbclient (pip install 'sbnn-hw[dev]')")

PAGE = ROOT / "docs/tutorial.ipynb"
#: An accuracy that shows that the network has learned; processors round differently.
GOOD = r"(?:8[5-9]|9\d|100)\.\d%"
#: How the lines end in which the notebook claims something, by the cell that prints them.
CLAIMS = [
    r"images of 16×16×1 with values from \d+ to \d+, integers of 8 bits\n",
    r"connections [\d,]+ of [\d,]+ possible ones\n",
    rf"accuracy {GOOD} on 120 test pictures\nPyTorch and the integers agree on 120 of 120\n",
    rf"120 pictures simulated, 0 differ from the netlist\naccuracy of the hardware: {GOOD}\n.*",
    r"[5-8] of 8 right; scores equal those of the netlist: True\n",
]


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(PAGE, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    """Return what each cell prints, of those that do."""
    texts = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in code_cells(notebook)
    ]
    return [text for text in texts if text]


def pictures(notebook):
    return ["image/png" in o.get("data", {}) for cell in code_cells(notebook) for o in cell.outputs]


def check(notebook):
    """Make sure that a notebook has run well, in order, and says what it claims."""
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]
    assert sum(pictures(notebook)) == 3
    texts = printed(notebook)
    assert len(texts) == len(CLAIMS)
    for text, claim in zip(texts, CLAIMS, strict=True):
        assert re.search(rf"{claim}\Z", text, re.DOTALL), text


def test_what_is_stored_is_small_clean_and_says_what_it_should(stored):
    check(stored)
    text = PAGE.read_text(encoding="utf-8")
    assert len(text) < 300_000
    for place in ("/tmp", "/home", "/root", "/work", "/usr", "Users", "\\\\"):
        assert not any(place in said for said in printed(stored)), place
    assert stored.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in code_cells(stored):
        compile(cell.source, "tutorial.ipynb", "exec")
        assert all(output.get("name") != "stderr" for output in cell.outputs)


def test_a_claim_that_is_not_so_is_found(stored):
    for wrong in ("0 differ", "agree on 120", "True"):
        other = nbformat.from_dict(stored)
        other = nbformat.reads(nbformat.writes(other), as_version=4)
        (output,) = (
            o for cell in code_cells(other) for o in cell.outputs if wrong in o.get("text", "")
        )
        output.text = output.text.replace(wrong, {"True": "False"}.get(wrong, f"1{wrong}"))
        with pytest.raises(AssertionError):
            check(other)


def test_links_and_names_in_it_exist(stored):
    import sbnn_hw
    from sbnn_hw import train

    text = "\n".join(cell.source for cell in stored.cells)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) >= 4
    for link in links:
        assert (PAGE.parent / link).is_file(), link
    for name in re.findall(r"sbnn_hw\.(\w+)", text):
        assert name in sbnn_hw.__all__, name
    for name in re.findall(r"\btrain\.(\w+)\(", text):
        assert name in train.__all__, name


def test_it_runs_from_top_to_bottom(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("bench_tutorial", ROOT / "bench/tutorial.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    notebook = bench.execute(tmp_path)
    check(notebook)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in stored.cells]
    assert pictures(notebook) == pictures(stored)
    # The rows and the split are the same on every machine.
    assert printed(notebook)[0] == printed(stored)[0]
    assert [path.name for path in tmp_path.glob("*/shapes.sbnn")] == ["shapes.sbnn"]
