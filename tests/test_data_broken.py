"""Broken data: each is refused in one sentence that says where, nothing runs, memory is bounded."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from conftest import ROOT
from test_data import TABLE, npz, pictures, write_folder

Image = pytest.importorskip("PIL.Image")

#: Each makes something broken at a place, and says what is said of it. ``{}`` is the place.
CASES = {}


def case(sentence, ending="", **options):
    def enter(make):
        CASES[make.__name__] = (make, sentence, ending, options)
        return make

    return enter


def table(sentence, ending=".csv", **options):
    return case(sentence, ending, **{"label": "class", **options})


# Folders of pictures


def folder(place, spoil=None, **more):
    write_folder(place, *pictures(8))
    for path, content in more.items():
        (place / "cat" / path.replace("_", ".")).write_bytes(content)
    return place


def png(*chunks, size=(6, 6), depth=8, colour=0):
    """Return a PNG of chunks, the first of which is made here."""
    head = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0)
    text = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", head), *chunks, (b"IEND", b"")):
        check = zlib.crc32(kind + content)
        text += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
    return text


@case("{}/emu has no pictures (.png, .jpg, .jpeg, .bmp, .gif, .ppm, .pgm, .tif, .tiff, .webp); add "
      "some, or remove it")  # fmt: skip
def empty_class(place):
    (folder(place) / "emu").mkdir()


@case("{} has only the class 'cat'; a classifier needs two")
def one_class(place):
    x, labels = pictures(8)
    write_folder(place, x[labels == "cat"], labels[labels == "cat"])


@case("{} has no folders; put its pictures into one for each class")
def no_folders(place):
    place.mkdir()


@case("{}: test/emu/000.png of the test rows has the class 'emu', which no training row has; mend "
      "it, or remove it")  # fmt: skip
def class_of_the_test_alone(place):
    x, labels = pictures(8)
    write_folder(place / "train", x, labels)
    write_folder(place / "test", x[:1], ["emu"])


@case("{} has no test rows; add a part called test")
def no_test(place):
    x, labels = pictures(8)
    write_folder(place / "train", x, labels)
    write_folder(place / "val", x, labels)


@case("{}/cat/a.png has too many pixels; scale it down")
def bomb(place):
    rows = zlib.compress(b"\0" * 100_000, 9)
    folder(place, a_png=png((b"IDAT", rows), size=(60_000, 60_000), depth=1))


@case("{}/cat/a.png has 12000×12000 pixels; scale it down")
def smaller_bomb(place):
    Image.new("1", (12_000, 12_000)).save(folder(place) / "cat/a.png")


@case("{}/cat/a.png cannot be read as a picture; save it again")
def bomb_in_a_text(place):
    packed = b"note\0\0" + zlib.compress(b"x" * (64 << 20), 9)
    pixels = zlib.compress(b"\0" * 42)
    folder(place, a_png=png((b"zTXt", packed), (b"IDAT", pixels)))


@case("{}/cat/a.gif has several pictures in it (an animation?); save one of them")
def animated(place):
    frames = [Image.new("RGB", (6, 6), (90 * n, 0, 255 - 90 * n)) for n in range(3)]
    frames[0].save(folder(place) / "cat/a.gif", save_all=True, append_images=frames[1:])


WIDE = (
    "has more than 8 bits per channel; save it with 8 bits, since it is not known how to scale it"
)


@case(f"{{}}/cat/a.png {WIDE}")
def sixteen_bits(place):
    Image.fromarray(np.zeros((6, 6), np.uint16)).save(folder(place) / "cat/a.png")


@case(f"{{}}/cat/a.png {WIDE}")
def sixteen_bits_in_colour(place):
    rows = zlib.compress((b"\0" + b"\x12\x34" * 18) * 6)
    folder(place, a_png=png((b"IDAT", rows), depth=16, colour=2))


@case("{}/cat/a.png is a link to a place outside of {}; copy it instead")
def link(place):
    outside = place.parent / "outside.png"
    Image.new("L", (6, 6)).save(outside)
    (folder(place) / "cat/a.png").symlink_to(outside)


@case("{}/emu/a.png is a link to a place outside of {}; copy it instead")
def link_of_a_class(place):
    outside = place.parent / "elsewhere"
    outside.mkdir()
    Image.new("L", (6, 6)).save(outside / "a.png")
    (folder(place) / "emu").symlink_to(outside)


@case("{}/cat/a.png cannot be read as a picture; save it again")
def link_in_a_circle(place):
    (folder(place) / "cat/a.png").symlink_to("a.png")


@case("{}/cat/a.png cannot be read as a picture; save it again")
def pipe(place):
    os.mkfifo(folder(place) / "cat/a.png")


@case("{}/cat/a.png cannot be read as a picture; save it again")
def postscript(place):
    """Pillow would hand it to Ghostscript."""
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\n(id) run\n%%EOF\n"
    folder(place, a_png=text)


@case("{}/cat/a.png cannot be read as a picture; save it again")
def cut_short(place):
    noise = np.random.default_rng(0).integers(0, 256, (6, 6), np.uint8)
    content = io.BytesIO()
    Image.fromarray(noise).save(content, "png")
    folder(place, a_png=content.getvalue()[:60])


@case("{}/a b has the character U+000A, which cannot be shown; rename it")
def class_with_a_line_break(place):
    write_folder(place, pictures(8)[0], ["a\nb", "c"] * 4)


@case("{}/\udcff has the character U+DCFF, which cannot be shown; rename it")
def class_that_is_no_text(place):
    write_folder(place, pictures(8)[0], [os.fsdecode(b"\xff"), "c"] * 4)


@case("{} has no folders; put its pictures into one for each class", ".csv")
def folder_called_csv(place):
    place.mkdir()


@case("{} has pictures of several sizes ({}/cat/000.png is 6×6, {}/cat/a.png 6×7); give the size "
      "that the network takes, such as --size 32x32")  # fmt: skip
def several_sizes(place):
    Image.new("L", (7, 6)).save(folder(place) / "cat/a.png")


# Tables


def written(content):
    def make(place):
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def entered(name, sentence, content, ending=".csv", **options):
    make = written(content)
    make.__name__ = name
    table(sentence, ending, **options)(make)


def packed(content):
    return gzip.compress(content if isinstance(content, bytes) else content.encode(), 1)


for arguments in (
    ("ragged", "{}: row 4 has 3 cells, but row 1 has 4; mend it",
     TABLE.replace("35,red,2.5,yes", "35,red,yes")),
    ("text_among_numbers", ("{}: column 'age' has 'abc' in data row 3, but numbers elsewhere; mend "
     "it, or say that they are names with --categorical age"), TABLE.replace("35", "abc")),
    ("text_before_numbers", ("{}: column 'age' has 'abc' in data row 1, but numbers elsewhere; mend "
     "it, or say that they are names with --categorical age"), TABLE.replace("30,", "abc,")),
    ("huge_number", ("{}: column 'income' has '1e300' in data row 3, which is too large to be "
     "scaled; mend it"), TABLE.replace("2.5", "1e300")),
    ("infinity", ("{}: column 'income' has '-inf' in data row 3, which is too large to be scaled; "
     "mend it"), TABLE.replace("2.5", "-inf")),
    ("no_numbers", "{}: column 'income' is empty; leave it out with --drop income",
     "\n".join(",".join([*line.split(",")[:2], "NaN" if n else "income", line.split(",")[3]])
               for n, line in enumerate(TABLE.splitlines()))),
    ("no_class", "{}: data row 3 has no class in column 'class'; mend it",
     TABLE.replace("2.5,yes", "2.5,nan")),
    ("class_of_one", "{} has only the class 'yes'; a classifier needs two",
     TABLE.replace("no", "yes")),
    ("regression", "{}: column 'class' has 0.5 in row 1, but labels must be whole numbers or names",
     TABLE.replace("yes", "0.5").replace("no", "1.5")),
    ("huge_class", "{}: column 'class' has 1e+300, which is no class",
     TABLE.replace("yes", "1e300").replace("no", "1")),
    ("too_many_classes", ("{} has 1,800 different labels in 1,800 rows, which are no "
     "classes; name another column of classes, or give fewer"),
     "a,class\n" + "".join(f"{n % 7},n{n}\n" for n in range(1800))),
    ("doubled_column", "{} has two columns called 'age'; rename one", TABLE.replace("colour", "age")),
    ("unnamed_column", "{}: column 1 has no name in row 1; give it one", TABLE.replace("age", "")),
    ("not_utf8", "{} is not UTF-8 text; save it as UTF-8",
     TABLE.replace("age", "\xe9").encode("latin1")),
    ("utf16", "{} is not UTF-8 text; save it as UTF-8", TABLE.encode("utf-16")),
    ("nul", ("{}: column 'colour' in data row 3 has the character U+0000, which cannot be shown; "
     "rename it"), TABLE.replace("35,red", "35,r\0d")),
    ("nul_in_a_number", ("{}: column 'age' has '3\\x005' in data row 3, but numbers elsewhere; mend "
     "it, or say that they are names with --categorical age"), TABLE.replace("35,", "3\x005,")),
    ("nul_in_the_header", ("{}: the name of column 1 has the character U+0000, which cannot be "
     "shown; rename it"), TABLE.replace("age", "a\0e")),
    ("long_cell", ("{}: column 'colour' has 20,000 characters in data row 1; leave it out with "
     "--drop colour"), TABLE.replace("30,red", f"30,{'x' * 20_000}")),
    ("huge_field", "{}: row 2 cannot be read (field larger than field limit (131072)); mend it",
     TABLE.replace("30,red", f"30,{'x' * 5_000_000}")),
    ("open_quote", "{}: row 2 cannot be read (unexpected end of data); mend it",
     TABLE.replace("30,red", '30,"red')),
    ("million_columns", "{} has 1,000,000 columns; give 4,096 at most",
     ",".join(f"c{n % 100_000}" for n in range(1_000_000)) + "\n"),
    ("endless_row", "{}: row 2 has more than 8,388,608 characters; give fewer columns",
     b"a,class\n" + b"1," * 5_000_000),
    ("many_names", "{}: column 'a' has more than 65,536 different names; leave it out with --drop a",
     "a,class\n" + "".join(f"n{n},{n % 2}\n" for n in range(70_000))),
    ("names_beyond_what_pays", ("{}: column 'a' has 1,600 different names, more than 256; leave it "
     "out with --drop a"), "a,class\n" + "".join(f"n{n},{n % 2}\n" for n in range(2000))),
    ("empty", "{} is empty; give a table with a row for each sample", ""),
    ("header_alone", "{} has a header and no rows; give a row for each sample", "age,class\n"),
    ("no_such_label", ("{} has no column 'klass' (--label) (did you mean class?); it has age, "
     "colour, income, class"), TABLE, ".csv", {"label": "klass"}),
    ("cut_short_gz", ("Cannot read {} (Compressed file ended before the end-of-stream marker was "
     "reached); save it again"), packed(TABLE * 50)[:-20], ".csv.gz"),
    ("no_gz", "Cannot read {} (Not a gzipped file (b'ag')); save it again", TABLE, ".csv.gz"),
    ("gz_bomb", "{}: row 1 has more than 8,388,608 characters; give fewer columns",
     packed(b"0" * (64 << 20)), ".csv.gz"),
):  # fmt: skip
    name, sentence, content, *rest = arguments
    ending, options = (*rest, *(".csv", {})[len(rest) :])[:2]
    entered(name, sentence, content, ending, **options)


# Archives


def archive(name, sentence, content, **options):
    entered(name, sentence, content, ".npz", **{"label": "", **options})


def lying_npz(shape, size):
    """Return an archive whose array says that it has a shape."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    array = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + b"\0" * size
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", array)
        file.writestr("y.npy", npz(y=np.zeros(3))[:0])
    return content.getvalue()


def claiming_npz():
    """Return an archive of a few bytes that says it holds five gigabytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", b"\0" * 1000)
        file.infolist()[0].file_size = 5 << 30
    return content.getvalue()


Y = np.arange(8) % 2
DAMAGED = "{} cannot be read as .npz (it is damaged); save plain arrays with numpy.savez"
archive("no_zip", DAMAGED, b"PK\3\4 not really")
archive("objects", "{} cannot be read as .npz (it holds Python objects, which are not read); save "
        "plain arrays with numpy.savez", npz(x=np.array([{}], object), y=Y[:1]))  # fmt: skip
archive("object_labels", "{} cannot be read as .npz (it holds Python objects, which are not read); "
        "save plain arrays with numpy.savez", npz(x=np.zeros((2, 2)),
        y=np.array([print, {}], object)))  # fmt: skip
archive("npz_bomb", "{} unpacks to 5,368,709,120 bytes; give fewer rows", claiming_npz())
archive("claims_a_terabyte", "{} claims arrays that are larger than the memory",
        lying_npz((1 << 20, 1 << 20), 1000))  # fmt: skip
archive("claims_more_than_it_has", DAMAGED, lying_npz((1000, 1000), 1000))
archive("odd_text_of_an_array", DAMAGED, lying_npz("__import__('os').system('id')", 10))
archive("one_value", "{}: x has shape (), but rows must be vectors, windows (length, channels) or "
        "images (height, width, channels)", npz(x=np.float64(3), y=Y))  # fmt: skip
archive("far", "{}: x has 1e+300 in row 2, which is too large to be scaled; mend it",
        npz(x=np.where(np.arange(16).reshape(8, 2) == 3, 1e300, 0), y=Y))  # fmt: skip
archive("nan_alone", "{}: column 'x1' has no number in the training rows; leave it out with --drop "
        "x1", npz(x=np.where(np.arange(80).reshape(40, 2) % 2, np.nan, 1), y=np.arange(40) % 2))  # fmt: skip
archive("class_of_the_test", "{}: row 1 of the test rows has the class '7', which no training row "
        "has; mend it, or remove it", npz(x_train=np.zeros((8, 3)), y_train=Y,
        x_test=np.zeros((2, 3)), y_test=Y[:2] + 7))  # fmt: skip
archive("no_labels", "{} has x, but no y; add the labels", npz(x=np.zeros((8, 3))))
archive("label_with_a_bell", "{}: y: the class 'a\\x07' has the character U+0007, which cannot be "
        "shown; rename it", npz(x=np.zeros((8, 3)), y=np.array(["a\a", "b"] * 4)))  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a process with little memory says of each."""
    root = tmp_path_factory.mktemp("broken")
    places = {name: root / f"{name}{ending}" for name, (_, _, ending, _) in CASES.items()}
    for name, (make, *_) in CASES.items():
        make(places[name])
    asked = [(str(places[name]), options) for name, (*_, options) in CASES.items()]
    done = subprocess.run(
        [sys.executable, ROOT / "tests/broken_reader.py"], input=json.dumps(asked), text=True,
        capture_output=True, check=True, timeout=120, cwd=root,
    )  # fmt: skip
    found = json.loads(done.stdout)
    found["said"] = dict(zip(CASES, found["said"], strict=True))
    found["places"] = places
    return found


@pytest.mark.parametrize("name", CASES)
def test_each_is_refused_in_one_sentence(answers, name):
    sentence = CASES[name][1]
    place = str(answers["places"][name])
    assert answers["said"][name] == sentence.replace("{}", place)


def test_nothing_runs_and_memory_is_bounded(answers):
    assert answers["ran"] == []
    # All of them together, one of them after the other.
    assert answers["megabytes"] < 400


def test_what_only_looks_odd_is_read(tmp_path):
    """Palettes, bits, alpha and names with signs are as good as any."""
    from sbnn_hw.data.own import open_own

    x, labels = pictures(40)
    odd = np.where(labels == "cat", "a'; rm -rf $(x) \"<b>&", "ü 日本 %s")
    folder = write_folder(tmp_path / "odd", x, odd)
    files = sorted(folder.rglob("*.png"))
    want = {path: np.asarray(Image.open(path)) for path in files}
    grey = [n for n in range(256) for _ in range(3)]
    palette = Image.frombytes("P", (6, 6), want[files[0]].tobytes())
    palette.putpalette(grey)
    palette.save(files[0])
    Image.merge("LA", (Image.open(files[1]), Image.new("L", (6, 6), 255))).save(files[1])
    found = open_own(folder)
    assert found.shape == (6, 6, 1)
    assert found.meaning.classes == tuple(sorted(set(odd.tolist())))
    seen = {image.tobytes() for part in found.parts.values() for image in part.pixels}
    assert seen == {image.tobytes() for image in want.values()}
