"""The netlist as plain JSON, for people and programs that come from elsewhere.

:func:`view_schema` puts its schema together; docs/netlist.md tells what it means.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.files import opened_model, write_atomically
from sbnn_hw.netlist import file
from sbnn_hw.netlist.form import Array, Damaged, Schema, get, list_of, object_of
from sbnn_hw.netlist.network import Network
from sbnn_hw.netlist.operation import OPERATIONS, Operation

__all__ = ["FORMAT", "VERSIONS", "from_view", "load_view", "save_view", "to_view", "view_schema"]

FORMAT = "sbnn-hw netlist view"
#: As the schemas of files.
VERSIONS = file.SCHEMAS

#: Larger files are not read.
LARGEST = 256 << 20


def view_schema() -> Schema:
    """Return the JSON Schema of views; each operation says what its own description holds."""
    sizes = [{"minItems": count, "maxItems": count} for count in (1, 3)]
    pixels = object_of(
        shape={**list_of({"type": "integer", "minimum": 1}), "oneOf": sizes},
        bits={"type": "integer", "minimum": 1, "maximum": 62},
        signed={"type": "boolean"},
        scan={"enum": ["raster", "vector"]},
    )
    digest = {
        "description": "SHA-256 of what decides what the network computes. Left out by those who "
        "write views themselves.",
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    }
    meaning = {
        "description": "What classes and columns are called, and how values become integers. It "
        "changes nothing that the network computes.",
        "type": "object",
    }
    stages = [{"$ref": f"#/$defs/{kind}"} for kind in OPERATIONS]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:sbnn-hw:netlist-view:2",
        "title": "The view of an sbnn-hw netlist",
        "description": "An integer network of neurons that count bits, and of integer streams "
        "between them. docs/netlist.md "
        "tells what it computes. What no schema can say (sizes that fit each other, thresholds "
        "within reach) is checked when it is read.",
        **object_of(
            {"digest": digest, "meaning": meaning},
            format={"const": FORMAT},
            version={
                "description": "2 where the network has integer streams.",
                "enum": list(VERSIONS),
            },
            input={
                "description": "What the network receives: raw pixels, row by row, channels "
                "together.",
                **pixels,
            },
            stages=list_of({"oneOf": stages}, minItems=1),
        ),
        "$defs": {kind: _stage_schema(operation) for kind, operation in OPERATIONS.items()},
    }


def _stage_schema(operation: type[Operation]) -> Schema:
    least, source = operation.arity, {"type": "integer", "minimum": -1}
    most = operation.most_sources or least
    naturals = list_of({"type": "integer", "minimum": 0})
    return object_of(
        name={"type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$"},
        sources={
            "description": "The stages it receives from, by number; -1 is the network's input.",
            **list_of(source, minItems=least, maxItems=most),
        },
        operation=object_of(operation.optional, kind={"const": operation.kind}, **operation.schema),
        ones={"type": ["integer", "null"], "minimum": 0},
        kernels={"oneOf": [{"type": "null"}, naturals]},
        absent=naturals,
    )


def to_view(network: Network) -> dict[str, Any]:
    """Return a network as plain values."""
    description = file.describe(network, _listed, names=True)
    view: dict[str, Any] = {"format": FORMAT, "version": network.schema, **description}
    for stage in view["stages"]:
        if taps := stage["operation"].get("taps"):
            stage["operation"]["taps"] = _by_neuron(taps)
    return {**view, "digest": network.digest}


def _listed(array: Array) -> Any:
    return array.tolist()


def _by_neuron(taps: dict[str, Any]) -> dict[str, Any]:
    ends = np.cumsum([0, *taps["fan_in"]]).tolist()
    spans = list(pairwise(ends))
    inverted = taps["inverted"]
    return {
        "width": taps["width"],
        "inputs": [taps["indices"][start:end] for start, end in spans],
        "inverted": None if inverted is None else [inverted[start:end] for start, end in spans],
    }


def from_view(view: Any) -> Network:
    """Make a network of plain values; whatever they are, all is checked."""
    try:
        if not isinstance(view, dict) or view.get("format") != FORMAT:
            raise Damaged(f"its format is not {FORMAT!r}")
        if (version := view.get("version")) not in VERSIONS or isinstance(version, bool):
            raise ModelRejected(
                f"it has version {version!r:.20}, but this sbnn-hw reads {VERSIONS[0]} to "
                f"{VERSIONS[-1]}"
            )
        network = file.read_network(_with_flat_taps(view), _Lists())
        if version < network.schema:
            raise Damaged(f"its version must be {network.schema}, not {version}")
        if view.get("digest", network.digest) != network.digest:
            raise Damaged(
                "its digest does not match its content; remove the digest if you change the file"
            )
    except (Damaged, ValueError, OverflowError, RecursionError, TypeError, MemoryError) as error:
        raise ModelRejected(f"it is not a view of a netlist ({error})") from None
    return network


def _with_flat_taps(view: dict[str, Any]) -> dict[str, Any]:
    stages = []
    for stage in get(view, "stages", list):
        operation = get(stage, "operation", dict)
        if "taps" in operation:
            taps = get(operation, "taps", dict)
            inputs = _rows(get(taps, "inputs", list), "inputs")
            inverted = get(taps, "inverted", (list, type(None)))
            if inverted is not None:
                inverted = _rows(inverted, "inverted")
                if [len(row) for row in inverted] != [len(row) for row in inputs]:
                    raise Damaged("inverted must have one value per input")
                inverted = [value for row in inverted for value in row]
            flat = {
                "width": get(taps, "width", int),
                "fan_in": [len(row) for row in inputs],
                "indices": [value for row in inputs for value in row],
                "inverted": inverted,
            }
            stage = {**stage, "operation": {**operation, "taps": flat}}
        stages.append(stage)
    return {**view, "stages": stages}


def _rows(value: list[Any], name: str) -> list[list[Any]]:
    if not all(isinstance(row, list) for row in value):
        raise Damaged(f"{name} must have one list per neuron")
    return value


class _Lists:
    """Reads arrays that are lists of integers or of booleans, or lists of such lists."""

    def __call__(self, value: Any) -> Array:
        if not isinstance(value, list):
            raise Damaged(f"a list is missing: {value!r:.40}")
        rows = value if value and isinstance(value[0], list) else [value]
        kinds = {type(x) for row in rows if isinstance(row, list) for x in row}
        if not all(isinstance(row, list) for row in rows) or not kinds <= {int, bool}:
            raise Damaged("a list must hold integers, or booleans, or lists of them")
        if len(kinds) > 1 or len({len(row) for row in rows}) > 1:
            raise Damaged("a list mixes kinds or lengths")
        if any(not -(1 << 62) < x < 1 << 62 for row in rows for x in row):
            raise Damaged("a number needs more than 62 bits")
        array = np.array(value, dtype=bool if kinds == {bool} else np.int64)
        return array if array.size else np.zeros(array.shape, np.int64)

    def close(self) -> None:
        """Nothing is left over in lists."""


def save_view(network: Network, path: str | Path) -> None:
    """Write a network as JSON, whole or not at all."""
    text = json.dumps(to_view(network), sort_keys=True, separators=(",", ":")) + "\n"
    write_atomically(path, lambda out: out.write(text.encode("ascii")))


def load_view(path: str | Path) -> Network:
    """Read a network that is written as JSON."""
    with opened_model(path, "view of a netlist", "make one with `sbnn-hw export`") as out:
        content = out.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ModelRejected(f"{path} is larger than the {LARGEST:,} bytes that are read")
    try:
        view = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ModelRejected(f"{path} is not text (byte {error.start:,})") from None
    except (ValueError, RecursionError) as error:
        raise ModelRejected(f"{path} is not JSON ({error})") from None
    with naming(f"{path}: "):
        return from_view(view)
