"""What others published: read from a file, each number with its source and what it includes."""

from pathlib import Path
from typing import Any

from sbnn_hw.data.find import is_known
from sbnn_hw.errors import UsageError
from sbnn_hw.files import read_toml

__all__ = ["NUMBERS", "SHIPPED", "load_peers"]

SHIPPED = Path(__file__).with_name("published.toml")

#: The numbers that a peer may have, with their units.
NUMBERS = {
    "accuracy": "% of test images",
    "luts": "LUT",
    "gates": "logic gates",
    "brams": "BRAM",
    "mhz": "MHz",
    "images_per_second": "images/s",
}
#: Besides its accuracy, a peer has at least one of these.
_ONE_OF = ("luts", "gates", "images_per_second")
_TEXTS = ("name", "source", "data", "includes")


def load_peers(path: Path = SHIPPED) -> list[dict[str, Any]]:
    """Return the published peers in plain values, each with its source written out.

    A number that was not read again in its source has ``verified`` false.
    """
    content = read_toml(path, "published numbers")
    sources = content.get("sources", {})
    peers = [_peer(entry, sources, path) for entry in content.get("peers", [])]
    names = [(peer["name"], peer["data"]) for peer in peers]
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: peers of a data set must have different names")
    return peers


def _peer(entry: dict[str, Any], sources: dict[str, Any], path: Path) -> dict[str, Any]:
    where = f"{path}: peer {entry.get('name')!r}"
    known = {*_TEXTS, *NUMBERS, "device", "series", "unverified"}
    if unknown := sorted(entry.keys() - known):
        raise UsageError(f"{where} must have no {unknown[0]!r}, only {', '.join(sorted(known))}")
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise UsageError(f"{where} must say its {key}")
    source = sources.get(entry["source"])
    if not isinstance(source, dict) or source.keys() != {"title", "where"}:
        raise UsageError(f"{where} must name a source with title and where")
    if not is_known(entry["data"]):
        raise UsageError(f"{where} must name a known data set, not {entry['data']!r}")
    given = [key for key in NUMBERS if key in entry]
    for key in given:
        value = entry[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UsageError(f"{where} must have a number above zero as {key}, not {value!r}")
    if "accuracy" not in given or not set(_ONE_OF) & set(given):
        raise UsageError(f"{where} must have accuracy, and luts, gates or images_per_second")
    unverified = entry.get("unverified", [])
    if wrong := sorted(set(unverified) - set(given)):
        raise UsageError(f"{where} has no {wrong[0]!r} that could be unverified")
    return {
        "name": entry["name"],
        "data": entry["data"],
        "series": entry.get("series"),
        "device": entry.get("device"),
        "includes": entry["includes"],
        "source": {"title": source["title"], "where": source["where"]},
        "numbers": {
            key: {"value": entry[key], "unit": NUMBERS[key], "verified": key not in unverified}
            for key in given
        },
    }
