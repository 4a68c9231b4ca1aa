"""Evaluate an ONNX file node by node, by qonnx's own executor, on a batch of images."""

import warnings

import numpy as np
import onnx
from onnx import numpy_helper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes


def feed(pixels, how):
    """Return what a graph is fed for raw pixels (count, height, width, channels)."""
    p = pixels.transpose(0, 3, 1, 2).astype(np.float64)
    values = {"signed": (2 * p - 255) / 255, "unit": p / 255, "raw": p, "fixed": (p - 128) / 128}
    return values[how].astype(np.float32)


def with_batch(model, count):
    """Return a model for another number of images: shapes of reshapes have it in front."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.value_info[:]
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:
            target = numpy_helper.to_array(tensor).copy()
            target[0] = count
            tensor.CopyFrom(numpy_helper.from_array(target, tensor.name))
    constants = {tensor.name for tensor in model.graph.initializer}
    images = [value for value in model.graph.input if value.name not in constants]
    for value in (*images, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = count
    return model


def evaluate(path, x, *, chunk=250):
    """Return every tensor of the graph, by name, for a batch of inputs."""
    model = onnx.load(path)
    if model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
        x = x.astype(np.float64)
    parts = []
    for start in range(0, len(x), chunk):
        part = x[start : start + chunk]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrapper = ModelWrapper(with_batch(model, len(part))).transform(InferShapes())
            image = wrapper.graph.input[0].name
            context = execute_onnx(wrapper, {image: part}, return_full_exec_context=True)
        made = [name for node in wrapper.graph.node for name in node.output]
        parts.append({name: context[name] for name in made if len(context[name]) == len(part)})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def differences(imported, tensors, pixels):
    """Return for each stage how many of its values are not what the graph has, and for the class.

    An executor rounds the products with scales; integers are compared to within that.
    """
    outcome = imported.network.compute(pixels, keep=list(imported.traces))
    wrong = {}
    for stage, trace in imported.traces.items():
        values = outcome.values[stage].reshape(len(pixels), -1)[:, trace.index]
        got = values * trace.scale + trace.offset
        near = np.abs(got - tensors[trace.tensor]) <= np.abs(trace.scale) / 1024
        wrong[stage] = int((~near).sum())
    return outcome, wrong


def reference_scores(path, x):
    """Return what onnx's own reference makes of doubles, for which onnxruntime has no Conv."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BipolarQuant(OpRun):
        op_domain = "qonnx.custom_op.general"

        def _run(self, x, scale):
            return (np.where(x >= 0, scale, -scale),)

    model = with_batch(onnx.load(path), len(x))
    evaluator = ReferenceEvaluator(model, new_ops=[BipolarQuant])
    return evaluator.run(None, {model.graph.input[0].name: x})[0]
