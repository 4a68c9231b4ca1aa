"""The command line: results on stdout, talk on stderr, one sentence an error, a code a kind."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

from sbnn_hw.cli import COMMANDS, main


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a tiny model through the command line; return its checkpoint and netlist."""
    folder = tmp_path_factory.mktemp("cli")
    ckpt, net = folder / "ckpt.pt", folder / "net.sbnn"
    assert run("train", "--model", "digits", "--data", "digits", "--sparsity", "0.8", "--method",
               "topk", "--xi-bits", "4", "--epochs", "3", "--batch", "64", "--out", ckpt) == 0  # fmt: skip
    assert run("fold", "--model", ckpt, "--out", net) == 0
    return ckpt, net


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_train_fold_eval_info_as_json(trained, tmp_path, capsys):
    ckpt, net = trained
    capsys.readouterr()
    results = {}
    for model in (ckpt, net):
        assert run("eval", "--model", model, "--data", "digits", "--json") == 0
        results[model] = json.loads(capsys.readouterr().out)
    assert results[ckpt]["correct"] == results[net]["correct"]
    assert results[net]["images"] == 360
    assert results[net]["accuracy"] == results[net]["correct"] / 360
    assert results[net]["using"] == "netlist"
    assert run("eval", "--model", ckpt, "--data", "digits", "--using", "torch", "--json") == 0
    assert json.loads(capsys.readouterr().out)["using"] == "torch"
    assert run("info", "--model", net, "--json") == 0
    info = json.loads(capsys.readouterr().out)
    assert {"connections", "weights", "density", "layers", "bops"} <= info.keys()
    assert info["ones"] == int(0.2 * info["weights"])
    assert run("fold", "--model", ckpt, "--out", tmp_path / "again.sbnn", "--data", "digits",
               "--json") == 0  # fmt: skip
    fold = json.loads(capsys.readouterr().out)
    assert fold["digest"] == info["digest"]
    assert fold["agreement"]["mismatches"] == fold["agreement"]["class_mismatches"] == 0
    assert fold["agreement"]["images"] == 360
    assert (tmp_path / "again.sbnn").read_bytes() == net.read_bytes()


def test_text_for_people(trained, capsys):
    _, net = trained
    assert run("eval", "--model", net, "--data", "digits") == 0
    assert capsys.readouterr().out.startswith("accuracy  ")
    assert run("info", "--model", net) == 0
    assert "linear0" in capsys.readouterr().out
    assert run("models") == 0
    assert "FINN's SFC: three hidden layers of 256" in capsys.readouterr().out
    assert run("doctor") == 0
    assert "numpy" in capsys.readouterr().out


def test_results_on_stdout_and_talk_on_stderr(tmp_path, capsys):
    run("train", "--recipe", "digits", "--epochs", "1", "--out", tmp_path / "a.pt")
    captured = capsys.readouterr()
    assert captured.out.startswith("checkpoint  ")
    assert "epoch 1/1: loss " in captured.err
    assert "epoch 1/1" not in captured.out


@pytest.mark.parametrize("option", [("--sparsity", "0.9"), ("--ec", "0.1"), ("--bits", "0.469")])
def test_constraint_by_sparsity_share_or_bits(tmp_path, capsys, option):
    assert run("train", "--model", "digits", "--data", "digits", "--method", "topk", *option,
               "--epochs", "1", "--out", tmp_path / "a.pt", "--json") == 0  # fmt: skip
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["ones"] / metrics["weights"] == pytest.approx(0.1, abs=2e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["eval", "--model", "nope.pt", "--data", "digits"], 1,
         "E: No checkpoint at nope.pt (train one with `sbnn-hw train`)"),
        (["info", "--model", "nope.sbnn"], 1,
         "E: No netlist at nope.sbnn (make one with `sbnn-hw fold`)"),
        (["info", "--model", "net.onnx"], 1, "E: No ONNX file at net.onnx"),
        (["info", "--model", "net.tflite"], 2,
         "a netlist (.sbnn or .json) or an ONNX file (.onnx), not 'net.tflite'"),
        (["train", "--model", "sfx", "--data", "digits", "--out", "a.pt"], 2,
         "(did you mean sfc?)"),
        (["train", "--model", "mlp:0", "--data", "digits", "--out", "a.pt"], 2,
         "E: Model 'mlp:0' must list widths between 1 and 999999, as in mlp:256,256"),
        (["train", "--model", "mlp:", "--data", "digits", "--out", "a.pt"], 2,
         "E: Model 'mlp:' must list one width or more, as in mlp:256,256"),
        (["train", "--model", "digits", "--data", "digits", "--lr", "nan", "--out", "a.pt"], 2,
         "E: Learning rate must be between 1e-09 and 10, not nan"),
        (["train", "--model", "digits", "--data", "digits", "--out", "a.pt", "--teacher",
          "TEACHER"], 1, "mnist_sfc_98.pt takes images of 28×28×1 in 10 classes, but digits"),
        (["train", "--model", "conv:9z", "--data", "digits", "--out", "a.pt"], 2,
         "not '9z'"),
        (["train", "--model", "cnv", "--data", "digits", "--out", "a.pt"], 2,
         "E: Model cnv shrinks 8×8 images to nothing; use fewer layers or --padding"),
        (["train", "--data", "digits", "--out", "a.pt"], 2,
         "E: Training needs --model, or a --recipe that names it"),
        (["train", "--recipe", "x", "--out", "a.pt"], 2, "E: Recipe must be one of cifar100_reactnet18_bnn, "),
        (["train", "--model", "digits", "--data", "digits", "--sparsity", "1.2", "--out", "a.pt"], 2,
         "E: --sparsity must be at least 0 and below 1, not 1.2"),
        (["train", "--model", "digits", "--data", "digits", "--sparsity", "95", "--out", "a.pt"], 2,
         "E: --sparsity must be at least 0 and below 1, not 95 (did you mean 0.95?)"),
        (["train", "--model", "digits", "--data", "digits", "--domain", "x", "--out", "a.pt"], 2,
         "E: Domain must be one of learned, closed_form, symmetric, bnn, zero, signed, real, not 'x'"),
        (["train", "--model", "digits", "--data", "digits", "--xi-bits", "40", "--out", "a.pt"], 2,
         "E: Bits of ξ must be between 1 and 16, not 40"),
        (["train", "--model", "digits", "--data", "digits", "--domain", "bnn", "--xi-bits", "4",
          "--out", "a.pt"], 2, "E: A grid for ξ (xi-bits) needs the domain learned, not 'bnn'"),
        (["train", "--model", "digits", "--data", "digits", "--out", "a.txt"], 2,
         "E: A checkpoint's name must end in .pt, not 'a.txt'"),
        (["train", "--model", "sfc", "--data", "mnist", "--data-root", "nowhere", "--out", "a.pt"],
         5, "E: No MNIST data at nowhere/MNIST/raw/train-images-idx3-ubyte (point --data-root"),
        (["train", "--model", "sfc", "--data", "mnits", "--out", "a.pt"], 2,
         "E: 'mnits' is neither a file or folder nor a data set (did you mean mnist?); data are one"),
        (["train", "--model", "digits", "--data", "digits", "--out", "blocked/a.pt"], 6,
         "E: Cannot write blocked/a.pt: "),
        (["train", "--model", "digits", "--data", "digits", "--batch", "5000", "--out", "a.pt"], 2,
         "E: Batch must be at most the 1150 training images, not 5000"),
        (["train", "--model", "mlp:999999,999999", "--data", "digits", "--out", "a.pt"], 2,
         "has 1,000,075,999,940 weights, and training it needs 16,001.2 GB or more, but"),
        (["fold", "--model", "a.sbnn", "--out", "b.sbnn"], 2,
         "E: The model to fold must be a checkpoint (.pt) or an ONNX file (.onnx), not 'a.sbnn'"),
        (["fold", "--model", "a.pt", "--out", "b.pt"], 2,
         "E: A netlist's name must end in .sbnn, not 'b.pt'"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence_with_the_cure(
    tmp_path, monkeypatch, capsys, arguments, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blocked").write_text("a file where a folder should be")
    before = set(tmp_path.iterdir())
    teacher = str(ROOT / "models/mnist_sfc_98.pt")
    assert run(*[teacher if word == "TEACHER" else word for word in arguments]) == code
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("E: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert set(tmp_path.iterdir()) == before  # nothing half-written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a command (see sbnn-hw --help)"),
        (["trian", "--model", "info"],
         "There is no command 'trian' (did you mean train?) (see sbnn-hw --help)"),
        (["zzz"], "There is no command 'zzz' (see sbnn-hw --help)"),
        (["train", "--epochs", "many"],
         "Argument --epochs: invalid int value: 'many' (see sbnn-hw train --help)"),
        (["train"], "The following arguments are required: --out (see sbnn-hw train --help)"),
        (["models", "--colour"], "Unrecognized arguments: --colour (see sbnn-hw models --help)"),
        (["--colour"], "Unrecognized arguments: --colour (see sbnn-hw --help)"),
        (["train", "--ec", "0.1", "--bits", "1", "--out", "a.pt"],
         "Argument --bits: not allowed with argument --ec (see sbnn-hw train --help)"),
        (["info", "--model", f"{'a' * 5000}.pt"],
         f"The name {'a' * 60}…{'a' * 17}.pt is too long for a file (see sbnn-hw info --help)"),
        (["info", "--model", "a\0b.pt"],
         "'a\\x00b.pt' is not a valid file name (see sbnn-hw info --help)"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_sentence_that_says_where_to_read_on(arguments, message, capsys):
    assert run(*arguments) == 2
    assert capsys.readouterr() == ("", f"E: {message}\n")


@pytest.mark.parametrize(
    "line",
    [
        "bench --models LONG", "build --model a.pt --board arty_a7 --out LONG",
        "convert --model LONG --as resnet18 --data cifar10 --out a.pt",
        "convert --model a.pt --as resnet18 --data cifar10 --out LONG",
        "eval --model LONG --data digits", "eval --model a.pt --data digits --data-root LONG",
        "export --model a.pt --out LONG", "fold --model LONG --out a.sbnn",
        "fold --model a.pt --out LONG", "generate --model a.pt --out LONG", "info --model LONG",
        "quantise --model LONG --data digits --out a.pt",
        "quantise --model a.pt --data digits --out LONG",
        "run --port x --model a.pt LONG", "serve --build LONG", "serve --build a --link LONG",
        "train --out LONG", "train --out a.pt --data-root LONG",
    ],
)  # fmt: skip
def test_a_path_that_is_too_long_is_refused_wherever_it_is_given(line, capsys):
    assert run(*line.replace("LONG", "a" * 300).split()) == 2
    captured = capsys.readouterr().err
    assert captured.startswith(f"E: The name {'a' * 60}…{'a' * 20} is too long for a file (see ")
    assert len(captured.splitlines()) == 1


def test_a_model_for_other_images_is_refused(trained, capsys):
    _, net = trained
    assert run("eval", "--model", net, "--data", "mnist") == 1
    assert "takes images of 8×8×1 in 10 classes, but mnist has 28×28×1 in 10" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as raised:
        run(command, "--help")
    assert raised.value.code == 0
    assert "usage: sbnn-hw" in capsys.readouterr().out


def test_every_choice_of_a_training_has_an_option():
    from dataclasses import fields

    from sbnn_hw.commands.common import DATA_OPTIONS
    from sbnn_hw.commands.train import OPTIONS
    from sbnn_hw.train.config import TrainConfig

    listed = [*OPTIONS.values(), DATA_OPTIONS]
    flags = {flag.replace("-", "_") for options in listed for flag, *_ in options}
    assert flags | {"ec", "flip", "gray", "replace_idle", "teach_once"} == {
        field.name for field in fields(TrainConfig)
    }


@pytest.mark.parametrize("arguments", [["doctor"], ["models"], ["--version"], ["info", "--model"]])
def test_torch_is_not_loaded_where_no_checkpoint_is_read(trained, arguments):
    """What makes `info` and `doctor` answer at once; no tool that pip installed is run."""
    if arguments[-1] == "--model":
        arguments = [*arguments, str(trained[1])]
    script = (
        "import subprocess, sys\n"
        "real = subprocess.run\n"
        "def only_native(command, **k):\n"
        "    assert 'yowasp' not in command[0] and '--version' in command or '--getenv' in command\n"
        "    return real(command, **k)\n"
        "subprocess.run = only_native\n"
        "from sbnn_hw.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    heavy = {'torch', 'sklearn', 'matplotlib', 'scipy', 'amaranth'} & set(sys.modules)\n"
        "    print('heavy', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy []"


def test_a_closed_pipe_is_not_a_traceback(trained):
    command = f"{sys.executable} -m sbnn_hw info --model {trained[1]} --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" not in done.stderr


def sbnn(*arguments, **how):
    """Run the command line as a process of its own."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "latin1"} | how
    words = [sys.executable, "-m", "sbnn_hw", *map(str, arguments)]
    return subprocess.run(words, **how)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8:strict"])
def test_streams_that_cannot_take_every_character(trained, encoding, tmp_path):
    """What they cannot take is escaped: ξ and names that are no text, results and errors."""
    name = tmp_path / os.fsdecode(b"\xce\xbe \xff.sbnn")
    name.write_bytes(trained[1].read_bytes())
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    for arguments in (["info", "--model", name], ["run", "--help"], ["models"]):
        done = sbnn(*arguments, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
    assert "\\udcff" in sbnn("info", "--model", name, env=environment).stdout
    done = sbnn("info", "--model", tmp_path / "ξ.sbnn", env=environment)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--model"], ["--json", "--model"], ["--help"]])
def test_a_full_disk_behind_stdout_is_one_sentence(trained, arguments):
    arguments = [*arguments, trained[1]] if arguments[-1] == "--model" else arguments
    with Path("/dev/full").open("w") as full:
        done = sbnn("info", *arguments, stdout=full)
        assert done.stderr == "E: Cannot write all of the output: No space left on device\n"
        assert done.returncode == 6
        # Where even errors have no room there is still the exit code.
        assert sbnn("info", "--model", "nope.sbnn", stderr=full).returncode == 1


def test_closed_streams_are_nobodys_traceback(trained):
    command = f"{sys.executable} -m sbnn_hw info --model {trained[1]} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupt_is_not_a_traceback(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("sbnn_hw.commands.doctor.run", interrupted)
    assert run("doctor") == 130
    assert capsys.readouterr().err.strip() == "W: interrupted"


def test_ended_by_a_program_it_ends_its_tools(tmp_path):
    """A tool that runs for an hour must not go on without the command that asked for it."""
    tool = tmp_path / "tool"
    code = (
        "import subprocess, sys\n"
        "import sbnn_hw.commands.doctor as doctor\n"
        "from sbnn_hw.cli import main\n"
        f"started = 'echo $$ > {tool.name}.part; mv {tool.name}.part {tool.name}; exec sleep 600'\n"
        "doctor.run = lambda args: subprocess.run(['sh', '-c', started], check=True)\n"
        "sys.argv = ['sbnn-hw', 'doctor']\n"
        "sys.exit(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while not tool.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    assert process.communicate(timeout=30)[1] == "W: interrupted\n"
    assert process.returncode == 130
    # It may be left to whoever buries the dead, but it does not run.
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", tool.read_text().strip()], capture_output=True, text=True
    )
    assert state.stdout.strip()[:1] in ("", "Z")


def test_ended_in_a_destructor_it_ends_all_the_same(tmp_path):
    """Python drops what a destructor raises; and what is left over is not taken apart."""
    code = (
        "import sys, time\n"
        "import sbnn_hw.commands.doctor as doctor\n"
        "from sbnn_hw.cli import main\n"
        "class Design:\n"
        "    def __del__(self):\n"
        "        print('began', flush=True)\n"
        "        time.sleep(5)\n"
        "class Part:\n"
        "    def __del__(self):\n"
        "        print('taken apart', flush=True)\n"
        "def run(args):\n"
        "    part = Part()\n"
        "    Design()\n"
        "    time.sleep(30)\n"
        "doctor.run = run\n"
        "sys.argv = ['sbnn-hw', 'doctor']\n"
        "sys.exit(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "began\n"
    process.terminate()
    assert process.communicate(timeout=20) == ("", "W: interrupted\n")
    assert process.returncode == 130


def test_paths_with_spaces_and_quotes(trained, tmp_path, capsys):
    folder = tmp_path / "a 'quoted' \"folder\"\n;"
    folder.mkdir()
    assert run("fold", "--model", trained[0], "--out", folder / "n.sbnn") == 0
    assert run("info", "--model", folder / "nope.sbnn") == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_folding_with_other_data_names_both(trained, data_root, tmp_path, capsys):
    arguments = ["--out", tmp_path / "a.sbnn", "--data", "mnist", "--data-root", data_root]
    assert run("fold", "--model", trained[0], *arguments) == 1
    assert "takes images of 8×8×1 in 10 classes, but mnist has 28×28×1" in capsys.readouterr().err


def test_a_folder_that_may_not_be_written(trained, tmp_path, capsys):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "closed").mkdir(mode=0o500)
    assert run("fold", "--model", trained[0], "--out", tmp_path / "closed" / "n.sbnn") == 6


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_text_shows_a_name_of_the_code(capsys, command):
    """A text in braces is what a string shows that should have been formatted."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert not re.search(r"\{[A-Z_]+\}|%\(", text)
