"""How training shows where it is: a bar on a terminal, a line an epoch elsewhere."""

import time
from types import TracebackType
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["Progress"]


class Progress:
    """Progress over a known number of steps, on a stream."""

    def __init__(self, steps: int, *, quiet: bool, stream: TextIO) -> None:
        self._quiet, self._stream = quiet, stream
        self._bar: Any = None
        if not quiet and stream.isatty():
            self._bar = tqdm(total=steps, file=stream, unit="step", dynamic_ncols=True)
        self._steps, self._done, self._started = steps, 0, time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, *, epoch: int, loss: float, accuracy: float, ones: float) -> None:
        """Show that one more step is done."""
        self._done += 1
        if self._bar is not None:
            self._bar.set_description(f"epoch {epoch}", refresh=False)
            self._bar.set_postfix_str(
                f"loss {loss:.3f}, accuracy {accuracy:.2%}, ones {ones:.2%}", refresh=False
            )
            self._bar.update()

    def epoch(self, row: dict[str, Any], epochs: int) -> None:
        """Show the row of an epoch that is done."""
        if self._quiet:
            return
        validation = row["validation"]
        text = (
            f"epoch {row['epoch']}/{epochs}: loss {row['loss']:.4f}, "
            f"accuracy {row['accuracy']:.2%}, ones {row['ones']:.2%}"
        )
        if validation is not None:
            text += f", validation {validation:.2%}"
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
            return
        left = (time.monotonic() - self._started) / max(1, self._done) * (self._steps - self._done)
        print(f"{text}, {left:.0f} s left", file=self._stream, flush=True)
