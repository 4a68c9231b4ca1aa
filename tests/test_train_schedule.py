"""Schedules: what a run has at its beginning, in its middle and at its end."""

from dataclasses import replace

import pytest

from sbnn_hw.train import TrainConfig
from sbnn_hw.train.schedule import Schedule

CONFIG = TrainConfig(model="digits", data="digits", ec=0.1, ec_until=0.5)
STEPS = 100


@pytest.mark.parametrize(
    ("schedule", "middle", "end"), [("cosine", 0.5, 0), ("linear", 0.5, 0), ("constant", 1, 1)]
)
def test_lr_follows_its_schedule(schedule, middle, end):
    found = Schedule(replace(CONFIG, lr_schedule=schedule), STEPS)
    assert found.lr(0) == pytest.approx(CONFIG.lr)
    assert found.lr(STEPS // 2) == pytest.approx(CONFIG.lr * middle)
    assert found.lr(STEPS) == pytest.approx(CONFIG.lr * end)


def test_ones_and_slack_fall_over_their_part_of_the_run():
    falling = Schedule(replace(CONFIG, ec_schedule="cubic"), STEPS)
    assert [falling.ec(step) for step in (0, 25, 50, 100)] == pytest.approx([0.5, 0.15, 0.1, 0.1])
    assert [falling.slack(step) for step in (0, 25, 50, 100)] == pytest.approx([1, 0.125, 0, 0])
    constant = Schedule(CONFIG, STEPS)
    assert [constant.ec(0), constant.slack(0)] == [0.1, 0]


def test_a_run_without_steps_is_at_its_beginning():
    assert Schedule(CONFIG, 0).progress(0) == 0
