"""The search itself: take a trial, train it, keep it if nothing beats it; until all are done."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw.errors import ModelRejected, OutputRefused
from sbnn_hw.explore.front import JSON, checkpoint_name, pareto, write_front
from sbnn_hw.explore.space import Space, make_config
from sbnn_hw.files import in_turn
from sbnn_hw.rtl_gen.outline import tables_of
from sbnn_hw.train.config import TrainConfig

if TYPE_CHECKING:
    from sbnn_hw.explore.study import Study, Trial
    from sbnn_hw.train.explore import Runner

__all__ = ["Search", "explore", "keep_front"]

#: If so many trials were refused and none went well, the space is wrong.
REFUSED = 10
#: Of a trial that takes as many as fit its seconds; a training run has no more.
MOST_EPOCHS = 10**6


@dataclass(frozen=True)
class Search:
    """What a search does in every trial."""

    space: Space  # What is tried.
    data: str  # The data set.
    out: Path  # Folder of the front and of its checkpoints.
    epochs: int | None  # Epochs a trial, at most; None leaves it to the seconds.
    seconds: float | None  # Seconds of training a trial; epochs are fewer if that many do not fit.
    # As in training.
    validation: int
    threads: int
    # How data of one's own are read: what was given of it.
    data_options: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return what all trials of a study have in common, in plain values."""
        return {
            "data": self.data,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "validation": self.validation,
            "space": self.space.plain(),
            "data_options": {name: _plain(value) for name, value in self.data_options.items()},
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def explore(
    search: Search, study: "Study", runner: "Runner", trials: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run trials until the study has ``trials`` of them; return the front in plain values."""
    _not_of_another(search.out, study.name)
    result = keep_front(search, study)
    refused = 0
    while (trial := study.take(trials)) is not None:
        try:
            outcome = _run(search, study, trial, runner, say)
        except KeyboardInterrupt:
            trial.again()
            say(
                f"trial {trial.number:4}  stopped; run the same command again to continue and "
                "repeat this trial"
            )
            raise
        if isinstance(outcome, ModelRejected):
            refused += 1
        result = keep_front(search, study)
        if refused >= REFUSED:
            _not_all_refused(study, result["trials"])
    if running := result["trials"]["running"]:
        say(f"other processes are still running {running} trials")
    else:
        _not_all_refused(study, result["trials"])
    return result


def _not_all_refused(study: "Study", counts: dict[str, int]) -> None:
    """Make sure that some trial went well, or that none was refused."""
    if counts["refused"] and not counts["complete"]:
        raise ModelRejected(
            f"No trial succeeded; the last refusal was: {study.refusals()[-1]} (fix the "
            f"search space, and name another --study and --out)"
        )


def _not_of_another(out: Path, study: str) -> None:
    """Make sure that a folder does not have the front of another study: it would be replaced."""
    try:
        found = json.loads((out / JSON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    name = found.get("study") if isinstance(found, dict) else None
    if name != study:
        raise OutputRefused(
            f"{out} has the front of the study {name!r}, not of {study!r}; give another --out"
        )


def _run(
    search: Search, study: "Study", trial: "Trial", runner: "Runner", say: Callable[[str], None]
) -> ModelRejected | None:
    """Run one trial, and tell the study what came of it."""
    from sbnn_hw.explore.study import Pruned, size_class
    from sbnn_hw.train.explore import save_and_fold

    started = time.monotonic()
    reached = 0
    try:
        config = make_config(
            search.space,
            trial.suggest,
            data=search.data,
            **search.data_options,
            epochs=search.epochs or MOST_EPOCHS,
            validation=search.validation,
            # The same images for all trials: an easy choice of them would win otherwise.
            validation_seed=0,
            threads=search.threads,
        )
        say(f"trial {trial.number:4}  {describe(config)}")
        if search.seconds is not None:
            config = runner.epochs_within(config, search.seconds)

        def begin(weights: int) -> None:
            size = config.luts or config.ec * weights
            trial.begin(f"{config.method} {size_class(size)}")

        def report(accuracy: float, epoch: int) -> None:
            nonlocal reached
            reached = epoch
            trial.report(accuracy, epoch, config.epochs)

        checkpoint, held_out = runner.train(config, begin, report)
        network = save_and_fold(checkpoint, search.out / checkpoint_name(trial.number))
        luts = tables_of(network)
    except Pruned:
        trial.pruned(config.to_dict(), reached)
        say(
            f"trial {trial.number:4}  stopped after epoch {reached}: other networks of its size "
            "are ahead"
        )
        return None
    except ModelRejected as error:
        trial.refused(error)
        say(f"trial {trial.number:4}  refused: {error}")
        return error
    # The integer network's, as the hardware will have it: torch's floats break ties by rounding.
    accuracy = network.accuracy(held_out.pixels, held_out.labels)
    seconds = time.monotonic() - started
    # The checkpoint lies there before the study says so: nothing on the front is without one.
    trial.complete(accuracy, luts, config.to_dict(), seconds)
    say(
        f"trial {trial.number:4}  validation {accuracy:.2%}, {luts:,} LUTs estimated, "
        f"{seconds:.0f} s"
    )
    return None


def describe(config: TrainConfig) -> str:
    """Return a run's choices in a few words."""
    limit = f"{config.luts:,} LUTs" if config.luts else f"{config.method} {config.ec:.3g}"
    sees = f"{config.encoder} {'/'.join(map(str, config.thresholds))}".strip() or "default encoder"
    if config.stream_bits:
        sees = f"streams of {config.stream_bits} bits, {config.shortcut} shortcuts"
        if config.weight_bits:
            sees += f", weights of {config.weight_bits} bits"
        sees += f", {config.first} first layer"
    return f"{config.model}, {limit}, {config.domain}, {sees}, seed {config.seed}"


def keep_front(search: Search, study: "Study") -> dict[str, Any]:
    """Write the front as it is, and remove checkpoints of trials that are not on it."""
    with in_turn(search.out / "front"):
        ended = study.ended()
        findings = study.findings()
        wanted = {checkpoint_name(each.number) for each in pareto(findings)}
        for name in {checkpoint_name(number) for number in ended} - wanted:
            try:
                (search.out / name).unlink(missing_ok=True)
            except OSError as error:
                raise OutputRefused(
                    f"Cannot remove {search.out / name}: {error.strerror or error}"
                ) from None
        facts = {"study": study.name, **search.facts()}
        return write_front(search.out, findings, facts, study.counts())
