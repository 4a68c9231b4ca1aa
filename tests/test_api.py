"""The names for Python programs: documented, complete, light to import, and they work together."""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT

import sbnn_hw
from sbnn_hw.errors import LinkFailed, ModelRejected, UsageError
from sbnn_hw.flow.simulated import start_board
from sbnn_hw.sim.line import LinePort

PACKAGES = ("sbnn_hw", "sbnn_hw.train")


@pytest.fixture
def bench(monkeypatch):
    """Return bench/api.py, which writes the page."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    spec = importlib.util.spec_from_file_location("bench_api", ROOT / "bench/api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What is public


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("torch", "amaranth", "onnx", "numpy", "matplotlib")
    script = (
        "import sys, sbnn_hw; dir(sbnn_hw); sbnn_hw.train; dir(sbnn_hw.train)\n"
        f"assert not set({heavy!r}) & set(sys.modules)\n"
        # What needs neither torch nor Amaranth does not load them.
        "from sbnn_hw import Network, from_arrays, open_data, open_board, open_network\n"
        "assert not {'torch', 'amaranth'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_complete_in_dir_and_are_no_modules(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert module.__all__ == list(dict.fromkeys(module.__all__))
    for name in set(module.__all__) - {"train", "__version__"}:
        # Twice: loading its home must not put a module in the name's place.
        assert callable(getattr(module, name)), name
        assert getattr(module, name) is getattr(module, name), name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize(
    ("package", "folder"), [("sbnn_hw", "sbnn_hw"), ("sbnn_hw.train", "train")]
)
def test_type_checkers_see_the_same_names(package, folder):
    module = importlib.import_module(package)
    tree = ast.parse((ROOT / folder / "__init__.pyi").read_text(encoding="utf-8"))
    seen = {
        alias.name: (node.module, alias.asname)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: (f"{package}.{home}", name) for name, home in module._HOME.items()}
    if package == "sbnn_hw":
        homes["train"] = ("sbnn_hw", "train")
    assert seen == homes


def documented(bench, item):
    """Return the parameters that a docstring explains."""
    _, sections = bench.split_docstring(inspect.getdoc(item))
    heads = [head for head, _ in bench.entries_of(sections.get("Parameters", ""))]
    return [name.strip("*") for head in heads for name in head.partition(" : ")[0].split(", ")]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_parameter_is_explained(bench, package):
    for name, item in bench.public(package):
        doc = inspect.getdoc(item)
        assert re.fullmatch(r"[A-Z{].*[.]", doc.splitlines()[0]), name
        if hasattr(item, "__dataclass_fields__") or (
            inspect.isclass(item) and issubclass(item, Exception)
        ):
            continue
        assert documented(bench, item) == list(inspect.signature(item).parameters), name


def test_paths_may_be_texts():
    """Whatever takes a Path takes a str too."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module._HOME:
            item = getattr(module, name)
            if not inspect.isfunction(inspect.unwrap(item)):
                continue
            for parameter in inspect.signature(item).parameters.values():
                if "Path" in str(parameter.annotation):
                    assert "str" in str(parameter.annotation), (name, parameter)


def test_the_page_is_that_of_the_docstrings(bench):
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    tables = bench.tables()
    assert len(tables) == 4
    for mark, content in tables.items():
        assert f"<!-- {mark} -->\n{content}<!-- end -->" in text, "run `python bench/api.py`"
    for package in PACKAGES:
        for name, _ in bench.public(package):
            assert f"\n### {name}\n" in text


def test_a_parameter_that_nobody_explains_is_found(bench):
    def forgotten(x, y):
        """Do it.

        Parameters
        ----------
        x : int
            The one.
        """

    assert documented(bench, forgotten) == ["x"]


# Own arrays to an answer


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """Return what the example of the README has made, exactly as printed, and what it printed."""
    import torch

    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(code.splitlines()) <= 30
    names, said = {}, io.StringIO()
    torch.manual_seed(0)
    with contextlib.chdir(tmp_path_factory.mktemp("readme")), contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), names)
        folder = Path("build/digits-arty_a7").resolve()
    return SimpleNamespace(**names, folder=folder, said=said.getvalue().splitlines())


def test_the_example_of_the_readme_goes_all_the_way(readme):
    right, answers = readme.said
    assert re.fullmatch(r"9\d\.\d% right; the hardware differs in 0 images", right)
    test = readme.data.load("test")
    expected = readme.network.compute(test.pixels[:3]).classes
    assert ast.literal_eval(answers) == [readme.data.meaning.classes[each] for each in expected]
    assert readme.report.agreement.vectors == len(test) == 179
    assert readme.report.accuracy == readme.network.accuracy(test.pixels, test.labels)
    assert readme.report.data == "arrays"
    assert (readme.folder / "report.html").is_file()


def test_a_noisy_line_brings_the_same_answers(readme):
    pixels = readme.data.load("test").pixels[:20]
    outcome = readme.network.compute(pixels)
    with sbnn_hw.simulate_board(str(readme.folder), noise=2e-4, seed=5) as board:
        answers = board.classify(pixels)
    assert answers.retries > 0
    assert (answers.classes == outcome.classes).all()
    assert (answers.scores == outcome.scores).all()
    assert answers.names == [readme.network.class_name(each) for each in outcome.classes]


def test_a_port_that_turns_bits_round_is_noticed(readme, monkeypatch):
    read = LinePort.read
    monkeypatch.setattr(
        LinePort, "read", lambda self, size=1: bytes(byte ^ 1 for byte in read(self, size))
    )
    _, line = start_board(readme.folder)
    port = LinePort(line)
    with pytest.raises(LinkFailed, match="No sbnn-hw board answers"):
        sbnn_hw.Link(port, baud=1_000_000, timeout=0.1, tries=1)
    port.close()


def test_a_board_is_simulated_only_of_a_build(tmp_path):
    board = sbnn_hw.simulate_board(tmp_path)
    with pytest.raises(UsageError, match="There is no build in "), board:
        pass
    board = sbnn_hw.simulate_board(tmp_path, noise=2)
    with pytest.raises(UsageError, match="Noise must be between 0 and 1, not 2"), board:
        pass


@pytest.fixture(scope="module")
def rows():
    """Return rows of numbers, data made of them, and a network that was trained on these."""
    from sbnn_hw import train

    rng = np.random.default_rng(3)
    x = rng.normal(size=(240, 6))
    kinds = np.array(["low", "middle", "high"])
    y = kinds[np.digitize(x[:, 0] + x[:, 1], [-0.6, 0.6])]
    data = sbnn_hw.from_arrays(x, y, input_bits=4)
    trained = train.fit("mlp:24", data, luts=120, fan_in=(6, 12), epochs=5, quiet=True)
    return SimpleNamespace(x=x, y=y, data=data, network=train.fold_checkpoint(trained).network)


def test_rows_are_scaled_as_the_training_rows_were(rows):
    network = rows.network
    moved = sbnn_hw.from_arrays(rows.x + 1, rows.y, network=network)
    assert list(moved.parts) == ["test"]
    assert (moved.load("test").pixels == network.prepare(rows.x + 1)).all()
    # The same rows are split as before, and scaled as before.
    same = sbnn_hw.from_arrays(rows.x, rows.y, network=network)
    for part, images in rows.data.parts.items():
        assert (same.parts[part].pixels == images.pixels).all()
        assert (same.parts[part].labels == images.labels).all()
    missing = rows.x.copy()
    missing[:, 2] = np.nan
    typical = network.meaning.columns[2].missing
    assert (network.prepare(missing)[..., 2] == typical).all()
    with pytest.raises(ModelRejected, match=r"^Rows must have 6 values \(1×1×6\), not 5$"):
        network.prepare(rows.x[:, :5])
    with pytest.raises(ModelRejected, match=r"^Rows must have 6 values \(1×1×6\), not none$"):
        network.prepare(3)


def test_data_of_another_kind_are_refused(rows, tmp_path):
    path = tmp_path / "n.sbnn"
    rows.network.save(path)
    other = sbnn_hw.from_arrays(2 * rows.x, rows.y, input_bits=4)
    with pytest.raises(ModelRejected, match=r"arrays are not those that .* was trained with; read"):
        sbnn_hw.build(path, "arty_a7", out=tmp_path / "b", data=other)
    same = sbnn_hw.from_arrays(2 * rows.x, rows.y, network=rows.network)
    report = sbnn_hw.build(path, "arty_a7", out=tmp_path / "b", data=same, until="netlist")
    assert report.network == rows.network.digest
    for wrong in ({}, {"board": "arty_a7", "part": "xc7a35ticsg324-1L"}):
        with pytest.raises(UsageError, match="for a board, or for a part; name one of them"):
            sbnn_hw.build(path, **wrong)


def test_a_network_is_saved_and_opened_by_text_or_path(rows, tmp_path):
    rows.network.save(str(tmp_path / "n.sbnn"))
    opened = sbnn_hw.open_network(str(tmp_path / "n.sbnn"))
    assert opened.digest == rows.network.digest
    assert opened.meaning == rows.network.meaning
    assert sbnn_hw.open_network(tmp_path / "n.sbnn").digest == opened.digest


def test_data_are_opened_by_text_or_path(rows, tmp_path):
    np.savez(tmp_path / "rows.npz", x=rows.x, y=rows.y)
    own = sbnn_hw.open_data(tmp_path / "rows.npz", input_bits=4)
    for part, images in own.parts.items():
        assert (images.pixels == rows.data.parts[part].pixels).all()
    again = sbnn_hw.open_data(str(tmp_path / "rows.npz"), network=rows.network)
    assert (again.load("test").pixels == own.load("test").pixels).all()
