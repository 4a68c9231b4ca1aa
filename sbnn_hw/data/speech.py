"""Google's Speech Commands as windows of MFCCs: ten words, other words, and silence.

The files are those of version 0.02: a folder of WAV files (16 kHz, 16 bits, about a second) for
each word, the lists of those that validate and test, and long pieces of noise. The task and the
coefficients are those of the keyword benchmark of MLPerf Tiny in outline: 30 ms every 20 ms, 40 mel
bands between 20 and 4,000 Hz, the first 10 coefficients.
"""

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.place import find_place
from sbnn_hw.data.rows import Rows
from sbnn_hw.errors import DataMissing

__all__ = ["WORDS", "mfcc", "read_speech"]

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
UNKNOWN, SILENCE = "_unknown_", "_silence_"
NOISE = "_background_noise_"
LISTS = {"val": "validation_list.txt", "test": "testing_list.txt"}

RATE = 16_000
FRAME, STEP, SPECTRUM = 480, 320, 512
BANDS, LOWEST, HIGHEST = 40, 20.0, 4000.0
COEFFICIENTS = 10
#: Seconds that are computed at a time.
_BLOCK = 512
#: Noise longer than this is cut.
_LONGEST = 600 * RATE

_PLACES = ("speech_commands", "speech_commands_v0.02", "SpeechCommands/speech_commands_v0.02")
_SOURCE = "Google publishes it as speech_commands_v0.02.tar.gz, to be unpacked"

Sound = npt.NDArray[np.int16]


def read_speech(root: Path) -> dict[str, Rows]:
    """Read the words, as many others as a word has on average, and as many pieces of noise."""
    folder = find_place(root, "speech_commands", _PLACES, _SOURCE)
    files = _files(folder)
    noises = [_samples(path)[:_LONGEST] for path in sorted((folder / NOISE).glob("*.wav"))]
    noises = [noise for noise in noises if len(noise) >= RATE]
    if not noises:
        raise DataMissing(f"{folder / NOISE} has no WAV file of a second or more; fetch it again")
    parts = {}
    for number, part in enumerate(("train", "val", "test")):
        rng = np.random.default_rng([0, number])
        known = [(path, word) for path, word in files[part] if word in WORDS]
        others = [path for path, word in files[part] if word not in WORDS]
        count = max(1, round(len(known) / len(WORDS)))
        if not known or not others:
            raise DataMissing(f"{folder} has no words of its {part} part; fetch it again")
        chosen = rng.choice(len(others), min(count, len(others)), replace=False)
        paths = [path for path, _ in known] + [others[place] for place in np.sort(chosen)]
        labels = [word for _, word in known] + [UNKNOWN] * len(chosen) + [SILENCE] * count
        sounds = [_second(_samples(path)) for path in paths]
        sounds += [_quiet(noises, rng) for _ in range(count)]
        blocks = [mfcc(np.stack(sounds[at : at + _BLOCK])) for at in range(0, len(sounds), _BLOCK)]
        parts[part] = Rows(np.array(labels), np.concatenate(blocks)[:, None])
    return parts


def _files(folder: Path) -> dict[str, list[tuple[Path, str]]]:
    """Return the files of each part with their words, in the order of their names."""
    listed: dict[str, str] = {}
    for part, name in LISTS.items():
        try:
            lines = (folder / name).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            raise DataMissing(f"Cannot read {folder / name}; fetch the data set again") from None
        listed |= dict.fromkeys(lines, part)
    files: dict[str, list[tuple[Path, str]]] = {"train": [], "val": [], "test": []}
    for path in sorted(folder.glob("[a-z]*/*.wav")):
        word = path.parent.name
        files[listed.get(f"{word}/{path.name}", "train")].append((path, word))
    return files


def _samples(path: Path) -> Sound:
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            content = file.readframes(min(file.getnframes(), _LONGEST))
    except (OSError, EOFError, wave.Error) as error:
        raise DataMissing(f"{path} is not a WAV file ({error}); fetch it again") from None
    if form != (1, 2, RATE):
        raise DataMissing(f"{path} must have one channel of 16 bits at {RATE:,} Hz")
    return np.frombuffer(content[: len(content) // 2 * 2], "<i2")


def _second(sound: Sound) -> npt.NDArray[np.float64]:
    """Return a second of a sound, from −1 to 1, followed by nothing where it is shorter."""
    made = np.zeros(RATE)
    made[: len(sound)] = sound[:RATE] / 32768
    return made


def _quiet(noises: list[Sound], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return a second of noise, at some volume."""
    noise = noises[rng.integers(len(noises))]
    start = rng.integers(len(noise) - RATE + 1)
    return _second(noise[start : start + RATE]) * rng.uniform()


def mfcc(sounds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the coefficients of sounds (count, samples): (count, windows, coefficients)."""
    windows = np.lib.stride_tricks.sliding_window_view(sounds, FRAME, axis=1)[:, ::STEP]
    # A periodic Hann window.
    shape = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    spectrum = np.abs(np.fft.rfft(windows * shape, SPECTRUM))
    energies = np.log(spectrum @ _mel_bands() + 1e-6)
    places = np.pi / BANDS * (np.arange(BANDS) + 0.5)
    cosines = np.cos(places[:, None] * np.arange(COEFFICIENTS)) * np.sqrt(2 / BANDS)
    made: npt.NDArray[np.float64] = energies @ cosines
    return made


def _mel_bands() -> npt.NDArray[np.float64]:
    """Return the share of each frequency in each band: triangles, evenly spaced in mel."""

    def mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = 1127 * np.log1p(hertz / 700)
        return found

    frequencies = mel(np.linspace(0, RATE / 2, SPECTRUM // 2 + 1))[:, None]
    lowest, highest = mel(np.array([LOWEST, HIGHEST])).tolist()
    edges = np.linspace(lowest, highest, BANDS + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    bands: npt.NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    bands[0] = 0  # what does not swing is no sound
    return bands
