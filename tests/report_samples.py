"""Reports to test with: one that went well, one that knows little, and some that strain the page."""

from dataclasses import replace

from sbnn_hw.report import Report, schema
from sbnn_hw.report.form import Each, Maybe, Record, Table

#: What a name may hold, at worst, and where each of the report's texts is put.
NASTY = "<script>alert(1)</script>\"'&amp;\n\x00\x1b\u202e\udcff</style><img src=x onerror=y>"


def fan_in(histogram):
    present = sorted(map(int, histogram))
    return schema.FanIn(least=present[0], most=present[-1], histogram=histogram)


def sample():
    """Return a report of a build that went well, with something in every field."""
    confusion = [[0] * 10 for _ in range(10)]
    for index in range(10):
        confusion[index][index] = 960 + index
    confusion[4][9], confusion[7][2] = 217, 138
    return Report(
        schema=1,
        model="mnist_sfc_98.pt",
        network="350299b2c42650c5d3cc2e1ee3cd395212f98ea839ba8d590be74ed71953d0ca",
        board="arty_a7",
        board_title="Digilent Arty A7-35T",
        part="xc7a35ticsg324-1L",
        family="xc7",
        connections=6675,
        weights=334336,
        ones=6686,
        density=6686 / 334336,
        luts=5519,
        ffs=15543,
        bram=0,
        carries=3,
        dsps=0,
        luts_per_connection=5519 / 6675,
        counted_by="Yosys 0.70, synth_xilinx",
        design=schema.Cells(
            luts=6331, ffs=22643, bram=0.5, carries=47, dsps=0, srls=180, lutram=24
        ),
        placed={"TRELLIS_COMB": (6200, 24288)},
        capacity=schema.Available(luts=20800, ffs=41600, bram=50),
        estimate=schema.EstimatedCells(core=5569, shell=800, registers=22000, brams=1, luts=6369),
        clock_mhz=100.0,
        fmax_mhz=112.37,
        timing=schema.RoutedTiming(met=True, worst="linear0, rank 3", tool="nextpnr-xilinx 0.8"),
        uart=schema.Uart(baud=2000000, clocks_per_bit=50),
        link="USB",
        load="openFPGALoader design.bit",
        latency_cycles=38,
        initiation_interval=1,
        latency_ns=380.0,
        images_per_second=1e8,
        link_images_per_second=251.6,
        levels_per_stage=3,
        energy_estimate=schema.EnergyEstimate.of(
            toggles=10552.153,
            images=1000,
            picojoules=0.27,
            factor=4,
            source="Assumed, from a smaller family.",
            static="Static power is not in it.",
        ),
        plan=schema.PlanSummary(
            title="gaps, 4 lanes",
            why="the smallest plan that reaches 30,000 images/s",
            pace="linear0 sets the pace: 1,812 of 2,618 cycles; 8 lanes give 1,340",
            parts=(
                schema.PlannedPart(
                    form="gaps",
                    lanes=4,
                    cycles=2618,
                    tables=420,
                    block_ram=4.5,
                    stages=(
                        schema.PlannedStage(
                            name="linear0", cycles=1812, tables=None, program_bits=40_000
                        ),
                        schema.PlannedStage(
                            name="scores", cycles=806, tables=None, program_bits=20_000
                        ),
                    ),
                ),
            ),
            beats=784,
            interval=2618,
            shell_block_ram=2,
        ),
        stages=(
            schema.PipelineStage(
                name="encode", kind="encode", width=784, tables=0, registers=0, shape=(28, 28, 1)
            ),
            schema.PipelineStage(
                name="flatten0", kind="flatten", width=0, tables=0, registers=0, shape=(784,)
            ),
            schema.PipelineStage(
                name="linear0",
                kind="linear",
                sources=(1,),
                width=256,
                bits=1,
                signed=False,
                connections=3850,
                tables=3207,
                registers=9774,
                block_ram=0.5,
                queues=(
                    schema.StageQueue(
                        source=1, depth=1, bits=784, tables=1, registers=785, block_ram=0
                    ),
                ),
                latency=16,
                shape=(256,),
                fan_in=fan_in({"0": 6, "3": 100, "15": 149, "46": 1}),
                xi=-3,
                k=7,
                neurons=256,
                additions=0,
                multiplications=0,
            ),
            schema.PipelineStage(
                name="scores",
                kind="scores",
                width=104,
                connections=222,
                tables=244,
                registers=789,
                latency=5,
                shape=(10,),
                fan_in=fan_in({"8": 1, "22": 9}),
                xi=0,
                k=0,
                neurons=10,
            ),
        ),
        input=schema.NetworkInput(shape=(28, 28, 1), bits=8, beats=1, width=6272),
        output=schema.NetworkOutput(
            classes=10, width=104, names=("0", "1", "2", "3", "four", "5", "6", "7", "8", "nine")
        ),
        bops=schema.Operations(
            static=7971, measured=7971, dense=668672, paper=6686, additions=0, multiplications=0
        ),
        bops_layers=(
            schema.LayerOperations(name="linear0", sparse=4634, dense=401408, q=784),
            schema.LayerOperations(name="scores", sparse=222, dense=5120, q=0),
        ),
        kernels=schema.KernelCounts(
            histogram=(4120, 2210, 980, 410, 160, 60, 22, 9, 3, 1),
            k0=0.5166,
            k1=0.2771,
            bops_pr=0.7937,
            sparse_pr=0.9044,
            bparams_pr=-0.0463,
        ),
        agreement=schema.Comparison(
            vectors=10000,
            images="mnist",
            cycles=10038,
            scores=True,
            latency=38,
            interval=1.0,
            mismatches=0,
            violations=0,
            stalls=False,
        ),
        accuracy=9645 / 10000,
        correct=9645,
        data="mnist",
        confusion=tuple(map(tuple, confusion)),
        steps=(
            schema.BuildStep(name="netlist", seconds=1.21, cached=True, file="network.sbnn"),
            schema.BuildStep(name="rtl", seconds=12.34, cached=False, file="top.v"),
            schema.BuildStep(name="bitstream", seconds=75.1, cached=False, file="top.bit"),
        ),
        missing="Nothing is missing.",
        bitstream="top.bit",
        tools={"yosys": "0.70", "verilator": "5.48.0"},
        digest="8f" * 32,
        version="0.1.0",
    )


def change(**fields):
    """Return the sample with other values; those of a dictionary go into a record."""
    built = sample().to_dict()
    for name, value in fields.items():
        if isinstance(value, dict):
            built[name].update(value)
        else:
            built[name] = value
    return Report.read(built)


def blank(**fields):
    """Return a report in which all is null that may be."""
    return Report.read(_blank(sample().to_dict(), schema.FORM) | fields)


def _blank(value, part):
    match part:
        case Maybe():
            return None
        case Record(_, fields):
            return {name: _blank(value[name], field.part) for name, field in fields.items()}
        case Each(item):
            return [_blank(inner, item) for inner in value]
        case Table(_, inner):
            return {name: _blank(item, inner) for name, item in value.items()}
        case _:
            return value


def nasty():
    """Return a report in which every text, names of tools too, is as bad as it can be."""
    return Report.read(_nasty(sample().to_dict()))


def _nasty(value):
    if isinstance(value, str):
        return NASTY
    if isinstance(value, dict):
        return {
            (NASTY if key == "yosys" else key): inner if key == "histogram" else _nasty(inner)
            for key, inner in value.items()
        }
    return [_nasty(inner) for inner in value] if isinstance(value, list) else value


def hard():
    """Return a report that strains the page: long names, many classes, words and failures."""
    name = "a_very_long_name_without_any_place_to_break_" * 5
    stage = sample().to_dict()["stages"][2] | {"name": name, "kind": name, "sources": None}
    stage["queues"] = []
    built = change(
        model=f"{name}.pt",
        board_title=name,
        part=name,
        counted_by=name,
        missing=f"{name} " * 3,
        stages=[stage] * 30,
        bops_layers=[{"name": name, "sparse": 10**15 - 1, "dense": 10**18 - 1, "q": 10**14}],
        steps=[{"name": name, "seconds": 12345.6, "cached": True, "file": f"{name}.v"}] * 9,
        images_per_second=123456789012.0,
        latency_ns=123456789012.0,
        input={"beats": 150528, "width": 24},
        design={"luts": 31400},
        agreement={"mismatches": 1},
        output={"classes": 20, "names": [name] * 20},
        confusion=[[12345] * 20 for _ in range(20)],
        correct=20 * 12345,
        timing={"met": False, "worst": name},
    )
    return replace(built, tools={name: name})


def _stage(name, sources, queues=(), **fields):
    """Return a stage of a graph; queues are sources with depths."""
    bits, channels = fields.pop("bits", 6), fields.pop("channels", 16)
    return {
        **sample().to_dict()["stages"][1],
        **{"name": name, "kind": name.rstrip("0123456789"), "sources": list(sources)},
        **{"bits": bits, "signed": bits > 1, "width": bits * channels},
        **{"shape": [8, 8, channels], "tables": 240, "registers": 480, "latency": 6},
        **{"block_ram": 0, "connections": 136, "additions": 512, "multiplications": 96},
        "queues": [
            {"source": source, "depth": depth, "bits": 96, "tables": 64, "registers": 103,
             "block_ram": 0}
            for source, depth in queues
        ],
        **fields,
    }  # fmt: skip


def residual(blocks=1):
    """Return a report of a residual network: shortcuts straight down, and one with stages in it."""
    stages = [_stage("sums0", [-1], bits=12), _stage("affine0", [0])]
    for block in range(1, blocks + 1):
        entry, at = len(stages) - 1, len(stages)
        stages += [
            _stage(f"encode{block}", [entry], bits=1),
            _stage(f"conv{block}", [at], bits=1),
            _stage(f"sums{block}", [at + 1], bits=5),
        ]
        shortcut = entry
        if block % 2 == 0:
            stages += [
                _stage(f"pool{block}", [entry], bits=8),
                _stage(f"concat{block}", [at + 3, at + 3], bits=8, tables=0, registers=0),
            ]
            shortcut = len(stages) - 1
        queues = [(at + 2, 1), (shortcut, 28)]
        stages.append(_stage(f"affine{block}", [at + 2, shortcut], queues))
    scores = _stage("scores", [len(stages) - 1], bits=16, kind="scores", shape=[10], width=164)
    bops = {"additions": 6082, "multiplications": 1315}
    return change(stages=[*stages, scores], bops=bops)


def deep():
    """Return a report of a residual network as deep as ResNet-18, with a few more ways."""
    stages = residual(16).to_dict()["stages"]
    # Ways over several blocks, one within another, and ways between neighbours in two lanes.
    stages[-1]["sources"] += [1, 6, 14]
    stages[-1]["queues"] = [
        {"source": 1, "depth": 1000, "bits": 96, "tables": 9, "registers": 9, "block_ram": 1.5}
    ]
    stages[20]["name"] = "a_very_long_name_without_any_place_to_break"
    return change(stages=stages)


REPORTS = {"sample": sample, "blank": blank, "nasty": nasty, "hard": hard} | {
    "residual": lambda: residual(4),
    "deep": deep,
}
