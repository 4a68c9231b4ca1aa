"""What is exported with a design makes of raw values the very integers that the network was given."""

import csv
import ctypes
import importlib.util
import json
import math

import numpy as np
import pytest
from c_driver import C99, STRICT, compile_c
from random_networks import random_scores

from sbnn_hw.data import input_format
from sbnn_hw.data.input_format import FILES, describe_input, input_files
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import from_arrays, open_own
from sbnn_hw.data.scaling import apply_columns
from sbnn_hw.netlist import Column, Edge, Encode, Flatten, Meaning, Network, Stage


def network(meaning, shape, bits, classes):
    """Return some network of this input that has these names."""
    edge = Edge.of_bits(shape, bits, scan="raster")
    encoder, flatten = Encode(np.ones((shape[-1], 1), int)), Flatten()
    vector = flatten.infer(encoder.infer(edge))
    scores = random_scores(np.random.default_rng(0), vector, classes)
    stages = [Stage(op.kind, op, (n - 1,)) for n, op in enumerate((encoder, flatten, scores))]
    return Network(edge, tuple(stages), meaning)


class Exported:
    """The exported Python and C, called from here."""

    def __init__(self, folder, net):
        for name, text in input_files(net).items():
            (folder / name).write_text(text)
        spec = importlib.util.spec_from_file_location("exported", folder / "input_format.py")
        self.python = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.python)
        self.form = self.python.load(folder / "input_format.json")
        source = folder / "input_format.c"
        compile_c(folder / "cpp.o", "-x", "c++", *STRICT, "-c", source)
        shared = ("-O2", "-shared", "-fPIC", source)
        self.c = ctypes.CDLL(compile_c(folder / "input.so", *C99, "-Wconversion", *shared))
        self.size = math.prod(net.input.shape)
        self.type = ctypes.c_uint8 if net.input.bits <= 8 else ctypes.c_uint16

    def by_python(self, row):
        return self.python.integers(row, self.form)

    def by_c(self, row):
        rules = [column["rule"] for column in self.form["columns"]] * self.form["positions"]
        numbers = [x for x, rule in zip(row, rules, strict=True) if rule != "names"]
        names = [x for x, rule in zip(row, rules, strict=True) if rule == "names"]
        made = (self.type * self.size)()
        texts = [None if name is None else name.encode() for name in names]
        self.c.sbnn_input_integers((ctypes.c_double * max(1, len(numbers)))(*numbers),
                                   (ctypes.c_char_p * max(1, len(names)))(*texts), made)  # fmt: skip
        return list(made)

    def classes(self):
        count = len(self.form["classes"])
        texts = (ctypes.c_char_p * count).in_dll(self.c, "sbnn_input_classes")
        return [text.decode() for text in texts]


#: Values at which rounding, comparing and cutting off could go wrong.
ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1e30, 0.5, 1.5]


def around(values):
    """Return values and their neighbours among doubles."""
    values = np.asarray(values, float)
    return np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])


def borders(column, most):
    """Return values at which a column's integer changes, and those beside them."""
    if column.kind == "steps":
        return around(column.bounds)
    steps = np.unique(np.linspace(-1, most + 1, 60).astype(int))
    halves = (steps + 0.5) / column.scale + column.offset
    return around(np.concatenate([halves, steps / column.scale + column.offset]))


@pytest.mark.parametrize(
    ("bits", "scaling", "seed"),
    [(1, "affine", 0), (1, "quantile", 1), (4, "affine", 2), (6, "auto", 3), (8, "affine", 4),
     (11, "quantile", 5), (13, "affine", 6), (16, "affine", 7), (16, "quantile", 8)],
)  # fmt: skip
def test_numbers_become_the_same_integers_everywhere(tmp_path, bits, scaling, seed):
    rng = np.random.default_rng(seed)
    count = 1 + seed % 3
    x = rng.normal(0, 1, (300, count)) * 10.0 ** rng.integers(-9, 9, count)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[::7] = np.round(x[::7])
    own = from_arrays(x, np.arange(300) % 3, input_bits=bits, scaling=scaling)
    columns, most = own.meaning.columns, (1 << bits) - 1
    made = Exported(tmp_path, network(own.meaning, own.shape, bits, 3))
    assert tuple(made.form["shape"]) == own.shape
    cases = [
        np.concatenate([borders(column, most)[:400], ODD, rng.normal(0, 3, 100) / column.scale])
        for column in columns
    ]
    long = max(map(len, cases))
    table = np.stack([np.resize(case, long) for case in cases], axis=1)
    want = np.stack([c.integers(table[:, n], most) for n, c in enumerate(columns)], axis=1)
    assert len(np.unique(want)) > min(most, 20)
    for row, integers in zip(table.tolist(), want.tolist(), strict=True):
        assert made.by_python(row) == integers, row
        assert made.by_c(row) == integers, row


ODD_NAMES = [
    "*/ int x",
    'a"b',
    "back\\slash",
    "??/",
    "%s%n",
    "Grün",
    "日本",
    "#include",
    "</script>",
]


def test_names_and_missing_values_become_the_same_integers_everywhere(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "things.csv"
    rows = [[str(rng.integers(0, 40)), rng.choice(ODD_NAMES), f"{rng.normal():.4f}",
             rng.choice(["?", "NA", "x", "y z"]), ODD_NAMES[n % 3]] for n in range(200)]  # fmt: skip
    rows[3][0], rows[4][2] = "", " nan "
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["age", "odd name*/", "size", "b?", "class"], *rows])
    own = open_own(path, DataOptions(label="class"))
    net = network(own.meaning, own.shape, own.bits, 3)
    made = Exported(tmp_path, net)
    assert made.classes() == made.form["classes"] == sorted(ODD_NAMES[:3])
    assert [c["name"] for c in made.form["columns"]] == ["age", "odd name*/", "size", "b?"]
    names = {"age": [], "odd name*/": [], "size": [], "b?": []}
    got = []
    for row in rows:
        got.append(made.by_python(row[:-1]))
        age, odd, size, b = row[:-1]
        b = None if b in ("?", "NA") else b
        by_c = made.by_c([float(age or "nan"), odd, float(size), b])
        assert by_c == got[-1], row
        for name, cell in zip(names, (float(age or "nan"), odd, float(size), b or ""), strict=True):
            names[name].append(cell)
    table = type("Table", (), {"values": None, "__len__": lambda _: len(rows)})()
    table.columns = {name: np.array(cells) for name, cells in names.items()}
    want = apply_columns(table, own.meaning.columns, own.bits)
    assert np.array_equal(want.reshape(len(rows), -1), got)
    with pytest.raises(ValueError, match="a row must have 4 cells, not 3"):
        made.by_python(rows[0][:3])


def test_signals_and_pictures_are_given_position_by_position(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 5, 2))
    own = from_arrays(x, np.arange(60) % 2, input_bits=7)
    made = Exported(tmp_path, network(own.meaning, own.shape, 7, 2))
    assert made.form["positions"] == 5
    pixels = np.concatenate([images.pixels for images in own.parts.values()]).reshape(60, -1)
    rows = {tuple(made.by_c(row)) for row in x.reshape(60, -1).tolist()}
    assert rows == {tuple(made.by_python(row)) for row in x.reshape(60, -1).tolist()}
    assert rows == set(map(tuple, pixels.tolist()))


def test_a_network_that_says_nothing_takes_values_as_they_are(tmp_path):
    made = Exported(tmp_path, network(None, (2, 3, 1), 8, 4))
    assert made.by_c([0, 1, 127, 128, 254, 255]) == [0, 1, 127, 128, 254, 255]
    assert made.by_python([0, 1, 127, 128, 254, 255]) == [0, 1, 127, 128, 254, 255]
    assert made.classes() == ["0", "1", "2", "3"]


def test_a_planted_fault_is_found(tmp_path):
    column = Column("a", offset=0.1, scale=3.0)
    meaning = Meaning(("no", "yes"), "table", (column,))
    values = borders(column, 15)
    want = column.integers(values, 15).tolist()
    made = Exported(tmp_path, network(meaning, (1, 1, 1), 4, 2))
    assert [made.by_python([value])[0] for value in values.tolist()] == want
    made.form["columns"][0]["scale"] = np.nextafter(3.0, 4.0)
    assert [made.by_python([value])[0] for value in values.tolist()] != want


@pytest.mark.parametrize(
    ("right", "wrong"), [("<= x", "< x"), ("v + 0.5", "v + 0.499999999"), ("x == x", "1")]
)
def test_a_planted_fault_in_c_is_found(tmp_path, monkeypatch, right, wrong):
    columns = (Column("a", offset=0.1, scale=3.0, missing=5),
               Column("b", "steps", bounds=(-1.0, 0.3, 2.0), missing=1))  # fmt: skip
    net = network(Meaning(("no", "yes"), "table", columns), (1, 1, 2), 4, 2)
    rows = [[a, b] for a in (*borders(columns[0], 15), math.nan) for b in (0.3, math.nan)]
    rows = [[float(a), float(b)] for a, b in rows]
    want = [[int(c.integers(np.array([x]), 15)[0]) for c, x in zip(columns, row, strict=True)]
            for row in rows]  # fmt: skip
    (tmp_path / "right").mkdir()
    made = Exported(tmp_path / "right", net)
    assert [made.by_c(row) for row in rows] == want
    text = input_format._SOURCE
    assert right in text
    monkeypatch.setattr(input_format, "_SOURCE", text.replace(right, wrong))
    made = Exported(tmp_path, net)
    assert [made.by_c(row) for row in rows] != want


def test_the_file_says_what_it_is():
    column = Column("a", "steps", bounds=(0.25, 0.5), missing=1)
    names = [Column(f"b={text}", "category", category=text) for text in ("x", "y")]
    net = network(Meaning(("no", "yes"), "table", (column, *names)), (1, 1, 3), 2, 2)
    form = describe_input(net)
    assert json.loads(input_files(net)[FILES[0]]) == form
    assert form["columns"] == [
        {"name": "a", "rule": "steps", "bounds": [0.25, 0.5], "missing": 1},
        {"name": "b", "rule": "names", "names": ["x", "y"]},
    ]
    assert (form["bits"], form["positions"], form["network"]) == (2, 1, net.digest)
