"""Benchmarks by name: files of the form that their owners publish, made up and small."""

import gzip
import wave

import numpy as np
import pytest

from sbnn_hw.cli import main
from sbnn_hw.data import jets, speech
from sbnn_hw.data.find import find_data
from sbnn_hw.data.known import KNOWN
from sbnn_hw.data.split import fold_rows
from sbnn_hw.errors import DataMissing
from sbnn_hw.train import TrainConfig, load_checkpoint
from sbnn_hw.train.recipes import list_recipes, load_recipe

#: The benchmarks whose files are not small enough to be anywhere near.
FAR = ("jsc_openml", "jsc_cernbox", "unsw_nb15", "unsw_nb15_binarized", "speech_commands")
HEADER = (
    "id,dur,proto,service,state,spkts,dpkts,sbytes,dbytes,rate,sttl,dttl,sload,dload,sloss,dloss,"
    "sinpkt,dinpkt,sjit,djit,swin,stcpb,dtcpb,dwin,tcprtt,synack,ackdat,smean,dmean,trans_depth,"
    "response_body_len,ct_srv_src,ct_state_ttl,ct_dst_ltm,ct_src_dport_ltm,ct_dst_sport_ltm,"
    "ct_dst_src_ltm,is_ftp_login,ct_ftp_cmd,ct_flw_http_mthd,ct_src_ltm,ct_srv_dst,"
    "is_sm_ips_ports,attack_cat,label"
)


# Made-up files


def jets_of(count, seed=0):
    """Return features in which classes differ, and classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=count)
    return rng.normal(size=(count, 16)) + labels[:, None] * rng.normal(size=16), labels


def write_arff(path, count=300):
    values, labels = jets_of(count)
    lines = ["% made up", "@RELATION hls4ml_lhc_jets_hlf", ""]
    lines += [f"@ATTRIBUTE {name} REAL" for name in jets.FEATURES]
    lines += ["@ATTRIBUTE class {g, q, t, w, z}", "", "@DATA"]
    lines += [
        ",".join([*map(repr, row.tolist()), "gqtwz"[label]])
        for row, label in zip(values, labels, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return values, labels


def write_hdf5(path, count=300):
    h5py = pytest.importorskip("h5py", reason="needs h5py (pip install 'sbnn-hw[hdf5]')")
    values, labels = jets_of(count)
    # A jet stands once for each of its particles, whose own columns are not read.
    repeated = np.repeat(np.arange(count), 3)
    names = ["j_ptfrac", *(f"j_{name}" for name in (*jets.FEATURES, *jets.CLASSES)), "j_index"]
    table = np.zeros(len(repeated), [(name, "<f4") for name in names])
    for number, name in enumerate(jets.FEATURES):
        table[f"j_{name}"] = values[repeated, number]
    for number, name in enumerate(jets.CLASSES):
        table[f"j_{name}"] = labels[repeated] == number
    table["j_ptfrac"] = np.arange(len(repeated))
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["t_allpar_new"] = table
    return values.astype(np.float32), labels


def write_flows(folder, count=200):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for stem in ("training", "testing"):
        rows = []
        for number in range(count):
            attack = int(rng.integers(2))
            texts = [rng.choice(["tcp", "udp"]), rng.choice(["-", "http"]), rng.choice(["FIN"])]
            numbers = (rng.random(39) + attack).round(6).tolist()
            kind = "Exploits" if attack else "Normal"
            cells = [number + 1, numbers[0], *texts, *numbers[1:], kind, attack]
            rows.append(",".join(map(str, cells)))
        # With a byte order mark, as the owners' files have.
        text = "\ufeff" + "\n".join([HEADER, *rows]) + "\n"
        (folder / f"UNSW_NB15_{stem}-set.csv").write_text(text, encoding="utf-8")


def write_bits(path, count=200, width=593):
    rng = np.random.default_rng(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {}
    for part in ("train", "test"):
        labels = rng.integers(2, size=count)
        bits = (rng.random((count, width)) < 0.2 + 0.6 * labels[:, None]).astype(np.uint8)
        parts[part] = np.concatenate([bits, labels[:, None].astype(np.uint8)], axis=1)
    np.savez(path, **parts)
    return parts


def write_wav(path, samples, rate=16_000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.asarray(samples, "<i2").tobytes())


def write_speech(folder, each=6):
    rng = np.random.default_rng(0)
    time = np.arange(16_000) / 16_000
    listed = {"validation_list.txt": [], "testing_list.txt": []}
    for number, word in enumerate((*speech.WORDS, "bed", "cat")):
        for take in range(each):
            name = f"{word}/{rng.integers(1 << 32):08x}_nohash_{take}.wav"
            tone = 3000 * np.sin(2 * np.pi * (300 + 250 * number) * time)
            # Some recordings are shorter than a second.
            write_wav(folder / name, (tone + rng.normal(size=16_000) * 30)[: 16_000 - 500 * take])
            if take < 2:
                listed[("validation_list.txt", "testing_list.txt")[take]].append(name)
    for name, lines in listed.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    write_wav(folder / speech.NOISE / "pink.wav", rng.normal(size=40_000) * 300)


def write_all(root):
    write_arff(root / "jsc_openml/hls4ml_lhc_jets_hlf.arff")
    write_hdf5(root / jets._CERNBOX[0])
    write_flows(root / "unsw_nb15")
    write_bits(root / "unsw_nb15_binarized/unsw_nb15_binarized.npz")
    write_speech(root / "speech_commands")


# Jets


@pytest.mark.parametrize("count", [5, 7, 300, 301])
def test_jets_are_split_as_scikit_learn_splits_them(count):
    from sklearn.model_selection import train_test_split

    values = np.arange(count)
    rows = jets.Rows(values.astype(str), columns={"x": values.astype(float)})
    parts = jets.usual_split(rows)
    train, test = train_test_split(values, test_size=0.2, random_state=42)
    assert parts["train"].labels.tolist() == train.astype(str).tolist()
    assert parts["test"].columns["x"].tolist() == test.tolist()


@pytest.mark.parametrize("end", [".arff", ".arff.gz", ".csv"])
def test_jets_of_openml_are_read_in_each_form(tmp_path, end):
    path = tmp_path / f"jsc_openml/hls4ml_lhc_jets_hlf{end}"
    values, labels = write_arff(path if end != ".csv" else tmp_path / "made.arff")
    if end == ".csv":
        path.parent.mkdir()
        lines = (tmp_path / "made.arff").read_text().split("@DATA\n")[1]
        path.write_text(",".join([*jets.FEATURES, "class"]) + "\n" + lines)
    parts = KNOWN["jsc_openml"].read(tmp_path)
    order = np.random.RandomState(42).permutation(len(values))
    assert len(parts["test"]) == 60
    found = np.stack([parts["test"].columns[name] for name in jets.FEATURES], axis=1)
    assert np.array_equal(found, values[order[:60]])
    assert "".join(parts["test"].labels) == "".join("gqtwz"[n] for n in labels[order[:60]])
    data = find_data("jsc_openml", root=tmp_path)
    assert (data.classes, data.shape, data.bits) == (5, (1, 1, 16), 6)


def test_jets_of_cernbox_are_counted_once(tmp_path):
    values, labels = write_hdf5(tmp_path / jets._CERNBOX[0])
    parts = KNOWN["jsc_cernbox"].read(tmp_path)
    assert (len(parts["train"]), len(parts["test"])) == (240, 60)
    order = np.random.RandomState(42).permutation(300)
    found = np.stack([parts["train"].columns[name] for name in jets.FEATURES], axis=1)
    assert np.array_equal(found, values[order[60:]].astype(float))
    assert "".join(parts["train"].labels) == "".join("gqwzt"[n] for n in labels[order[60:]])


def test_broken_jets_are_refused_in_a_sentence(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "jsc_openml/dataset.arff"
    write_arff(path)
    whole = path.read_text()
    for old, new, sentence in (
        ("@ATTRIBUTE zlogz REAL\n", "", r"a row has 17 cells, but there are 16 attributes"),
        ("@ATTRIBUTE zlogz", "@ATTRIBUTE zlog", r"differs in 'zlog'"),
        ("@DATA", "@DATE", r"is no ARFF file: it has '@DATE' before @DATA"),
        ("@ATTRIBUTE class", "@ATTRIBUTE kind", r"has no attribute 'class'"),
    ):
        path.write_text(whole.replace(old, new))
        with pytest.raises(DataMissing, match=sentence):
            find_data("jsc_openml", root=tmp_path)
    path.write_text(whole + ",".join(["1e999"] * 16) + ",g\n")
    with pytest.raises(DataMissing, match="'1e999' is no number that can be scaled"):
        find_data("jsc_openml", root=tmp_path)
    path.write_text(whole + ",".join(["x"] * 16) + ",g\n")
    with pytest.raises(DataMissing, match="could not convert"):
        find_data("jsc_openml", root=tmp_path)
    path = tmp_path / jets._CERNBOX[0]
    path.parent.mkdir()
    path.write_bytes(b"no HDF5")
    with pytest.raises(DataMissing, match=r"is not HDF5"):
        find_data("jsc_cernbox", root=tmp_path)
    for table, sentence in (
        (np.zeros(3, [("j_g", "<f4")]), r"t_allpar_new has no column 'j_zlogz'"),
        (np.zeros((3, 2)), r"has no table t_allpar_new"),
        (np.zeros(3, [(f"j_{n}", "<f4") for n in (*jets.FEATURES, *jets.CLASSES)]), "no class"),
    ):
        with h5py.File(path, "w") as file:
            file["t_allpar_new"] = table
        with pytest.raises(DataMissing, match=sentence):
            find_data("jsc_cernbox", root=tmp_path)


# Network traffic


def test_flows_are_read_without_what_gives_them_away(tmp_path):
    write_flows(tmp_path / "unsw_nb15")
    data = find_data("unsw_nb15", root=tmp_path)
    assert {name: len(images) for name, images in data.parts.items()} == {"train": 200, "test": 200}
    names = [column.name for column in data.meaning.columns]
    assert not {"id", "attack_cat", "label"} & set(names)
    # 39 numbers; two protocols, one service besides none, one state.
    assert len(names) == 39 + 2 + 1 + 1
    (tmp_path / "unsw_nb15/UNSW_NB15_testing-set.csv").write_text(
        "id,label,attack_cat,x\n1,0,a,2\n"
    )
    with pytest.raises(DataMissing, match="differ in the column 'ackdat'"):
        find_data("unsw_nb15", root=tmp_path)


@pytest.mark.parametrize("folder", ["unsw_nb15_binarized", "unsw_nb15"])
def test_flows_in_bits_are_read_bit_by_bit(tmp_path, folder):
    path = tmp_path / folder / "unsw_nb15_binarized.npz"
    parts = write_bits(path)
    data = find_data("unsw_nb15_binarized", root=tmp_path)
    assert (data.bits, data.shape, data.meaning.classes) == (1, (1, 1, 593), ("0", "1"))
    for part, rows in parts.items():
        assert np.array_equal(data.parts[part].pixels[:, 0, 0], rows[:, :-1])
        assert np.array_equal(data.parts[part].labels, rows[:, -1])
    np.savez(path, train=parts["train"], test=parts["test"] * 2)
    with pytest.raises(DataMissing, match="test has values besides 0 and 1"):
        find_data("unsw_nb15_binarized", root=tmp_path)
    np.savez(path, train=parts["train"], test=parts["test"][:, 1:])
    with pytest.raises(DataMissing, match="train and test have different columns"):
        find_data("unsw_nb15_binarized", root=tmp_path)
    np.savez(path, train=parts["train"])
    with pytest.raises(DataMissing, match="must hold test"):
        find_data("unsw_nb15_binarized", root=tmp_path)


# Speech


def slow_mfcc(sound):
    """Return the coefficients of one sound as the definition says, number by number."""
    from scipy.fft import dct

    made = []
    for start in range(0, 16_000 - 480 + 1, 320):
        frame = sound[start : start + 480]
        hann = [0.5 - 0.5 * np.cos(2 * np.pi * n / 480) for n in range(480)]
        spectrum = np.abs(np.fft.fft(frame * np.array(hann), 512))[:257]
        low, high = (1127 * np.log(1 + f / 700) for f in (20, 4000))
        edges = [low + (high - low) * n / 41 for n in range(42)]
        energies = np.zeros(40)
        for place in range(1, 257):
            mel = 1127 * np.log(1 + place * 16_000 / 512 / 700)
            for band in range(40):
                a, b, c = edges[band : band + 3]
                if a < mel < c:
                    share = (mel - a) / (b - a) if mel <= b else (c - mel) / (c - b)
                    energies[band] += share * spectrum[place]
        # TensorFlow's scale: that of an orthonormal transform but for the first coefficient.
        made.append((dct(np.log(energies + 1e-6), 2) / np.sqrt(80))[:10])
    return np.array(made)


def test_coefficients_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    sounds = np.stack([rng.normal(size=16_000) * 0.1, np.sin(np.arange(16_000) / 9)])
    sounds[0, 9000:] = 0
    found = speech.mfcc(sounds)
    assert found.shape == (2, 49, 10)
    assert np.allclose(found[0, ::12], slow_mfcc(sounds[0])[::12], atol=1e-9)
    assert np.allclose(found[1, :2], slow_mfcc(sounds[1])[:2], atol=1e-9)


def test_speech_has_ten_words_others_and_silence(tmp_path):
    write_speech(tmp_path / "speech_commands")
    data = find_data("speech_commands", root=tmp_path)
    assert data.shape == (1, 49, 10)
    assert data.meaning.classes == tuple(sorted((*speech.WORDS, "_unknown_", "_silence_")))
    # Four takes of each word train; one validates, one tests.
    assert {part: len(images) for part, images in data.parts.items()} == {
        "train": 4 * 12, "val": 12, "test": 12,
    }  # fmt: skip
    again = find_data("speech_commands", root=tmp_path)
    assert all(np.array_equal(a.pixels, again.parts[p].pixels) for p, a in data.parts.items())
    broken = next((tmp_path / "speech_commands/yes").glob("*.wav"))
    write_wav(broken, np.zeros(100), rate=8000)
    with pytest.raises(DataMissing, match=r"must have one channel of 16 bits at 16,000 Hz"):
        find_data("speech_commands", root=tmp_path)
    broken.write_bytes(b"RIFF")
    with pytest.raises(DataMissing, match=r"is not a WAV file"):
        find_data("speech_commands", root=tmp_path)
    (tmp_path / "speech_commands/testing_list.txt").unlink()
    with pytest.raises(DataMissing, match=r"Cannot read .*testing_list.txt"):
        find_data("speech_commands", root=tmp_path)


# All


@pytest.mark.parametrize("name", FAR)
def test_what_is_not_there_is_said_with_where_to_get_it(tmp_path, name):
    with pytest.raises(DataMissing) as caught:
        find_data(name, root=tmp_path)
    said = str(caught.value)
    assert said.startswith(f"No {name} data at {tmp_path}")
    assert any(owner in said for owner in ("OpenML", "CERNBox", "UNSW", "Zenodo", "Google"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_all(place)
    return place


@pytest.mark.parametrize("name", FAR)
def test_each_has_a_recipe_that_trains(root, tmp_path, name):
    recipes = [one for one in list_recipes() if load_recipe(one)["data"] == name]
    assert recipes == [name]
    # Two epochs of what is there; the network is the recipe's.
    out = tmp_path / "net.pt"
    main([
        "train", "--recipe", name, "--data-root", str(root), "--epochs", "2", "--batch", "16",
        "--validation", "12", "--out", str(out),
    ])  # fmt: skip
    checkpoint = load_checkpoint(out)
    assert checkpoint.training["model"] == TrainConfig(**load_recipe(name)).model
    main(["eval", "--model", str(out), "--data", name, "--data-root", str(root)])


def test_every_row_tests_in_one_fold():
    rng = np.random.default_rng(0)
    labels = rng.choice(list("aabbbc"), 103)
    folds = fold_rows(labels, 5, 0)
    assert sorted(np.concatenate([held for _, held in folds]).tolist()) == list(range(103))
    for others, held in folds:
        assert not set(others) & set(held)
        assert len(others) + len(held) == 103
        assert len(held) in (20, 21)
        for name in "abc":
            assert abs((labels[held] == name).sum() - (labels == name).sum() / 5) <= 1
    assert not np.array_equal(folds[0][1], fold_rows(labels, 5, 1)[0][1])
