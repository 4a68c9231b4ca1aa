"""The study behind a search: the one place that imports Optuna.

Trials are asked for and told one by one, so that a process may end at any moment. A trial whose
process is gone is given to the next one that asks.
"""

import json
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sbnn_hw.errors import ModelRejected, OutputRefused, UsageError
from sbnn_hw.explore.front import Finding
from sbnn_hw.explore.space import Choices, Range

__all__ = ["STALE", "Pruned", "Study", "Trial"]

#: How often a trial that was cut off is tried again: something in it may be what ends processes.
ATTEMPTS = 3
#: A trial of another machine that has said nothing for so many seconds is given up.
STALE = 3600.0
#: Trials that must have ended in a class of sizes before another one of it may be stopped early.
STARTUP = 4
#: A run counts so many steps, however many epochs it has; in the first third none is stopped.
STEPS, WARM_UP = 30, 10
#: Seconds between two signs of life: `--stale` is a second at least, and epochs may be shorter.
HEARTBEAT = 0.4
#: Accuracy up, tables down.
_DIRECTIONS = [StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE]
#: What each line of a journal begins with.
_BEGIN = b'{"op_code":'


class Pruned(Exception):
    """The trial is worse than others of its size; go on to the next."""


def _start_of(pid: int) -> str:
    """Return when a process of this machine started, or nothing where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _host() -> str:
    """Return this machine's name, with what tells containers of the same name apart."""
    try:
        space = f"/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        space = ""
    return socket.gethostname() + space


def _alive(pid: int, start: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_of(pid) == start


@contextmanager
def _storage_errors(where: str) -> Iterator[None]:
    """Tell what a storage cannot do in one sentence; a password in its address is not shown."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except optuna.exceptions.UpdateFinishedTrialError:
        raise UsageError(
            f"Another process gave up a trial of {where} while it was running here; use a larger "
            f"--stale"
        ) from None
    except (SQLAlchemyError, OptunaError, ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"The study's storage {where} cannot be used: {reason}") from None
    except OSError as error:
        raise OutputRefused(f"Cannot write the study {where}: {error.strerror or error}") from None
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"{where} is not a study's storage ({type(error).__name__}); name another --storage"
        ) from None


def _check_last_line(path: Path) -> None:
    """Refuse a journal whose last line is cut off: Optuna would write on behind it.

    As nobody writes meanwhile, that is not a line which another process is about to end.
    """
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        last = path.read_bytes().splitlines(keepends=True)[-1:]
    finally:
        lock.release()
    for line in last:
        if not line.endswith(b"\n") and line.startswith(_BEGIN[: len(line)]):
            raise UsageError(
                f"The last line of the study {path} is cut off; remove that line, or name another "
                f"--storage"
            )
        json.loads(line)


def _open(storage: str) -> tuple[BaseStorage, str]:
    """Open a database by its URL, or a journal by its path; return a name that may be shown."""
    if "://" in storage:
        kind = storage.partition("://")[0]
        with _storage_errors(f"{kind}://…"):
            return RDBStorage(storage), f"{kind}://…"
    path = Path(storage)
    if path.is_dir():
        raise UsageError(f"Storage {path} is a folder; name a file in it, or a database's URL")
    with _storage_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_last_line(path)
        return JournalStorage(JournalFileBackend(str(path))), str(path)


class Study:
    """A search that processes share: which trials there are, and which comes next.

    The storage is a file, which may lie in a folder that machines share, or a database's URL. The
    facts are what all trials have in common; whoever joins must have the same. With the same seed a
    single process picks the same again. After ``stale`` seconds of silence a trial of another
    machine counts as cut off.
    """

    def __init__(
        self,
        name: str,
        storage: str,
        facts: dict[str, Any],
        *,
        seed: int = 0,
        prune: bool = True,
        stale: float = STALE,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.name, self.seed, self.prune, self.stale = name, seed, prune, stale
        self._storage, self._where = _open(storage)
        try:
            self._join(facts)
        except UsageError:
            self.close()
            raise

    def _join(self, facts: dict[str, Any]) -> None:
        """Open the study, or begin it; into one that is not of these facts nothing is written."""
        name = self.name
        with _storage_errors(self._where):
            try:
                self._study = optuna.load_study(storage=self._storage, study_name=name)
            except KeyError:
                self._study = optuna.create_study(
                    storage=self._storage,
                    study_name=name,
                    directions=_DIRECTIONS,
                    load_if_exists=True,
                )
            known = self._study.user_attrs
            ours = self._study.directions == _DIRECTIONS
            # Whoever begins a study writes its facts before the first trial.
            if "space" not in known:
                ours = ours and known.keys() <= facts.keys() and not self._trials()
        if not ours:
            raise UsageError(
                f"Study {name} in {self._where} was not made by sbnn-hw explore; name another "
                f"--study"
            )
        for key, value in facts.items():
            if key in known and known[key] != value:
                raise UsageError(
                    f"Study {name} was started with {key} = {_short(known[key])}, not "
                    f"{_short(value)}; use the same, or another --study"
                )
        with _storage_errors(self._where):
            for key, value in facts.items():
                if key not in known:
                    self._study.set_user_attr(key, value)

    def close(self) -> None:
        """Let go of the storage."""
        self._storage.remove_session()
        if isinstance(self._storage, RDBStorage):
            self._storage.engine.dispose()

    # What there is

    def _trials(self) -> list[FrozenTrial]:
        with _storage_errors(self._where):
            return self._study.get_trials(deepcopy=False)

    def counts(self) -> dict[str, int]:
        """Return how many trials ended how, and how many are under way or wait."""
        states = {
            "complete": TrialState.COMPLETE,
            "pruned": TrialState.PRUNED,
            "running": TrialState.RUNNING,
            "waiting": TrialState.WAITING,
        }
        trials = self._trials()
        found = {key: sum(t.state == state for t in trials) for key, state in states.items()}
        found["refused"] = sum("refused" in t.user_attrs for t in trials)
        return found

    def findings(self) -> list[Finding]:
        """Return the trials that ran to their end."""
        return [
            Finding(
                trial.number,
                trial.values[0],
                int(trial.values[1]),
                trial.user_attrs.get("config", {}),
                trial.user_attrs.get("host", "").partition("/")[0],
                trial.user_attrs.get("seconds", 0.0),
            )
            for trial in self._trials()
            if trial.state == TrialState.COMPLETE
        ]

    def refusals(self) -> list[str]:
        """Return what was said of the trials that were refused."""
        found = (trial.user_attrs.get("refused") for trial in self._trials())
        return [text for text in found if text is not None]

    def ended(self) -> set[int]:
        """Return the numbers of trials that will not change any more."""
        return {trial.number for trial in self._trials() if trial.state.is_finished()}

    # What comes next

    def take(self, trials: int) -> "Trial | None":
        """Return the next trial, unless there are ``trials`` already, done or under way."""
        self._give_up_dead()
        counts = self.counts()
        begun = sum(counts[key] for key in ("complete", "pruned", "refused", "running"))
        if begun >= trials and not counts["waiting"]:
            return None
        with _storage_errors(self._where):
            trial = self._study.ask()
        # Two processes may have asked at once; numbers tell who was first.
        before = sum(
            t.number < trial.number and (t.state != TrialState.FAIL or "refused" in t.user_attrs)
            for t in self._trials()
        )
        if before >= trials:
            with _storage_errors(self._where):
                self._study.tell(trial, state=TrialState.FAIL)
            return None
        # By the trial's own number: workers pick differently, and one alone the same again.
        self._study.sampler = optuna.samplers.TPESampler(
            seed=(self.seed * 1_000_003 + trial.number) % 2**32
        )
        own = {"host": _host(), "pid": os.getpid(), "start": _start_of(os.getpid())}
        with _storage_errors(self._where):
            for key, value in own.items():
                trial.set_user_attr(key, value)
        return Trial(self, trial)

    def _give_up_dead(self) -> None:
        """Let trials whose process is gone be run again."""
        here = _host()
        for trial in self._trials():
            if trial.state != TrialState.RUNNING:
                continue
            attrs = trial.user_attrs
            if attrs.get("host") == here and "start" in attrs:
                gone = not _alive(attrs["pid"], attrs["start"])
            else:
                began = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
                gone = time.time() - attrs.get("seen", began) > self.stale
            if gone:
                self._again(trial)

    def _again(self, trial: FrozenTrial) -> None:
        """End a trial that was cut off, and put the same in the queue."""
        attempt = trial.user_attrs.get("attempt", 1)
        with _storage_errors(self._where):
            try:
                self._study.tell(trial.number, state=TrialState.FAIL)
            except json.JSONDecodeError:
                raise
            except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
                return  # Another process was faster.
            if attempt < ATTEMPTS:
                self._study.enqueue_trial(
                    trial.params, user_attrs={"attempt": attempt + 1, "again": trial.number}
                )


class Trial:
    """One training run of a study: picks its options, and tells what came of it."""

    def __init__(self, study: Study, trial: optuna.Trial) -> None:
        self._owner, self._trial = study, trial
        self._twin: tuple[optuna.Study, optuna.Trial] | None = None
        self._seen, self._step = -math.inf, -1
        self.number = trial.number

    def suggest(self, name: str, entry: Range | Choices) -> Any:
        """Pick a value."""
        with _storage_errors(self._owner._where):
            if isinstance(entry, Choices):
                return self._trial.suggest_categorical(name, entry.values)
            if isinstance(entry.low, int) and isinstance(entry.high, int):
                return self._trial.suggest_int(name, entry.low, entry.high, log=entry.log)
            return self._trial.suggest_float(name, entry.low, entry.high, log=entry.log)

    def begin(self, size: str) -> None:
        """Start the run; ``size`` names those it may be compared with."""
        self._live()
        if not self._owner.prune:
            return
        # Optuna's pruners know one objective only: a study of accuracy alone stands beside, one
        # for each class of sizes, so that small networks are not stopped for being small.
        pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARM_UP)
        with _storage_errors(self._owner._where):
            study = optuna.create_study(
                storage=self._owner._storage,
                study_name=f"{self._owner.name}, size {size}",
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )
            self._twin = study, study.ask()

    def report(self, accuracy: float, epoch: int, epochs: int) -> None:
        """Tell an epoch's validation accuracy; :class:`Pruned` ends a run that is not worth it."""
        self._live()
        step = STEPS * epoch // epochs
        # Of the epochs of a step the first one counts.
        if self._twin is None or epoch == epochs or step == self._step:
            return
        _, twin = self._twin
        self._step = step
        with _storage_errors(self._owner._where):
            twin.report(accuracy, step)
            lags = twin.should_prune()
        if lags:
            raise Pruned

    def complete(self, accuracy: float, luts: int, config: dict[str, Any], seconds: float) -> None:
        """Tell the result."""
        self._note(config=config, seconds=round(seconds, 3))
        self._end([accuracy, luts])
        self._end_twin(accuracy)

    def pruned(self, config: dict[str, Any], epoch: int) -> None:
        """Tell that it was stopped early."""
        self._note(config=config, epoch=epoch)
        self._end(state=TrialState.PRUNED)
        self._end_twin(None)

    def refused(self, error: ModelRejected) -> None:
        """Tell that there is no such network, or that it did not learn."""
        self._note(refused=error.sentence)
        self._end(state=TrialState.FAIL)
        self._end_twin(None)

    def again(self) -> None:
        """Leave it to whoever asks next: this process is being stopped."""
        frozen = next(t for t in self._owner._trials() if t.number == self.number)
        if frozen.state == TrialState.RUNNING:
            self._owner._again(frozen)
        self._end_twin(None)

    def _live(self) -> None:
        now = time.monotonic()
        if now - self._seen >= HEARTBEAT:
            self._seen = now
            self._note(seen=time.time())

    def _note(self, **values: Any) -> None:
        with _storage_errors(self._owner._where):
            for key, value in values.items():
                self._trial.set_user_attr(key, value)

    def _end(self, values: list[float] | None = None, state: TrialState | None = None) -> None:
        with _storage_errors(self._owner._where):
            self._owner._study.tell(self._trial, values, state=state)

    def _end_twin(self, accuracy: float | None) -> None:
        if self._twin is None:
            return
        study, twin = self._twin
        self._twin = None
        state = TrialState.FAIL if accuracy is None else None
        with _storage_errors(self._owner._where):
            study.tell(twin, accuracy, state=state)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def size_class(count: float) -> int:
    """Return the class of sizes that a number belongs to: each is twice the one below."""
    return math.floor(math.log2(max(1.0, count)))
