"""Checkpoints hold what the forward used, and nothing that can run."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from test_files import disk_of

from sbnn_hw.errors import ModelRejected, OutputRefused
from sbnn_hw.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from sbnn_hw.train.fold import fold_checkpoint, fold_model
from sbnn_hw.train.layers import SignActivation
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.sparsity import TopK, layers_of

ROOT = Path(__file__).parent.parent


def checkpoint_of(domain="learned", xi_bits=None, seed=0, **options):
    torch.manual_seed(seed)
    config = ModelConfig("mlp:12,8", (4, 4, 1), 3, domain=domain, xi_bits=xi_bits, **options)
    model = build_model(config)
    TopK().project(layers_of(model), 0.2)
    model.train()(torch.randint(0, 256, (32, 1, 4, 4)).float())
    return Checkpoint(config, model.eval(), {"seed": seed}, {"ones": 7})


@pytest.mark.parametrize(
    ("domain", "xi_bits"),
    [("learned", None), ("learned", 6), ("closed_form", None), ("symmetric", None),
     ("bnn", None), ("zero", None), ("signed", None)],
)  # fmt: skip
def test_model_comes_back_and_computes_the_same(tmp_path, domain, xi_bits):
    saved = checkpoint_of(domain, xi_bits)
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, saved)
    loaded = load_checkpoint(path)
    assert loaded.config == saved.config
    assert (loaded.training, loaded.metrics) == ({"seed": 0}, {"ones": 7})
    x = torch.randint(0, 256, (64, 1, 4, 4)).float()
    with torch.no_grad():
        assert torch.equal(loaded.model(x), saved.model(x))
    for a, b in zip(layers_of(saved.model), layers_of(loaded.model), strict=True):
        assert torch.equal(a.signs(), b.signs())
        assert a.domain.exact() == b.domain.exact()


@pytest.mark.parametrize(
    ("name", "domain"),
    [("resnet18", "learned"), ("reactnet18", "zero"), ("reactnet_a", "real"),
     ("birealnet18", "closed_form"), ("xnor_resnet18", "symmetric")],
)  # fmt: skip
def test_backbones_come_back_and_compute_the_same(tmp_path, name, domain):
    torch.manual_seed(1)
    config = ModelConfig(name, (32, 32, 3), 7, domain=domain, width=0.0625, normalise="cifar100")
    model = build_model(config)
    x = torch.randint(0, 256, (4, 3, 32, 32)).float()
    model.train()(x)
    save_checkpoint(tmp_path / "ckpt.pt", Checkpoint(config, model.eval()))
    loaded = load_checkpoint(tmp_path / "ckpt.pt")
    with torch.no_grad():
        assert torch.equal(loaded.model(x), model(x))


@pytest.mark.parametrize("name", ["mlp:12,8", "conv:3,4/5", "resnet18", "reactnet_a"])
@pytest.mark.parametrize("activation", ["clipped", "ede", "polynomial"])
def test_the_gradient_of_activations_comes_back(tmp_path, name, activation):
    config = ModelConfig(name, (32, 32, 3), 7, width=0.0625, activation=activation)
    save_checkpoint(tmp_path / "ckpt.pt", Checkpoint(config, build_model(config)))
    modules = load_checkpoint(tmp_path / "ckpt.pt").model.modules()
    assert {m.gradient for m in modules if isinstance(m, SignActivation)} == {activation}


def test_loads_with_weights_only_and_is_small(tmp_path):
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, checkpoint_of())
    content = torch.load(path, weights_only=True)
    assert content["version"] == 1
    assert content["values"]["2.ones"].dtype == torch.uint8
    assert not any(key.endswith(".weight") and "2." in key for key in content["values"])


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


@pytest.mark.parametrize("shape", ["pickle", "zip", "inside"])
def test_pickled_code_is_refused_and_does_not_run(tmp_path, monkeypatch, shape):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hostile.pt"
    if shape == "pickle":
        path.write_bytes(pickle.dumps(Bomb()))
    elif shape == "zip":
        torch.save(Bomb(), path)
    else:
        good = tmp_path / "good.pt"
        save_checkpoint(good, checkpoint_of())
        content = torch.load(good, weights_only=True)
        content["metrics"]["bomb"] = Bomb()
        torch.save(content, path)
    # Torch reads a bare pickle no further than its newer opcodes.
    reason = (
        "it is damaged, or something else"
        if shape == "pickle"
        else "it carries code, which was not run"
    )
    sentence = rf"^\S+hostile\.pt is not a checkpoint \({reason}\); train it again$"
    with pytest.raises(ModelRejected, match=sentence):
        load_checkpoint(path)
    assert not (tmp_path / "exploded").exists()


def test_truncated_files_are_refused_at_every_length(tmp_path):
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, checkpoint_of())
    content = path.read_bytes()
    for length in [0, 1, 7, 100, *range(200, len(content), len(content) // 40), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelRejected, match=r"^\S+ckpt\.pt is not a checkpoint \("):
            load_checkpoint(path)


@pytest.mark.parametrize("junk", [b"hello", b"\x80\x02}q\x00.", b"PK\x03\x04" + bytes(100)])
def test_other_files_are_refused(tmp_path, junk):
    path = tmp_path / "other.pt"
    path.write_bytes(junk)
    with pytest.raises(ModelRejected, match=r"^\S+other\.pt is not a checkpoint"):
        load_checkpoint(path)


def test_missing_file_names_the_cure(tmp_path):
    with pytest.raises(
        ModelRejected, match=r"^No checkpoint at \S+nope\.pt \(train one with `sbnn-hw train`\)$"
    ):
        load_checkpoint(tmp_path / "nope.pt")


def test_an_archive_that_unpacks_to_more_than_it_is_is_refused_unread(tmp_path, monkeypatch):
    """Torch writes its numbers as they are; compressed, 3 MB can be gigabytes."""
    good, bomb = tmp_path / "good.pt", tmp_path / "bomb.pt"
    content = {"format": "sbnn-hw checkpoint", "values": {"a": torch.zeros(1 << 20)}}
    torch.save(content, good)
    with (
        zipfile.ZipFile(good) as read,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for member in read.infolist():
            written.writestr(member.filename, read.read(member))
    assert bomb.stat().st_size < 1 << 14
    with monkeypatch.context() as patched:
        patched.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
        with pytest.raises(
            ModelRejected, match=r"\(its content may be larger than the file\); tra"
        ):
            load_checkpoint(bomb)
    with pytest.raises(ModelRejected, match=r"has checkpoint version None"):
        load_checkpoint(good)


def test_an_archive_that_only_torch_could_read_is_refused_unread(tmp_path, monkeypatch):
    """A version that Python's own reader does not know hides what is inside, but not from torch."""
    bomb = tmp_path / "bomb.pt"
    torch.save({"format": "sbnn-hw checkpoint"}, bomb)
    content = bytearray(bomb.read_bytes())
    at = content.index(b"PK\1\2")
    content[at + 6] = 90  # "version needed to extract", in the archive's directory
    bomb.write_bytes(content)
    with pytest.raises(NotImplementedError):
        zipfile.ZipFile(bomb)
    assert torch.load(bomb, weights_only=True)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ModelRejected, match=r"\(its content may be larger than the file\)"):
        load_checkpoint(bomb)


def test_tensors_that_claim_more_than_the_file_holds_are_refused(tmp_path):
    """One byte may be a million weights for torch, and for nobody else."""
    save_checkpoint(tmp_path / "a.pt", checkpoint_of())
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    content["config"]["name"] = "mlp:900000,900000"
    shapes = build_meta(ModelConfig.from_dict(content["config"]))
    content["values"] = {
        key: torch.zeros((), dtype=value.dtype).expand(value.shape) for key, value in shapes.items()
    }
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ModelRejected, match=r"its tensors are larger than the stored numbers"):
        load_checkpoint(tmp_path / "a.pt")


def build_meta(config):
    """Return the tensors of a checkpoint that is too large to make."""
    with torch.device("meta"):
        model = build_model(config)
    values = model.state_dict()
    for name, layer in model.named_modules():
        if hasattr(layer, "domain"):
            bits = -(-layer.weight.numel() // 8)
            values[f"{name}.ones"] = torch.empty(bits, dtype=torch.uint8, device="meta")
            del values[f"{name}.weight"], values[f"{name}.cut"]
    return values


@pytest.mark.parametrize("scale", [torch.inf, torch.nan, 1e4, -90.0])
def test_a_scale_that_no_class_survives_is_refused(tmp_path, scale):
    checkpoint = checkpoint_of()
    checkpoint.model[-1].log_scale.data.fill_(scale)
    message = rf"its log_scale must be between −64 and 64, not {scale:g}; train it again"
    with pytest.raises(ModelRejected, match=rf"^Layer \d+: {message}"):
        fold_model(checkpoint.model, checkpoint.config.shape)
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    with pytest.raises(ModelRejected, match=rf"^\S+a\.pt: layer \d+: {message}"):
        load_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("size", [0, 512, 1024, 4096])
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, size):
    """What torch raises then is no OSError, and tells of no disk."""
    path = tmp_path / "a.pt"
    save_checkpoint(path, checkpoint_of())
    before = path.read_bytes()
    with (
        disk_of(size),
        pytest.raises(OutputRefused, match=r"^Cannot write \S+a\.pt: File too large$"),
    ):
        save_checkpoint(path, checkpoint_of(seed=1))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_names_of_files_may_be_strings(tmp_path):
    save_checkpoint(str(tmp_path / "a.pt"), checkpoint_of())
    assert load_checkpoint(str(tmp_path / "a.pt")).metrics == {"ones": 7}
    assert fold_checkpoint(str(tmp_path / "a.pt")).network.classes == 3


def test_a_folder_is_not_a_checkpoint(tmp_path):
    with pytest.raises(ModelRejected, match=r"is a folder; name a checkpoint in it$"):
        load_checkpoint(tmp_path)


def test_noise_is_not_called_code(tmp_path):
    (tmp_path / "noise.pt").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(
        ModelRejected, match=r"\(it is damaged, or something else\); train it again$"
    ):
        load_checkpoint(tmp_path / "noise.pt")


def changed(tmp_path, change):
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, checkpoint_of(xi_bits=6))
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    return path


def remove(key):
    return lambda content: content["values"].pop(key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(version=99), "has checkpoint version 99, but this sbnn-hw reads 1"),
        (lambda c: c.update(format="other"), "is not a checkpoint of sbnn-hw"),
        (lambda c: c.update(config=None), "model description has unknown fields"),
        (lambda c: c["config"].update(name="resnet"), "Model must be one of digits"),
        (lambda c: c["config"].update(domain="x"), "Domain must be one of learned"),
        (lambda c: c["config"].update(name="mlp:999999,999999"), "must be 15999984 packed bits"),
        (lambda c: c["config"].update(width=float("nan")), "Width must be above 0"),
        (lambda c: c["config"].update(classes="3"), "classes must not be '3'"),
        (lambda c: c.update(values=None), "its values are not named tensors"),
        (lambda c: c["values"].update({3: torch.zeros(1)}), "its values are not named tensors"),
        (lambda c: c["values"].update({"3.bias": torch.zeros(12).to_sparse()}),
         "its values are not named tensors"),
        (lambda c: c["values"].update({"2.domain.xi_bits": torch.tensor(float("nan"))}),
         "layer 2 lacks the integers of ξ"),
        (lambda c: c["config"].update(offset_bits=5000), "Bits of offsets must be between 0 and 16"),
        (lambda c: c["config"].update(shape=(2**31, 2**31, 1)), "between 1 and 4096"),
        (lambda c: c["config"].update(shape=(True, 4, 1)), "shape must not be"),
        (lambda c: c["config"].update(thresholds=tuple(range(1, 300))), "Thresholds must be at most"),
        (lambda c: c["config"].update(activation="x"), "Activations' gradient must be one of clipped"),
        (lambda c: c["config"].update(activation=None), "activation must not be None"),
        (lambda c: c["config"].update(activation=["ede"]), r"activation must not be \['ede'\]"),
        (lambda c: c["config"].update(normalise="x"), "Normalisation must be one of cifar10"),
        (lambda c: c["config"].update(normalise="cifar10"), "Only backbones .* normalise pixels"),
        (lambda c: c["config"].update(normalise=3), "normalise must not be 3"),
        (lambda c: c["config"].update(padding_value=1), "Padding value must be one of -1, 0, not 1"),
        (lambda c: c["config"].update(padding_value=False), "padding_value must not be False"),
        (lambda c: c["config"].update(padding_value=-1.0), "padding_value must not be -1.0"),
        (lambda c: c["config"].update(xi_bits=True), "xi_bits must not be True"),
        (lambda c: c["config"].update(name="resnet18"), r"it lacks layer1\.0\.conv1\.ones"),
        (lambda c: c["config"].update(name="resnet18", shape=(4096, 4096, 3)), "is for images below"),
        (lambda c: c["config"].update(name="resnet18", normalise="cifar10"), "is for 3 channels, not 1"),
        (lambda c: c["config"].update(name="resnet18", padding=1), "does not support a choice of padding, not 1"),
        (remove("2.ones"), "it lacks 2.ones"),
        (remove("3.running_mean"), "it lacks 3.running_mean"),
        (remove("2.domain.xi_integer"), "layer 2 lacks the integers of ξ"),
        (lambda c: c["values"].update(extra=torch.zeros(2)), "it holds extra, which"),
        (lambda c: c["values"].update({"3.bias": torch.zeros(5)}),
         r"3.bias must be \(12,\) of torch.float32, not \(5,\) of torch.float32"),
        (lambda c: c["values"].update({"3.bias": torch.zeros(12).long()}), "3.bias must be"),
        (lambda c: c["values"].update({"2.domain.xi_integer": torch.tensor(1 << 40)}),
         "layer 2 has a ξ that is not on its grid"),
    ],
)  # fmt: skip
def test_checkpoints_that_do_not_fit_are_refused_with_the_reason(tmp_path, change, message):
    with pytest.raises(ModelRejected, match=message):
        load_checkpoint(changed(tmp_path, change))


@pytest.mark.parametrize("path", sorted((ROOT / "models").glob("*.pt")), ids=lambda p: p.stem)
def test_shipped_checkpoints_load_though_later_fields_are_not_in_all_of_them(path):
    kept = torch.load(path, weights_only=True)["config"].keys()
    if path.stem in ("digits", "mnist_sfc_95", "mnist_sfc_98"):
        assert not {"activation", "normalise"} & kept
    loaded = load_checkpoint(path)
    assert (loaded.config.activation, loaded.config.normalise) == ("", "")
    assert sum(int(layer.ones()) for layer in layers_of(loaded.model)) == loaded.metrics["ones"]


@pytest.mark.parametrize("form", ["mlp:12,8", "conv:3,4/5"])
def test_configurations_without_the_later_fields_mean_what_they_meant(tmp_path, form):
    torch.manual_seed(0)
    config = ModelConfig(form, (6, 6, 1), 3, padding=1, padding_value=-1)
    model = build_model(config).eval()
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, Checkpoint(config, model))
    content = torch.load(path, weights_only=True)
    for key in ("activation", "normalise", "padding_value"):
        del content["config"][key]
    torch.save(content, path)
    x = torch.randint(0, 256, (16, 1, 6, 6)).float()
    with torch.no_grad():
        assert torch.equal(load_checkpoint(path).model(x), model(x))


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "ckpt.pt"
    save_checkpoint(path, checkpoint_of())
    before = path.read_bytes()

    class Unsaveable(dict):
        def __reduce__(self):
            raise OSError(28, "No space left on device")

    broken = Checkpoint(checkpoint_of().config, checkpoint_of().model, Unsaveable(), {})
    with pytest.raises(OutputRefused, match=r"^Cannot write \S+ckpt\.pt: No space left on device$"):
        save_checkpoint(path, broken)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ckpt.pt"]


def test_zip_bomb_sized_claims_do_not_allocate(tmp_path):
    """A checkpoint that claims a huge layer is refused before the layer is made."""
    buffer = io.BytesIO()
    save_checkpoint(tmp_path / "a.pt", checkpoint_of())
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    content["config"]["name"] = "mlp:" + ",".join(["999999"] * 60)
    torch.save(content, buffer)
    assert zipfile.is_zipfile(buffer)
    (tmp_path / "b.pt").write_bytes(buffer.getvalue())
    with pytest.raises(ModelRejected, match="packed bits"):
        load_checkpoint(tmp_path / "b.pt")
