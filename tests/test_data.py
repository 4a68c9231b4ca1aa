"""Data of one's own: read alike from every form, and refused in a sentence where they are broken."""

import gzip
import io
import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from sbnn_hw.data.find import find_data
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import Known, from_arrays, open_own
from sbnn_hw.errors import DataMissing, ModelRejected, SbnnError, UsageError
from sbnn_hw.netlist import Edge, Meaning

Image = pytest.importorskip("PIL.Image")


def pictures(count=40, size=6, seed=0):
    """Return small pictures in grey of two classes, and their names."""
    rng = np.random.default_rng(seed)
    labels = np.array(["cat", "dog"])[np.arange(count) % 2]
    x = rng.integers(0, 256, (count, size, size), np.uint8)
    x[labels == "dog", : size // 2] //= 4
    order = np.argsort(labels, kind="stable")
    return x[order], labels[order]


def write_folder(folder, x, labels):
    for number, (image, label) in enumerate(zip(x, labels, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / label / f"{number:03}.png")
    return folder


def write_csv(path, x, labels, header=True):
    flat = x.reshape(len(x), -1)
    lines = [",".join([*(f"p{n}" for n in range(flat.shape[1])), "animal"])] if header else []
    lines += [",".join([*map(str, row), label]) for row, label in zip(flat, labels, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def same_images(a, b):
    assert a.meaning.classes == b.meaning.classes
    assert a.parts.keys() == b.parts.keys() == {"train", "val", "test"}
    for part, images in a.parts.items():
        assert np.array_equal(images.pixels, b.parts[part].pixels)
        assert np.array_equal(images.labels, b.parts[part].labels)


def test_a_folder_an_archive_a_table_and_arrays_are_the_same_data(tmp_path):
    x, labels = pictures()
    folder = open_own(write_folder(tmp_path / "pets", x, labels))
    assert folder.shape == (6, 6, 1)
    assert folder.bits == 8
    np.savez(tmp_path / "pets.npz", x=x, y=labels)
    same_images(folder, open_own(tmp_path / "pets.npz"))
    csv = write_csv(tmp_path / "pets.csv", x, labels)
    table = open_own(csv, DataOptions(label="animal", size="6x6"))
    same_images(folder, table)
    (tmp_path / "pets.csv.gz").write_bytes(gzip.compress(csv.read_bytes()))
    same_images(table, open_own(tmp_path / "pets.csv.gz", DataOptions(label="37", size="6x6")))
    same_images(folder, from_arrays(x, labels))
    other = open_own(tmp_path / "pets.npz", DataOptions(split_seed=1))
    assert not np.array_equal(other.parts["test"].pixels, folder.parts["test"].pixels)
    assert folder.said == (
        f"{tmp_path / 'pets'}: 40 rows (32 to train, 4 to choose by, 4 to test), 2 classes (cat 20, "
        f"dog 20), images of 6×6×1 with values from {x.min()} to {x.max()}, integers of 8 bits"
    )
    assert "values from 1.5 to 60, integers of 6 bits" in read(tmp_path, TABLE).said


def test_parts_that_data_come_in_are_kept(tmp_path):
    x, labels = pictures()
    for part, chosen in (("train", slice(0, 40, 2)), ("test", slice(1, 40, 2))):
        write_folder(tmp_path / "pets" / part, x[chosen], labels[chosen])
    found = open_own(tmp_path / "pets")
    assert {part: len(images) for part, images in found.parts.items()} == {"train": 20, "test": 20}
    assert found.meaning.source.split == ()


def test_pictures_are_scaled_and_turned_grey(tmp_path):
    x, labels = pictures()
    colour = np.stack([x, x, 255 - x], axis=-1)
    folder = write_folder(tmp_path / "pets", colour, labels)
    assert open_own(folder).shape == (6, 6, 3)
    assert open_own(folder, DataOptions(size="4x5", gray=True)).shape == (4, 5, 1)
    # A palette is colours by number: they are looked up.
    first = next(folder.rglob("*.png"))
    was = np.asarray(Image.open(first))
    Image.open(first).convert("P", palette=Image.Palette.ADAPTIVE).save(first)
    again = np.asarray(Image.open(first).convert("RGB"))
    found = open_own(folder, DataOptions())
    pixels = np.concatenate([images.pixels for images in found.parts.values()])
    assert any(np.array_equal(image, again) for image in pixels)
    assert again.shape == was.shape


TABLE = """age,colour,income,class
30,red,1.5,yes
40,blue,,no
35,red,2.5,yes
?,green,3.5,no
20,blue,4.5,yes
60,red,5.5,no
"""


def read(tmp_path, text, known=None, **options):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_own(path, DataOptions(**{"label": "class", "split": "60/0/40", **options}), known)


def test_columns_are_numbers_or_names_and_may_be_missing(tmp_path):
    many = TABLE + "\n".join(TABLE.splitlines()[1:] * 5)
    found = read(tmp_path, many)
    names = [column.name for column in found.meaning.columns]
    assert names == ["age", "colour=blue", "colour=green", "colour=red", "income"]
    kinds = [column.kind for column in found.meaning.columns]
    assert kinds == ["affine", *["category"] * 3, "steps"]
    assert found.meaning.classes == ("no", "yes")
    # Scaling is known again from the file, and exactly so.
    again = Meaning.from_dict(json.loads(json.dumps(found.meaning.to_dict())))
    assert again == found.meaning
    values = np.array([np.nan, 20.0, 60.0, 61.0, 1e9, -5.0])
    ages = again.columns[0].integers(values, 63)
    assert ages.tolist() == [ages[0], 0, 40, 41, 63, 0]


@pytest.mark.parametrize("bits", [1, 6, 8, 12, 16])
@pytest.mark.parametrize("scaling", ["affine", "quantile"])
def test_scaled_numbers_keep_their_order(bits, scaling):
    rng = np.random.default_rng(bits)
    x = rng.normal(0, 1, (400, 1)) * 10.0 ** rng.integers(-3, 4, (400, 1))
    found = from_arrays(x, np.arange(400) % 2, input_bits=bits, scaling=scaling, split="99/0/1")
    (column,) = found.meaning.columns
    ordered = np.sort(x[:, 0])
    integers = column.integers(ordered, (1 << bits) - 1)
    assert (np.diff(integers) >= 0).all()
    assert integers.min() >= 0
    assert integers.max() == (1 << bits) - 1 or len(column.bounds) == integers.max()
    assert found.parts["train"].pixels.dtype == (np.uint8 if bits <= 8 else np.uint16)


def test_scales_are_learned_on_training_rows_alone():
    x = np.concatenate([np.linspace(0, 1, 80), [100.0] * 20])[:, None]
    y = np.arange(100) % 2
    found = from_arrays(x[:80], y[:80], x[80:], y[80:], scaling="affine", input_bits=8)
    assert found.meaning.columns[0].scale == 255.0
    assert found.parts["test"].pixels.min() == 255


def test_other_columns_and_classes_are_refused(tmp_path):
    many = TABLE + "\n".join(TABLE.splitlines()[1:] * 5)
    own = read(tmp_path, many)
    known = Known(own.meaning, own.shape, own.bits)
    same = read(tmp_path, many, known, split="")
    assert np.array_equal(same.parts["test"].pixels, own.parts["test"].pixels)
    # Other rows than those of the training are all for the test.
    fewer = read(tmp_path, TABLE, known)
    assert {part: len(images) for part, images in fewer.parts.items()} == {"test": 6}
    for text, sentence in (
        (TABLE.replace("income", "money"), "has no column 'income', with which the model was"),
        (TABLE.replace("yes", "maybe"), "row 1 of the test rows has the class 'maybe', which no"),
        (TABLE.replace("red", "3").replace("blue", "4").replace("green", "5"),
         "column 'colour' has none of the names that the model"),
    ):  # fmt: skip
        with pytest.raises(DataMissing, match=sentence):
            read(tmp_path, text, known)
    with pytest.raises(DataMissing, match=r"column 'x', with which the model was not trained"):
        read(tmp_path, TABLE.replace("age,", "x,age,").replace("\n", "\n1,")[:-2], known)


def network_of(own):
    """Return what a network trained on these data says of them."""
    return SimpleNamespace(meaning=own.meaning, input=Edge(own.shape, 0, (1 << own.bits) - 1))


def test_rows_that_a_model_was_trained_on_never_test_it(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), np.arange(200) % 2
    own = from_arrays(x, y, split="50/0/50", split_seed=3)
    network = network_of(own)
    same = from_arrays(x, y, network=network)
    assert np.array_equal(same.load("test").pixels, own.load("test").pixels)
    repeated = from_arrays(x, y, network=network, split="50/0/50", split_seed=3)
    assert np.array_equal(repeated.load("test").pixels, own.load("test").pixels)
    for choices in ({"split": "50/0/50"}, {"split": "80/10/10"}, {"split_seed": 4}):
        with pytest.raises(UsageError, match="trained on, split 50/0/50 by the seed 3; with an"):
            from_arrays(x, y, network=network, **choices)
    # Of other rows all test, however they would be split.
    assert len(from_arrays(x[1:], y[1:], network=network).load("test")) == 199


def test_a_split_that_no_data_have_is_refused_in_a_model():
    meaning = from_arrays(np.eye(20), np.arange(20) % 2).meaning.to_dict()
    for wrong in ({"split": [80, 20]}, {"split": [0, 0, 1]}, {"split": [1, -1, 1]}, {"seed": -1}):
        with pytest.raises(ModelRejected, match="split must"):
            Meaning.from_dict(meaning | {"source": meaning["source"] | wrong})


@pytest.mark.parametrize(
    ("where", "wrong", "sentence"),
    [
        ("source", {"label": 5}, "label must be a text"),
        ("source", {"seed": "x"}, "seed must be an integer"),
        ("source", {"seed": True}, "seed must be an integer"),
        ("source", {"split": [8.0, 1, 1]}, "split must be integers"),
        ("columns", {"name": 3}, "name must be a text"),
        ("columns", {"category": "x" * 501}, "category must be a text of up to 500"),
        ("columns", {"missing": "3"}, "missing must be an integer"),
        ("columns", {"missing": 1.5}, "missing must be an integer"),
        ("columns", {"offset": "0"}, "must be finite"),
        ("columns", {"kind": 5}, "kind must be a text"),
    ],
)
def test_a_field_of_another_type_is_refused_in_a_model(where, wrong, sentence):
    meaning = from_arrays(np.eye(20), np.arange(20) % 2).meaning.to_dict()
    if where == "columns":
        meaning["columns"] = [{**meaning["columns"][0], **wrong}]
    else:
        meaning["source"] = meaning["source"] | wrong
    with pytest.raises(ModelRejected, match=sentence):
        Meaning.from_dict(meaning)


def test_whole_numbers_may_come_without_a_point():
    column = {"name": "a", "offset": 3, "scale": 2, "bounds": [1, 2]}
    (found,) = Meaning.from_dict({"classes": ["a", "b"], "columns": [column]}).columns
    assert (found.offset, found.scale, found.bounds) == (3.0, 2.0, (1.0, 2.0))
    assert all(type(number) is float for number in (found.offset, found.scale, *found.bounds))


@pytest.mark.parametrize("letter", ["\x1b", "\n", "\u2028", "\ud800"])
def test_names_that_cannot_be_shown_are_refused_in_a_model(letter):
    meaning = from_arrays(np.eye(20), np.arange(20) % 2).meaning.to_dict()
    wrong = [{"classes": ["a", f"b{letter}"]}, {"source": {"label": letter}}]
    wrong.append({"columns": [{**meaning["columns"][0], "name": f"x{letter}"}]})
    for each in wrong:
        with pytest.raises(ModelRejected, match=rf"character U\+{ord(letter):04X}, which cannot"):
            Meaning.from_dict(meaning | each)


def test_arrays_are_what_the_model_takes(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(60, 9, 9)), np.arange(60) % 2
    for kind in ("images", "signals", "table"):
        own = from_arrays(x, y, kind=kind)
        same = from_arrays(x, y, network=network_of(own))
        assert same.shape == own.shape
        assert np.array_equal(same.load("test").pixels, own.load("test").pixels)
        np.savez(tmp_path / "x.npz", x=x, y=y)
        known = Known(own.meaning, own.shape, own.bits)
        same = open_own(tmp_path / "x.npz", None, known)
        assert np.array_equal(same.load("test").pixels, own.load("test").pixels)
        with pytest.raises(DataMissing, match=r"but the model takes|has images of 9×8, not 9x9"):
            from_arrays(x[:, :, :8], y, network=network_of(own))


def test_every_column_counts_in_the_digest(tmp_path):
    text = "label,b,class\n" + "".join(f"{n % 5},{n % 3},{n % 2}\n" for n in range(30))
    digests = {read(tmp_path, part).meaning.source.digest
               for part in (text, text.replace("\n4,", "\n9,"), text.replace(",2,", ",7,"))}  # fmt: skip
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("", {}, "is empty; give a table"),
        ("age,class\n", {}, "has a header and no rows"),
        (TABLE.replace("35,red,2.5,yes", "35,red,yes"), {}, "row 4 has 3 cells, but row 1 has 4"),
        (TABLE.replace("35", "abc"), {}, "'age' has 'abc' in data row 3, but numbers elsewhere"),
        (TABLE.replace("2.5", "1e300"), {}, "'income' has '1e300' in data row 3, which is too"),
        (TABLE.replace("2.5", "inf"), {}, "'income' has 'inf' in data row 3, which is too large"),
        (TABLE.replace("2.5,yes", "2.5,"), {}, "data row 3 has no class in column 'class'"),
        (TABLE.replace("no", "yes"), {}, "has only the class 'yes'; a classifier needs two"),
        (TABLE.replace("colour", "age"), {}, "has two columns called 'age'; rename one"),
        (TABLE.replace("age", ""), {}, "column 1 has no name in row 1"),
        (TABLE.replace("age", "\xe9").encode("latin1"), {}, "is not UTF-8 text; save it as UTF-8"),
        (b"\x00\xff\x00", {}, "is not UTF-8 text"),
        (TABLE, {"label": "klass"}, "has no column 'klass'"),
        (TABLE, {"label": ""}, "name its column of classes with --label"),
        (TABLE, {"label": "9"}, "has no column '9'"),
        (TABLE, {"drop": ("age", "colour", "income")}, "has no columns besides 'class'"),
        (TABLE, {"drop": ("class",)}, "cannot be the --label and dropped"),
        (TABLE, {"size": "2x2"}, "does not hold pixels, whole numbers from 0 to 255"),
        (TABLE, {"split": "0/0/100"}, "--split must be TRAIN/VALIDATION/TEST"),
        (TABLE, {"gray": True}, "is a table, for which --gray means nothing"),
        (TABLE.replace("30,red,1.5,yes", f"30,{'x' * 20000},1.5,yes"), {}, "20,000 characters"),
    ],
)  # fmt: skip
def test_broken_tables_are_refused_in_a_sentence(tmp_path, text, options, sentence):
    with pytest.raises(SbnnError, match=sentence) as caught:
        read(tmp_path, text, **options)
    assert "table.csv" in caught.value.sentence or "--split" in caught.value.sentence


def test_a_packed_table_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sbnn_hw.data.tables.MOST_CHARACTERS", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,class\n" + b"1,x\n" * (1 << 20)))
    with pytest.raises(DataMissing, match=r"bomb.csv.gz unpacks to more than"):
        open_own(path, DataOptions(label="class"))


def npz(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def huge_npz():
    """Return an archive of a few bytes that says it holds five gigabytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\0" * 1000)
        archive.infolist()[0].file_size = 5 << 30
    return content.getvalue()


Y = np.arange(8) % 2
LONG = np.arange(40) % 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as .npz"),
        (b"PK\3\4 not really", "cannot be read as .npz"),
        (npz(x=np.array([{}], object), y=Y[:1]), "holds Python objects, which are not read"),
        (npz(a=Y), "must hold x_train, y_train, x_test and y_test, or x and y; it has a"),
        (npz(x=np.zeros((8, 3))), "has x, but no y; add the labels"),
        (npz(x=np.zeros((8, 3)), y=Y[:5]), "x has 8 rows, but there are 5 labels"),
        (npz(x=np.zeros((8, 3)), y=np.eye(8)), "must have one label for each row"),
        (npz(x=np.zeros((8, 3)), y=Y + 0.5), "has 0.5 in row 1, but labels must be whole"),
        (npz(x=np.full((8, 3), np.inf), y=Y), "has inf in row 1, which is too large to be scaled"),
        (npz(x=np.full((40, 3), np.nan), y=LONG), "column 'x0' has no number in the training rows"),
        (npz(x=np.array(["a"] * 8), y=Y), "must be numbers, not <U1"),
        (npz(x=np.zeros((8, 3, 9, 9), np.uint8), y=Y), "with channels in front"),
        (npz(x=np.zeros(8), y=Y), "has shape"),
        (npz(x_test=np.zeros((8, 3)), y_test=Y), "must hold x_train"),
        (npz(x_train=np.zeros((8, 3)), y_train=Y, x_test=np.zeros((2, 3)), y_test=Y[:2] + 7),
         "row 1 of the test rows has the class '7', which no training row has"),
        (huge_npz(), "unpacks to 5,368,709,120 bytes"),
    ],
)  # fmt: skip
def test_broken_archives_are_refused_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(DataMissing, match=sentence):
        open_own(path)


def _empty_class(folder):
    (folder / "emu").mkdir()


def _animated(folder):
    frames = [Image.new("RGB", (6, 6), (90 * n, 0, 255 - 90 * n)) for n in range(3)]
    frames[0].save(folder / "cat" / "a.gif", save_all=True, append_images=frames[1:])


def _sixteen(folder):
    Image.fromarray(np.zeros((6, 6), np.uint16)).save(folder / "cat" / "a.png")


def _link(folder):
    outside = folder.parent / "outside.png"
    Image.new("L", (6, 6)).save(outside)
    (folder / "cat" / "a.png").symlink_to(outside)


def _other_size(folder):
    Image.new("L", (7, 6)).save(folder / "cat" / "a.png")


def _not_a_picture(folder):
    (folder / "cat" / "a.png").write_bytes(b"not a picture")


def _cut_short(folder):
    noise = np.random.default_rng(0).integers(0, 256, (6, 6), np.uint8)
    content = io.BytesIO()
    Image.fromarray(noise).save(content, "png")
    (folder / "cat" / "a.png").write_bytes(content.getvalue()[:60])


def _bomb(folder):
    Image.new("1", (20_000, 20_000)).save(folder / "cat" / "a.png")


def _one_class(folder):
    for path in (folder / "dog").iterdir():
        path.unlink()
    (folder / "dog").rmdir()


def _mixed(folder):
    (folder / "train").mkdir()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_empty_class, r"emu has no pictures"),
        (_animated, r"a.gif has several pictures in it"),
        (_sixteen, r"a.png has more than 8 bits per channel"),
        (_link, r"a.png is a link to a place outside"),
        (_other_size, r"has pictures of several sizes"),
        (_not_a_picture, r"a.png cannot be read as a picture"),
        (_cut_short, r"a.png cannot be read as a picture"),
        (_bomb, r"a.png has too many pixels; scale it down"),
        (_one_class, r"has only the class 'cat'"),
        (_mixed, r"has train/ and also cat/"),
    ],
)
def test_broken_folders_are_refused_in_a_sentence(tmp_path, spoil, sentence):
    folder = write_folder(tmp_path / "pets", *pictures(8))
    spoil(folder)
    with pytest.raises(DataMissing, match=sentence):
        open_own(folder)


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(DataMissing, match="There is no table at"):
        find_data(str(tmp_path / "nowhere.csv"))
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UsageError, match=r"must be a folder of pictures, an .npz file or a table"):
        find_data(str(tmp_path / "notes.txt"))
    with pytest.raises(UsageError, match="did you mean letter"):
        find_data("leter")
    with pytest.raises(UsageError, match="known data set, for which --label means nothing"):
        find_data("mnist", DataOptions(label="y"))


def test_parquet_is_read_like_text(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    many = TABLE + "\n".join(TABLE.splitlines()[1:] * 5)
    rows = [line.split(",") for line in many.splitlines()]
    columns = list(zip(*rows[1:], strict=True))
    numbers = [[None if v in ("", "?") else float(v) for v in columns[n]] for n in (0, 2)]
    table = arrow.table(
        {"age": numbers[0], "colour": columns[1], "income": numbers[1], "class": columns[3]}
    )
    parquet.write_table(table, tmp_path / "table.parquet")
    text = read(tmp_path, many, split="60/20/20")
    same_images(text, open_own(tmp_path / "table.parquet",
                               DataOptions(label="class", split="60/20/20")))  # fmt: skip
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataMissing, match=r"bad.parquet is not a Parquet table"):
        open_own(tmp_path / "bad.parquet", DataOptions(label="class"))


def test_a_signal_is_one_row_high():
    x = np.random.default_rng(0).normal(size=(30, 24, 3))
    found = from_arrays(x, np.arange(30) % 3)
    assert (found.meaning.kind, found.shape) == ("signals", (1, 24, 3))
    assert Known.of(found.meaning, Edge((1, 24, 3), 0, 63)).bits == 6


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_pictures_of_any_mode_are_read(tmp_path, mode):
    """Black and white squares are black and white, whatever form they have."""
    ending = {"CMYK": "tif", "YCbCr": "jpg"}.get(mode, "png")
    for number in range(20):
        label = ("black", "white")[number % 2]
        image = Image.new("RGB", (9 + number % 3, 8), label).convert(mode)
        (tmp_path / label).mkdir(exist_ok=True)
        image.save(tmp_path / label / f"{number}.{ending}")
    grey = mode in ("1", "L", "LA")
    found = open_own(tmp_path, DataOptions(size="5x6"))
    assert found.shape == (5, 6, 1 if grey else 3)
    for images in found.parts.values():
        want = np.array([0, 255])[images.labels]
        assert (np.abs(images.pixels.astype(int) - want[:, None, None, None]) <= 1).all()
    assert open_own(tmp_path, DataOptions(size="5x6", gray=True)).shape == (5, 6, 1)


def test_what_can_be_seen_through_is_on_white(tmp_path):
    for number in range(20):
        label = ("hole", "ink")[number % 2]
        (tmp_path / label).mkdir(exist_ok=True)
        colour = (0, 0, 0, 255 if label == "ink" else 0)
        Image.new("RGBA", (4, 4), colour).save(tmp_path / label / f"{number}.png")
    found = open_own(tmp_path, DataOptions(gray=True)).parts["train"]
    assert (found.pixels[found.labels == 0] == 255).all()
    assert (found.pixels[found.labels == 1] == 0).all()


def test_archives_have_all_forms(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    path = tmp_path / "data.npz"

    def opened(x, **options):
        np.savez(path, x=x, y=y)
        return open_own(path, DataOptions(**options))

    bytes_ = rng.integers(0, 256, (60, 4, 5, 3), np.uint8)
    assert opened(bytes_).shape == (4, 5, 3)
    # A picture of numbers between 0 and 1 is the picture of its bytes.
    bytes_[:, 0, 0], bytes_[:, 0, 1] = 0, 255
    same_images(opened(bytes_), opened(bytes_ / 255))
    same_images(
        opened(bytes_[..., 0]), opened((bytes_[..., 0] / 255).astype(np.float32)[..., None])
    )
    vectors, windows = rng.normal(size=(60, 7)), rng.normal(size=(60, 7, 2))
    for x, options, kind, shape in (
        (vectors, {}, "table", (1, 1, 7)),
        (vectors > 0, {}, "table", (1, 1, 7)),
        (vectors, {"kind": "signals"}, "signals", (1, 7, 1)),
        (windows, {}, "signals", (1, 7, 2)),
        (windows, {"kind": "images"}, "images", (7, 2, 1)),
        (windows, {"kind": "table"}, "table", (1, 1, 14)),
        (bytes_[..., 0], {"kind": "signals"}, "signals", (1, 4, 5)),
        (bytes_[..., 0].reshape(60, -1), {"size": "4x5"}, "images", (4, 5, 1)),
    ):
        found = opened(x, **options)
        assert (found.meaning.kind, found.shape) == (kind, shape)
    with pytest.raises(DataMissing, match=r"has images of 4×5, not 8x8; arrays are not scaled"):
        opened(bytes_, size="8x8")
    np.savez(path, x_train=vectors[:30], y_train=y[:30], x_val=vectors[30:40], y_val=y[30:40],
             x_test=vectors[40:], y_test=y[40:], notes=np.array({}, object))  # fmt: skip
    parts = open_own(path).parts
    assert {part: len(images) for part, images in parts.items()} == {
        "train": 30, "val": 10, "test": 20,
    }  # fmt: skip
    names = np.array(["a", "b", "c"])[y]
    assert from_arrays(vectors, names.astype(object)).meaning.classes == ("a", "b", "c")


def test_tables_have_all_forms(tmp_path):
    many = TABLE + "\n".join(TABLE.splitlines()[1:] * 5) + "\n"
    want = read(tmp_path, many, split="60/20/20")
    same = {
        "tabs.tsv": many.replace(",", "\t"),
        "semicolons.csv": many.replace(",", ";"),
        "mark.csv": "\ufeff" + many,
        "windows.csv": many.replace("\n", "\r\n"),
        "quoted.csv": many.replace("red", '"red"').replace("30,", '"30",'),
        "gaps.csv": many.replace("\n", "\n\n"),
        "words.csv": many.replace("?", "NA").replace("40,blue,,", "40,blue,n/a,"),
    }
    for name, text in same.items():
        (tmp_path / name).write_text(text, newline="")
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            if path.suffix == ".gz":
                path.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
            found = open_own(path, DataOptions(label="class", split="60/20/20"))
            assert found.meaning.columns == want.meaning.columns
            same_images(found, want)
    # Without names, columns have numbers; a header of numbers is known by the label.
    plain = read(tmp_path, many.split("\n", 1)[1], split="60/20/20", label="4")
    assert [c.source for c in plain.meaning.columns][::4] == ["c1", "c3"]
    same_images(plain, want)
    numbered = read(tmp_path, many.replace("age,colour,income", "0,1,2"), split="60/20/20")
    same_images(numbered, want)
    # Evaluating needs no option again: names and header are known from the model.
    named = read(tmp_path, many.replace("red", "1").replace("blue", "2").replace("green", "3"),
                 categorical=("colour",), split="60/20/20")  # fmt: skip
    known = Known(named.meaning, named.shape, named.bits)
    text = (tmp_path / "table.csv").read_text()
    same_images(read(tmp_path, text, known, split="", label=""), named)


def test_a_class_may_be_called_none(tmp_path):
    many = TABLE + "\n".join(TABLE.splitlines()[1:] * 5) + "\n"
    assert read(tmp_path, many.replace("no", "none")).meaning.classes == ("none", "yes")


def test_the_name_of_a_data_set_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "digits", *pictures())
    assert find_data("digits").shape == (8, 8, 1)
    assert find_data("./digits").shape == (6, 6, 1)


def test_columns_too_close_for_a_scale_are_parted(tmp_path):
    x = np.where(np.arange(40) % 2, 5e-324, 0.0)[:, None]
    found = from_arrays(x, np.arange(40) % 2, scaling="affine")
    assert found.meaning.columns[0].integers(np.array([0.0, 5e-324]), 63).tolist() == [0, 1]
