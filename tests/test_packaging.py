"""One distribution: the package list is the tree, the wheel works, heavy imports stay at home."""

import ast
import importlib
import json
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from sbnn_hw.netlist import save
from sbnn_hw.train import fold_checkpoint

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = [
    folder
    for folder in ("sbnn_hw", "train", "rtl_gen", "sim", "boards")
    if (ROOT / folder).is_dir()
]
#: Who may import what.
HOME = {
    "torch": {"train"},
    "brevitas": {"train"},
    "amaranth": {"rtl_gen", "boards"},
    "amaranth_boards": {"boards"},
    "onnx": {"sbnn_hw"},
    "optuna": {"sbnn_hw"},
}


def packages_on_disk():
    names = set()
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            names.add(".".join(parts if parts[0] == "sbnn_hw" else ("sbnn_hw", *parts)))
    return names


def test_package_list_is_the_tree():
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_every_dependency_has_its_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith('  "') and any(mark in line for mark in (">=", "==")):
            assert lines[number - 1].lstrip().startswith("#"), line


def test_python_versions_are_declared():
    named = {c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if "Python ::" in c}
    assert {"3.11", "3.12", "3.13"} <= named
    assert PROJECT["project"]["requires-python"] == ">=3.11"


@pytest.mark.parametrize("name", [".venv", "build", "dist", "data"])
def test_what_is_made_is_ignored_also_where_it_is_a_link(tmp_path, name):
    """A folder's name with a slash would miss a link to one."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    subprocess.run([git, "init", "-q"], cwd=tmp_path, check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    (tmp_path / name).symlink_to(tmp_path.parent)
    subprocess.run([git, "check-ignore", "-q", name], cwd=tmp_path, check=True)


@pytest.mark.parametrize("package", ["sbnn_hw.train", "sbnn_hw.qonnx"])
def test_names_that_are_loaded_on_first_use_are_listed(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def test_heavy_dependencies_stay_in_their_folder():
    seen = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in imports_of(path):
                root = name.split(".")[0]
                seen.add(root)
                assert folder in HOME.get(root, {folder}), f"{path} imports {name}"
                # Between folders always by the one root.
                assert root not in ("train", "rtl_gen", "sim", "boards"), f"{path} imports {name}"
    assert "torch" in seen


def test_one_file_knows_optuna():
    """And SQLAlchemy, which comes with it."""
    users = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if {"optuna", "sqlalchemy"} & {name.split(".")[0] for name in imports_of(path)}
    }
    assert users == {"sbnn_hw/explore/study.py"}


def test_onnx_is_read_in_one_package_and_only_when_it_is_needed():
    users = set()
    for path in (ROOT / "sbnn_hw").rglob("*.py"):
        if {"onnx", "google.protobuf.message"} & set(imports_of(path)):
            users.add(path.parent.name)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not any("onnx" in ast.unparse(n).split(" import")[0].split(".") for n in top)
    assert users == {"qonnx"}


def test_only_what_imports_amaranth_goes_without_types():
    """Modules are named one by one, or a whole package whose modules all import it."""
    untyped = [each for each in PROJECT["tool"]["mypy"]["overrides"] if "ignore_errors" in each]
    names = [name.removeprefix("sbnn_hw.") for each in untyped for name in each["module"]]
    assert "rtl_gen.datapath" in names
    files = [
        path
        for name in names
        for path in ROOT.glob(name.replace(".*", "/*").replace(".", "/") + ".py")
        if path.name != "__init__.py"
    ]
    assert len(files) >= len(names)
    roots = {path: {name.split(".")[0] for name in imports_of(path)} for path in files}
    assert [path for path in files if "amaranth" not in roots[path]] == []


def test_makefile_checks_the_types_of_every_folder():
    line = next(x for x in (ROOT / "Makefile").read_text().splitlines() if x.startswith("FOLDERS"))
    assert line.split(":=")[1].split() == [
        f for f in FOLDERS if f != "sbnn_hw" and (ROOT / f / "__init__.py").exists()
    ]


def test_the_demonstration_asks_for_a_compiler_before_it_begins(tmp_path):
    make = shutil.which("make")
    if make is None:
        pytest.skip("needs make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    done = subprocess.run(
        [make, "demo"], cwd=tmp_path, capture_output=True, text=True, env={"PATH": str(tmp_path)}
    )
    assert done.returncode
    assert done.stderr.startswith("Simulation needs a C++ compiler: install g++, or set CXX\n")
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


def test_wheel_works_without_the_sources_and_without_torch(tmp_path):
    """A wheel in an empty environment: only numpy is there, and netlists still work."""
    # From a copy: setuptools leaves a build folder, from which a later wheel would take old files.
    source = tmp_path / "source"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, source)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"sbnn_hw/boards/host/{name}" for name in ("sbnn.h", "sbnn.c", "main.c")} <= held
    assert {f"sbnn_hw/sim/plain/{name}" for name in ("lz4.h", "zlib.h")} <= held
    assert {"sbnn_hw/__init__.pyi", "sbnn_hw/train/__init__.pyi", "sbnn_hw/py.typed"} <= held
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    target = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel],
        check=True, capture_output=True,
    )  # fmt: skip
    import numpy

    numpy_home = str(Path(numpy.__file__).parent.parent)
    script = (
        f"import sys; sys.path.append({numpy_home!r})\n"
        "sys.modules.update(dict.fromkeys(['torch', 'sklearn']))\n"  # as if not installed
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'torch' else find(n, *a)\n"
        "import sbnn_hw; assert 'env' in sbnn_hw.__file__\n"
        "from sbnn_hw.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )

    def run(*arguments):
        return subprocess.run(
            [python, "-c", script, *arguments], capture_output=True, text=True, cwd=tmp_path
        )

    models = run("models")
    assert models.returncode == 0, models.stderr
    assert "mnist_sfc_95" in models.stdout  # the recipes are in the wheel
    netlist = tmp_path / "net.sbnn"
    save(fold_checkpoint(ROOT / "models/digits.pt").network, netlist)
    info = run("info", "--model", str(netlist), "--json")
    assert info.returncode == 0, info.stderr
    assert json.loads(info.stdout)["ones"] == 1702
    # The test images of digits come with scikit-learn, which is not here either.
    missing = run("eval", "--model", str(netlist), "--data", "digits")
    assert (missing.returncode, missing.stdout) == (3, "")
    root = str(ROOT / "tests/data")
    save(fold_checkpoint(ROOT / "models/mnist_sfc_98.pt").network, netlist)
    result = run("eval", "--model", str(netlist), "--data", "mnist", "--data-root", root, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["images"] == 100
    refused = run("eval", "--model", str(ROOT / "models/digits.pt"), "--data", "digits")
    assert refused.returncode == 3
    assert refused.stderr.startswith("E: Checkpoints and training need PyTorch (pip install")
    train = run("train", "--recipe", "digits", "--out", "a.pt")
    assert train.returncode == 3


@pytest.mark.parametrize("name", ["tests", "bench", "docs", "models"])
def test_only_the_library_is_installed(name):
    assert not any(p.startswith(name) for p in PROJECT["tool"]["setuptools"]["packages"])


def test_shipped_graphs_name_no_machine():
    """Exporters note where their code lies."""
    graphs = sorted((ROOT / "models").glob("*.onnx"))
    assert graphs
    for path in graphs:
        assert b"site-packages" not in path.read_bytes()
        assert b"line " not in path.read_bytes()
