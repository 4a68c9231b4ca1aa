import pytest

from sbnn_hw.flow.steps import Steps, code_digest, value_digest


def runner(folder):
    said = []
    return Steps(folder, lambda name, text: said.append((name, text))), said


def step(steps, folder, made, reads, text="whole"):
    """Do a step that writes two files and counts how often it is done."""

    def make():
        made.append(reads)
        (folder / "a.txt").write_text(text)
        (folder / "b.txt").write_text("second")
        return {"answer": 42}, ["a.txt", "b.txt"]

    return steps.run("work", {"reads": reads}, make)


def test_a_step_is_done_once_and_again_when_what_it_reads_changes(tmp_path):
    made = []
    for reads, times in [(1, 1), (1, 1), (2, 2), (2, 2), (1, 3)]:
        steps, _ = runner(tmp_path)
        assert step(steps, tmp_path, made, reads) == {"answer": 42}
        assert len(made) == times
    assert [done.cached for done in steps.done] == [False]


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_a_file_that_was_changed_or_removed_is_made_again(tmp_path, name):
    made = []
    steps, said = runner(tmp_path)
    step(steps, tmp_path, made, 1)
    (tmp_path / name).write_text("by hand")
    step(steps, tmp_path, made, 1)
    (tmp_path / name).unlink()
    step(steps, tmp_path, made, 1)
    step(steps, tmp_path, made, 1)
    assert len(made) == 3
    assert [done.cached for done in steps.done] == [False, False, False, True]
    assert said[-1] == ("work", "up to date   a.txt")


def test_a_step_that_fails_leaves_no_note(tmp_path):
    made = []
    steps, _ = runner(tmp_path)
    step(steps, tmp_path, made, 1)

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps.run("work", {"reads": 2}, fail)
    # The files of the first time are still there, but nothing says that they are good.
    step(steps, tmp_path, made, 1)
    assert len(made) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reads": 1}', '{"files": {}}', "\0"])
def test_a_damaged_note_is_none(tmp_path, text):
    made = []
    steps, _ = runner(tmp_path)
    step(steps, tmp_path, made, 1)
    (tmp_path / ".steps" / "work.json").write_text(text)
    step(steps, tmp_path, made, 1)
    assert len(made) == 2


def test_digests_tell_values_and_sources_apart():
    assert value_digest({"a": 1, "b": 2}) == value_digest({"b": 2, "a": 1})
    assert value_digest({"a": 1}) != value_digest({"a": "1"})
    assert code_digest("sbnn_hw.netlist") == code_digest("sbnn_hw.netlist")
    assert code_digest("sbnn_hw.netlist") != code_digest("sbnn_hw.bops")
