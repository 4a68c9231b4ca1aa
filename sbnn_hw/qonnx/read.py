"""Read an ONNX file: bounded in memory, from that file alone, with every number checked.

The file's structure is walked before it is parsed, so that junk and files cut short are refused
at the byte where they go wrong, and parsing makes a bounded number of objects. Tensors are turned
into numbers only when a node reads them. Those in other files are refused, never opened.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected, ToolMissing
from sbnn_hw.files import opened_model
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Graph, Input, Node, shown

__all__ = ["DOMAINS", "LARGEST", "OPSETS", "read_graph", "require_onnx"]

#: Files above this many bytes are not read; a network of 60 million float weights is below.
LARGEST = 256 << 20

#: The versions of ONNX's own operators that are supported, first and last.
OPSETS = (9, 26)

#: Where operators may come from, beside ONNX itself.
DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")

#: The prefix of metadata that are ours.
HINT = "sbnn_hw."

# Fields of the outermost message, by number: those that hold a number, and those with a length.
_NUMBERS, _LENGTHS = {1, 5}, {2, 3, 4, 6, 7, 8, 14, 20, 25, 26}
_GRAPH = 7
#: Parts that a file is walked through: of the model itself, and of all that it holds.
_MOST_OUTER, _MOST = 1 << 12, 1 << 17
#: Bytes of integers that parsing makes up to eight times as large.
_MOST_PACKED = 16 << 20
# Kinds of fields as protobuf numbers them: text and bytes; integers of one byte or more.
_BYTES, _VARINTS = (9, 12), (3, 4, 5, 13)
_TYPES: dict[int, tuple[str, str, str]] = {
    1: ("float32", "<f4", "float_data"),
    2: ("uint8", "|u1", "int32_data"),
    3: ("int8", "|i1", "int32_data"),
    4: ("uint16", "<u2", "int32_data"),
    5: ("int16", "<i2", "int32_data"),
    6: ("int32", "<i4", "int32_data"),
    7: ("int64", "<i8", "int64_data"),
    9: ("bool", "|b1", "int32_data"),
    11: ("float64", "<f8", "double_data"),
    12: ("uint32", "<u4", "uint64_data"),
}
_NAMES = {10: "float16", 16: "bfloat16", 8: "string", 14: "complex64", 15: "complex128"}


def require_onnx() -> None:
    """Make sure that onnx is there before something needs it."""
    if importlib.util.find_spec("onnx") is None:
        raise ToolMissing("ONNX files need the onnx package (pip install 'sbnn-hw[qonnx]')")


def read_graph(path: str | Path) -> Graph:
    """Read a file and return its graph; what is wrong is said in one sentence."""
    require_onnx()
    with opened_model(path, "ONNX file") as file:
        try:
            return _graph(_parse(_content(file)))
        except ModelRejected as error:
            raise ModelRejected(f"{path}: {shown(str(error), 1000)}") from None


def _content(file: BinaryIO) -> bytes:
    """Return what a file holds, after its structure is walked through."""
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise ModelRejected(f"it has {size:,} bytes, more than the limit of {LARGEST:,}")
    _walk(file, size)
    file.seek(0)
    return file.read(LARGEST + 1)


# The outer structure


def _walk(file: BinaryIO, size: int) -> None:
    """Walk over all parts of the model without reading the numbers and texts that they hold."""
    from onnx import ModelProto

    count = packed = graphs = 0
    pending = [(0, size, ModelProto.DESCRIPTOR)]
    while pending:
        first, last, message = pending.pop()
        outer = message.name == "ModelProto"
        for at, number, start, end in _fields(file, first, last, message.name):
            field = message.fields_by_number.get(number)
            count += 1
            graphs += outer and number == _GRAPH
            if field is not None and end > start:
                if field.message_type is not None:
                    pending.append((start, end, field.message_type))
                elif field.type not in _BYTES and message.name != "TensorProto":
                    count += end - start  # a packed list becomes Python's numbers
                elif field.type in _VARINTS:
                    packed += end - start
            most = _MOST_OUTER if outer else _MOST
            if count > most:
                raise ModelRejected(
                    f"it is not ONNX: it has more than {most:,} parts, up to byte {at:,}"
                )
            if packed > _MOST_PACKED:
                raise ModelRejected(
                    f"its tensors hold more than {_MOST_PACKED:,} bytes of packed integers; store "
                    f"them as raw data"
                )
    if graphs != 1:
        raise ModelRejected(
            f"it holds {graphs or 'no'} graph{'s' * (graphs > 1)} in its {size:,} bytes; is it an "
            f"ONNX file?"
        )


def _fields(
    file: BinaryIO, start: int, end: int, message: str
) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each field of a message begins, its number, and start and end of its content.

    A field without a length has no content.
    """
    what = {"ModelProto": "a model", "GraphProto": "a graph"}.get(message, "a part of the graph")
    at = start
    while at < end:
        file.seek(at)
        head = file.read(min(20, end - at))
        try:
            tag, used = _varint(head, 0)
            field, kind = tag >> 3, tag & 7
            known = (field in _NUMBERS and kind == 0) or (field in _LENGTHS and kind == 2)
            if kind not in (0, 1, 2, 5) or (message == "ModelProto" and not known):
                raise ModelRejected(f"it is not ONNX: byte {at:,} does not begin a part of {what}")
            length, used = _varint(head, used) if kind in (0, 2) else (0, used)
        except IndexError:
            raise ModelRejected(f"it is cut short or damaged at byte {at:,} of {what}") from None
        after = at + used + {0: 0, 1: 8, 2: length, 5: 4}[kind]
        if after > end:
            raise ModelRejected(
                f"it is cut short: the part that begins at byte {at:,} ends at {after:,}, beyond "
                f"byte {end:,} of {what}"
            )
        yield at, field, at + used if kind == 2 else after, after
        at = after


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError


def _parse(content: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, RecursionError, ValueError):
        raise ModelRejected(
            f"its {len(content):,} bytes are not an ONNX model, though they begin like one"
        ) from None
    return model


# The content


def _graph(model: Any) -> Graph:
    _check_opsets(model)
    graph = model.graph
    if model.functions:
        raise ModelRejected(
            f"function {model.functions[0].name!r:.80} is defined in the file; inline it first"
        )
    if graph.sparse_initializer:
        raise ModelRejected("it has sparse initialisers, which are not supported; store them dense")
    constants: dict[str, Callable[[], Constant]] = {}
    for tensor in graph.initializer:
        _text(tensor.name, "the name of an initialiser")
        if tensor.name in constants:
            raise ModelRejected(f"initialiser {tensor.name!r:.80} is defined twice")
        what = f"initialiser {tensor.name!r:.80}"
        constants[tensor.name] = partial(_constant, tensor, what)
    nodes = []
    for proto in graph.node:
        node = _node(proto)
        if node.op != "Constant":
            nodes.append(node)
            continue
        if node.outputs[0] in constants:
            raise node.refuse(f"makes {node.outputs[0]!r:.80}, which already exists")
        constants[node.outputs[0]] = partial(_constant_node, node)
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(f"{value.name!r:.80}" for value in inputs[:4]) or "none"
        raise ModelRejected(f"a network must have one input, the image, not {names}")
    if not graph.output:
        raise ModelRejected("the graph has no output")
    return Graph(
        _input(inputs[0], graph),
        tuple(_text(value.name, "the name of an output") for value in graph.output),
        tuple(nodes),
        _Unread(constants),
        {
            item.key.removeprefix(HINT): _text(item.value, "a value of the metadata")
            for item in model.metadata_props
            if isinstance(item.key, str) and item.key.startswith(HINT)
        },
    )


class _Unread(Mapping[str, Constant]):
    """Constants that are read when they are asked for."""

    def __init__(self, readers: dict[str, Callable[[], Constant]]) -> None:
        self.readers = readers

    def __getitem__(self, name: str) -> Constant:
        return self.readers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self.readers

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)


def _check_opsets(model: Any) -> None:
    if not model.opset_import:
        raise ModelRejected("it does not say which operator set it uses")
    for opset in model.opset_import:
        first, last = OPSETS
        if opset.domain in ("", "ai.onnx") and not first <= opset.version <= last:
            raise ModelRejected(
                f"it uses operator set {opset.version} of ONNX; {first} to {last} are supported, "
                f"so export it again with one of those"
            )


def _text(value: Any, what: str) -> str:
    """Return a string; what is no UTF-8 is handed on as bytes."""
    if not isinstance(value, str):
        raise ModelRejected(f"{what} is not text: {value!r:.60}")
    return value


def _node(proto: Any) -> Node:
    inputs = tuple(_text(name, "the input of a node") for name in proto.input)
    outputs = tuple(_text(name, "the output of a node") for name in proto.output)
    first = next(filter(None, outputs), "?")
    name = shown(_text(proto.name or first, "the name of a node"))
    op = _text(proto.op_type, f"the operator of node {name}")
    _text(proto.domain, f"the domain of node {name}")
    attributes = {
        _text(a.name, f"an attribute of node {name}"): _attribute(a, name) for a in proto.attribute
    }
    node = Node(name, op, inputs, outputs, {})
    if proto.domain not in ("", "ai.onnx", *DOMAINS):
        raise node.refuse(
            f"comes from {proto.domain!r:.80}; operators of ONNX and of {', '.join(DOMAINS)} are "
            f"supported"
        )
    if not any(node.outputs):
        raise node.refuse("makes nothing")
    return Node(node.name, node.op, node.inputs, node.outputs, attributes)


def _attribute(attribute: Any, name: str) -> Any:
    which = f"Node {name}: attribute {attribute.name!r:.80}"
    match attribute.type:
        case 1:
            if not np.isfinite(attribute.f):
                raise ModelRejected(f"{which} is {attribute.f}")
            return float(attribute.f)
        case 2:
            return int(attribute.i)
        case 3:
            return attribute.s.decode("utf-8", "replace")
        case 4:
            what = f"attribute {attribute.name!r:.80} of node {name}"
            return partial(_constant, attribute.t, what)
        case 6:
            return tuple(float(value) for value in attribute.floats)
        case 7:
            return tuple(int(value) for value in attribute.ints)
        case 8:
            return tuple(value.decode("utf-8", "replace") for value in attribute.strings)
    raise ModelRejected(f"{which} has an unsupported type")


def _constant_node(node: Node) -> Constant:
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if key in node.attributes:
            value = node.attributes[key]
            if callable(value):
                read: Constant = value()
                return read
            if isinstance(value, str) or any(isinstance(n, str) for n in np.atleast_1d(value)):
                break
            return Constant.of(np.array(value))
    raise node.refuse("has no numbers")


def _type_name(kind: int) -> str:
    return _NAMES.get(kind, f"type {kind}")


def _constant(tensor: Any, what: str) -> Constant:
    """Return the numbers of a tensor, after its size is found to be right."""
    if tensor.data_location == 1 or tensor.external_data:
        where = next((item.value for item in tensor.external_data if item.key == "location"), "?")
        raise ModelRejected(
            f"{what} is stored in another file, {where!r:.200}, which is not read; save the model "
            f"in one file"
        )
    if tensor.data_type not in _TYPES:
        raise ModelRejected(
            f"{what} has {_type_name(tensor.data_type)} numbers; use float32 or float64"
        )
    _, code, field = _TYPES[tensor.data_type]
    if len(tensor.dims) > 32:
        raise ModelRejected(f"{what} has {len(tensor.dims):,} axes")
    shape = tuple(int(size) for size in tensor.dims)
    count = 1
    for size in shape:
        if not 0 <= size < 1 << 31:
            raise ModelRejected(f"{what} has a size of {size}")
        count *= size
    array: npt.NDArray[Any]
    if tensor.HasField("raw_data"):
        need = count * np.dtype(code).itemsize
        if len(tensor.raw_data) != need:
            raise ModelRejected(
                f"{what} of shape {shape} needs {need:,} bytes, but has {len(tensor.raw_data):,}"
            )
        array = np.frombuffer(tensor.raw_data, code)
    else:
        values = getattr(tensor, field)
        if len(values) != count:
            raise ModelRejected(
                f"{what} of shape {shape} needs {count:,} numbers, but has {len(values):,}"
            )
        wide = {"<f4": "<f4", "<f8": "<f8", "<u4": "<u8"}.get(code, "<i8")
        array = np.fromiter(values, wide, count).astype(code)
    try:
        return Constant.of(array.reshape(shape))
    except ValueError:
        raise ModelRejected(f"{what} cannot have the shape {shape}") from None
    except ModelRejected as error:
        raise ModelRejected(f"{what} {error}") from None


def _input(value: Any, graph: Any) -> Input:
    tensor = value.type.tensor_type
    _text(value.name, "the name of the input")
    if tensor.elem_type not in (1, 2, 11):
        kind = _TYPES[tensor.elem_type][0] if tensor.elem_type in _TYPES else None
        raise ModelRejected(
            f"input {value.name!r:.80} has {kind or _type_name(tensor.elem_type)} numbers; images "
            f"must be float32, float64 or uint8"
        )
    sizes = []
    for axis, dim in enumerate(tensor.shape.dim):
        known = dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0
        # The number of images may be left open; nothing else may.
        if not known and axis:
            label = dim.dim_param or "unknown"
            raise ModelRejected(
                f"input {value.name!r:.80} has a size that is not fixed, {label!r:.80} on axis "
                f"{axis}; export it with fixed shapes"
            )
        sizes.append(int(dim.dim_value) if known else 1)
    if len(sizes) < 2:
        raise ModelRejected(
            f"input {value.name!r:.80} must be images with the batch first, not of shape "
            f"{tuple(sizes)}"
        )
    if int(np.prod([float(size) for size in sizes[1:]])) > 1 << 22:
        raise ModelRejected(f"input {value.name!r:.80} has images of more than 4 million values")
    annotation = None
    for item in graph.quantization_annotation:
        if item.tensor_name == value.name:
            for pair in item.quant_parameter_tensor_names:
                if pair.key == "finn_datatype":
                    annotation = pair.value
    return Input(value.name, _TYPES[tensor.elem_type][0], tuple(sizes), annotation)
