"""ONNX graphs made by hand: a small writer, and random networks in QONNX's operators."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"
CUSTOM = ("BipolarQuant", "Quant", "MultiThreshold")


class Writer:
    """Writes a chain of nodes; constants are arrays."""

    def __init__(self, shape, *, kind=TensorProto.FLOAT):
        self.input = helper.make_tensor_value_info("image", kind, [1, *shape])
        self.tensor, self.nodes, self.constants, self.metadata = "image", [], [], {}
        self.opset, self.annotations, self.output_shape = 13, {}, None
        self.output_kind = TensorProto.FLOAT

    def constant(self, array, dtype=np.float32):
        name = f"c{len(self.constants)}"
        values = np.asarray(array)
        values = values if values.dtype == np.int64 else values.astype(dtype)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, op, *more, left=False, outputs=1, name=None, **attributes):
        """Add a node that reads the last tensor, and constants or names behind it."""
        names = [x if isinstance(x, str) else self.constant(x) for x in more]
        inputs = [*names, self.tensor] if left else [self.tensor, *names]
        name = name or f"n{len(self.nodes)}_{op}"
        made = [f"{name}_out{n}" for n in range(outputs)]
        domain = QONNX if op in CUSTOM else None
        self.nodes.append(
            helper.make_node(op, inputs, made, name=name, domain=domain, **attributes)
        )
        self.tensor = made[0]
        return self

    def fixed(self, op, *inputs, **attributes):
        """Add a node of constants; return the name of what it makes."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        name = f"n{len(self.nodes)}_{op}"
        domain = QONNX if op in CUSTOM else None
        self.nodes.append(
            helper.make_node(op, names, [f"{name}_out"], name=name, domain=domain, **attributes)
        )
        return f"{name}_out"

    def model(self, classes=None):
        shape = [1, classes] if classes else None
        output = helper.make_tensor_value_info(self.tensor, self.output_kind, shape)
        graph = helper.make_graph(self.nodes, "graph", [self.input], [output], self.constants)
        for name, kind in self.annotations.items():
            item = graph.quantization_annotation.add()
            item.tensor_name = name
            pair = item.quant_parameter_tensor_names.add()
            pair.key, pair.value = "finn_datatype", kind
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
        helper.set_model_props(model, self.metadata)
        return model

    def save(self, path, classes=None):
        path.write_bytes(self.model(classes).SerializeToString())
        return path


ONE = np.array([1.0])
QUARTERS = np.arange(-8, 9) / 4


def random_weights(rng, w, shape):
    """Return weights of a random kind: an array, or the name of what quantises one."""
    kind = rng.choice(["bipolar", "channels", "ternary", "masked", "zero", "two", "plain", "quant"])
    latent = rng.normal(0, 1, shape)
    around = (-1,) + (1,) * (len(shape) - 1)
    scale = float(rng.choice([1, 0.5, 2, -1]))
    if kind == "bipolar":
        return w.fixed("BipolarQuant", latent, np.array([scale]))
    if kind == "channels":
        scales = rng.choice([-2, -0.5, 0.5, 1, 3], shape[0]).reshape(around)
        return w.fixed("BipolarQuant", latent, scales)
    if kind == "ternary":
        levels = (np.array([abs(scale)]), np.array(0.0), np.array(2.0))
        return w.fixed("Quant", latent, *levels, signed=1, narrow=1, rounding_mode="ROUND")
    if kind == "masked":
        mask = (rng.random(shape) < 0.4).astype(float)
        return w.fixed("Mul", w.fixed("BipolarQuant", latent, ONE), mask)
    if kind == "zero":
        return (rng.random(shape) < 0.3) * scale
    if kind == "two":
        low, high = rng.choice(np.setdiff1d(QUARTERS, [0]), 2, replace=False)
        return np.where(rng.random(shape) < 0.3, low, high)
    if kind == "quant":
        levels = (np.array([abs(scale)]), np.array(0.0), np.array(1.0))
        return w.fixed("Quant", latent, *levels, signed=1, narrow=0, rounding_mode="ROUND")
    return np.sign(latent) * np.abs(rng.choice([1, 0.5], shape[0])).reshape(around)


def random_quantiser(rng, w, channels, around):
    """Close a layer by a random quantiser of one bit."""
    kind = rng.choice(["bipolar", "unsigned", "signed", "threshold", "signs"])
    scale = float(rng.choice([1, 0.5, 2]))
    if kind == "bipolar":
        w.add("BipolarQuant", np.array([scale * rng.choice([-1, 1])]))
    elif kind == "unsigned":
        mode = str(rng.choice(["ROUND", "FLOOR", "CEIL", "HALF_UP", "HALF_DOWN", "UP", "DOWN"]))
        zero = float(rng.choice([0, 0, 1]))
        w.add(
            "Quant", np.array([scale]), np.array(zero), ONE, signed=0, narrow=0, rounding_mode=mode
        )
    elif kind == "signed":
        w.add(
            "Quant",
            np.array([scale]),
            np.array(0.0),
            ONE,
            signed=1,
            narrow=0,
            rounding_mode="ROUND",
        )
    elif kind == "threshold":
        levels = rng.choice(QUARTERS, (channels, 1))
        w.add("MultiThreshold", levels, out_dtype="INT2", out_scale=2 * scale, out_bias=-scale)
    else:
        w.add("BipolarQuant", rng.choice([-1.0, 1.0], (1, channels, *around)))


def random_affine(rng, w, channels, around):
    """Add scales, offsets and a batch norm in any order; all of them exact in floats."""
    shape = (1, channels, *around)
    steps = ["Mul", "Add", "Sub", "Div", "Neg", "from", "norm"]
    normed = False
    for step in rng.choice(steps, int(rng.integers(0, 4)), replace=False):
        per_channel = rng.random() < 0.5
        size = shape if per_channel else (1,)
        if step == "Mul":
            w.add("Mul", rng.choice([-2, -1, 0.5, 1, 2], size), left=rng.random() < 0.5)
        elif step == "Div":
            w.add("Div", rng.choice([-2, -1, 0.5, 1, 4], size))
        elif step == "Add":
            w.add("Add", rng.choice(QUARTERS, size), left=rng.random() < 0.5)
        elif step == "Sub":
            w.add("Sub", rng.choice(QUARTERS, size))
        elif step == "from":
            w.add("Sub", rng.choice(QUARTERS, size), left=True)
        elif step == "Neg":
            w.add("Neg")
        elif not normed:
            normed = True
            gain = rng.choice(
                [-2.0, -1.0, 0.0, 0.5, 1.0], channels, p=[0.2, 0.25, 0.05, 0.25, 0.25]
            )
            # √(3 + 1) is a whole number, so that ties are ties in floats too.
            parts = (gain, rng.choice(QUARTERS, channels), rng.choice(QUARTERS * 4, channels))
            w.add("BatchNormalization", *parts, np.full(channels, 3.0), epsilon=1.0)


def random_layer(rng, w, shape, quantised):
    """Add a convolution or linear layer and what closes it; return the shape behind it."""
    channels, height, width = shape
    kernel = int(rng.integers(1, 4))
    groups = int(rng.choice([g for g in (1, 2) if channels % g == 0]))
    outputs = groups * int(rng.integers(1, 4))
    pad, stride = int(rng.integers(0, kernel)), int(rng.integers(1, 3))
    if min(height, width) + 2 * pad < kernel:
        kernel, pad = 1, 0
    attributes = {"strides": [stride, stride], "group": groups}
    style = rng.choice(["own", "node", "none"]) if pad else "none"
    if style == "node":
        pads = np.array([0, 0, pad, pad, 0, 0, pad, pad])
        value = np.array(rng.choice([-1.0, 0.0, 1.0]) if quantised else 0.0)
        w.add("Pad", pads, value, mode="constant")
    elif style == "own":
        attributes["pads"] = [pad] * 4
    else:
        pad = 0
        if min(height, width) < kernel:
            kernel = 1
    weights = random_weights(rng, w, (outputs, channels // groups, kernel, kernel))
    weights = weights if isinstance(weights, str) else w.constant(weights)
    bias = [rng.choice(QUARTERS, outputs)] if rng.random() < 0.4 else []
    w.add("Conv", weights, *bias, kernel_shape=[kernel, kernel], **attributes)
    height, width = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
    pool = min(height, width) >= 2 and rng.random() < 0.6
    place = int(rng.integers(3))
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    if pool and place == 0:
        w.add("MaxPool", **window)
    random_affine(rng, w, outputs, (1, 1))
    if pool and place == 1:
        w.add("MaxPool", **window)
    random_quantiser(rng, w, outputs, (1, 1))
    if pool and place == 2:
        w.add("MaxPool", **window)
    if pool:
        height, width = height // 2, width // 2
    return outputs, height, width


def random_graph(rng):
    """Return the writer of a random network, how pixels are fed, the image and the classes."""
    channels = int(rng.choice([1, 2]))
    shape = (channels, int(rng.integers(3, 6)), int(rng.integers(3, 6)))
    how = str(rng.choice(["signed", "unit", "raw", "fixed"]))
    w = Writer(shape)
    w.metadata["sbnn_hw.layout"] = "NCHW"  # some of these images look like channels last
    quantised = True
    if how == "raw":
        if rng.random() < 0.5:
            w.add("Sub", rng.choice([100, 127.5, 200], (1, channels, 1, 1)))
            w.add("BipolarQuant", ONE)
        else:
            quantised = False
    elif how == "fixed":
        bits = (np.array([2.0**-7]), np.array(0.0), np.array(8.0))
        w.add("Quant", *bits, signed=1, narrow=0, rounding_mode="ROUND")
        quantised = False
    else:
        if how == "unit":
            w.add("Mul", np.array(2.0)).add("Sub", np.array(1.0))
        w.add("BipolarQuant", np.array([rng.choice([1.0, -1.0, 0.5])]))
    for _ in range(int(rng.integers(0, 3))):
        shape = random_layer(rng, w, shape, quantised)
        quantised = True
    size = int(np.prod(shape))
    style = rng.choice(["flatten", "reshape", "last"])
    if style == "flatten":
        w.add("Flatten")
    elif style == "reshape":
        w.add("Reshape", np.array([1, -1]))
    else:
        w.add("Transpose", perm=[0, 2, 3, 1]).add("Reshape", np.array([1, size]))
    for _ in range(int(rng.integers(0, 3))):
        outputs = int(rng.integers(2, 7))
        weights = random_weights(rng, w, (outputs, size))
        if rng.random() < 0.5:
            bias = [rng.choice(QUARTERS, outputs)] if rng.random() < 0.5 else []
            weights = weights if isinstance(weights, str) else w.constant(weights)
            w.add("Gemm", weights, *bias, transB=1, alpha=0.5, beta=2.0)
        else:
            w.add("MatMul", w.fixed("Transpose", weights, perm=[1, 0]))
        random_affine(rng, w, outputs, ())
        random_quantiser(rng, w, outputs, ())
        size = outputs
    classes = int(rng.integers(2, 6))
    weights = np.where(rng.random((size, classes)) < 0.5, -1.0, 1.0)
    if rng.random() < 0.5:
        weights *= rng.random((size, classes)) < 0.5
    w.add("MatMul", weights)
    if rng.random() < 0.5:
        w.add("Add", rng.choice(QUARTERS, (1, classes)))
    w.add("Mul", np.array(float(rng.choice([0.5, 1, -2]))))
    return w, how, classes
