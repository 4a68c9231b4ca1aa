"""How encoders, tables, flattening and pools are written."""

import numpy as np

from sbnn_hw.qonnx.export import Exported, Exporting, Writer, exports
from sbnn_hw.qonnx.export_parts import around, as_integers, window_of


@exports("encode")
def _encode(place: Exporting) -> Exported:
    name, thresholds, flips = place.name, place.operation.thresholds, place.operation.flips

    def write(writer: Writer) -> None:
        as_integers(writer, place)
        channels, planes = thresholds.shape
        if planes > 1:
            repeat = writer.constant(f"{name}_of", np.repeat(np.arange(channels), planes))
            writer.node(f"{name}_repeat", "Gather", repeat, axis=1)
        shape = (1, -1, *around(place.edge))
        levels = (thresholds - 0.5).reshape(shape)
        writer.node(name, "Sub", writer.constant(f"{name}_levels", levels))
        if flips is not None:
            turned = np.where(flips, -1.0, 1.0).reshape(shape)
            writer.node(f"{name}_turn", "Mul", writer.constant(f"{name}_turns", turned))
        writer.sign(name)

    reach = 2 * max(abs(place.edge.low), abs(place.edge.high)) + 1
    return Exported(write, float(reach), signs=True)


@exports("levels")
def _levels(place: Exporting) -> Exported:
    name, table = place.name, place.operation.table

    def write(writer: Writer) -> None:
        # The pixel from which on each level is reached.
        steps = np.searchsorted(table, np.arange(1, table[-1] + 1))
        kind = f"UINT{int(table[-1]).bit_length()}"
        thresholds = writer.constant(f"{name}_steps", steps[None].astype(np.float64), "UINT8")
        writer.node(name, "MultiThreshold", thresholds, out_dtype=kind)
        writer.kinds[writer.tensor] = kind

    return Exported(write)


@exports("flatten")
def _flatten(place: Exporting) -> Exported:
    name, edge = place.name, place.edge

    def write(writer: Writer) -> None:
        if len(edge.shape) == 3:
            writer.node(f"{name}_last", "Transpose", perm=[0, 2, 3, 1])
            shape = writer.constant(f"{name}_shape", np.array([0, edge.size], np.int64))
            writer.node(name, "Reshape", shape)

    return Exported(write, signs=None)


@exports("max_pool2d")
def _pool(place: Exporting) -> Exported:
    name, pool = place.name, place.operation

    def write(writer: Writer) -> None:
        signs = np.where(pool.all_of, -1.0, 1.0).reshape(1, -1, 1, 1)
        turned = pool.all_of.any()
        if turned:
            writer.node(f"{name}_turn", "Mul", writer.constant(f"{name}_signs", signs))
        writer.node(name, "MaxPool", **window_of(pool.window))
        if turned:
            writer.node(f"{name}_back", "Mul", f"{name}_signs")

    return Exported(write, signs=None)
