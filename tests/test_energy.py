"""Energy is an estimate: it follows from toggles, has a band, and is never told as a measurement."""

import importlib.util
import json
import re

import pytest
from conftest import ROOT
from report_samples import blank, change, sample
from shells import small_network

from sbnn_hw import netlist
from sbnn_hw.cli import main
from sbnn_hw.families import find_fpga_family, fpga_families
from sbnn_hw.families.energy import Switching
from sbnn_hw.hardware import Folder
from sbnn_hw.images import random_images
from sbnn_hw.report import Report, render
from sbnn_hw.report.schema import band
from sbnn_hw.sim.toggles import count_toggles


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build a small network twice, at last with energy; return the folder and both reports."""
    folder = tmp_path_factory.mktemp("energy")
    netlist.save(
        small_network((4, 4, 1), hidden=(6,), classes=3, fan_in=4), folder / "network.sbnn"
    )
    reports = [build(folder), build(folder, "--energy")]
    return folder / "out", *reports


def build(folder, *options):
    out = folder / "out"
    given = ["--model", str(folder / "network.sbnn"), "--part", "ice40up5k-sg48", "--out", str(out)]
    assert main(["build", *given, "--until", "simulation", *options]) == 0
    return Report.read(json.loads((out / "report.json").read_text()))


def section(page):
    """Return the words of the page's section on energy."""
    inner = re.search(r'<section id="energy">(.*?)</section>', page, re.DOTALL)[1]
    return re.sub(r"<[^>]+>", " ", inner)


def test_the_estimate_is_toggles_times_the_energy_of_one(built):
    out, without, report = built
    network, verilog, design = Folder(out).load()
    toggles = count_toggles(verilog, design, random_images(network, 1000))
    found, ice40 = report.energy_estimate, find_fpga_family("ice40").switching
    assert (found.toggles, found.images) == (toggles.each, 1000)
    # By hand, from half of C·V²: 0.77 pF at 1.2 V are 0.5544 pJ.
    assert found.picojoules_per_toggle == pytest.approx(0.5544)
    assert found.nanojoules == pytest.approx(toggles.each * 0.5544e-3)
    assert (found.low, found.high) == pytest.approx((found.nanojoules / 3, found.nanojoules * 3))
    assert (found.factor, found.source, found.static) == (3, ice40.source, ice40.static)
    assert json.loads((out / "toggles.json").read_text())["images"] == 1000
    assert without.energy_estimate is None


def test_a_build_prints_an_estimate_with_its_band(built, capsys):
    out, _, report = built
    build(out.parent, "--energy")
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("energy "))
    found = report.energy_estimate
    assert re.fullmatch(
        r"energy       about \S+ [pnµ]J an image \(estimate, \S+ to \S+\); no board was measured",
        line,
    )
    assert str(found) in line


def test_a_build_without_energy_forgets_the_toggles_of_another(built):
    out, *_ = built
    try:
        assert build(out.parent).energy_estimate is None
        assert not (out / "toggles.json").exists()
        assert not (out / ".steps" / "toggles.json").exists()
    finally:
        build(out.parent, "--energy")


def test_energy_needs_a_simulation(built, capsys):
    out, *_ = built
    given = ["--model", str(out.parent / "network.sbnn"), "--part", "ice40up5k-sg48"]
    assert main(["build", *given, "--out", str(out), "--until", "rtl", "--energy"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "E: Energy is estimated from a simulation, but the build ends with rtl (omit --energy, or "
        "use --until simulation)"
    )


def test_the_page_calls_it_an_estimate_wherever_it_tells_a_number():
    words = section(render(sample()))
    # The sample: 10,552.153 toggles of 0.27 pJ, a factor of 4 either way, 1e8 images a second.
    assert "about 2.8 nJ an image (estimate, 0.71 to 11)" in words
    assert "about 0.28 W (estimate, 0.071 to 1.1)" in words
    assert "No board was measured" in words
    assert "measurement" not in words
    numbers = re.findall(r"about [^)]*\)", words)
    assert numbers
    assert all("estimate" in each and " to " in each for each in numbers)
    rest = re.sub(r"about [^)]*\)", "", words)
    assert re.findall(r"[\d.]+\s(?:[pnµm]?J|[mµ]?W)\b", rest) == ["0.27\xa0pJ"]
    assert "Energy of a toggle (estimate)" in rest


def test_the_page_says_how_to_get_what_was_not_estimated():
    words = " ".join(section(render(blank())).split())
    assert words == (
        "Energy (estimate) Energy was not estimated, because toggles were not counted: build with "
        "--energy ."
    )


@pytest.mark.parametrize(
    ("name", "value"), [("nanojoules", 1.0), ("low", 2.9), ("high", 2.8), ("toggles", 0.0)]
)
def test_an_estimate_that_does_not_follow_from_its_toggles_is_refused(name, value):
    with pytest.raises(
        ValueError,
        match=r"^Field energy_estimate\.\w+ of the report must be .*, as its toggles say",
    ):
        change(energy_estimate={name: value})


def test_an_estimate_without_a_band_or_a_source_is_refused():
    with pytest.raises(
        ValueError, match=r"^Field energy_estimate\.factor of the report must be more than 1, not 1"
    ):
        change(energy_estimate={"factor": 1.0})
    for name in ("source", "static"):
        with pytest.raises(
            ValueError,
            match=rf"^Field energy_estimate\.{name} of the report must be a sentence, not ' '",
        ):
            change(energy_estimate={name: " "})
    with pytest.raises(
        ValueError, match=r"^A toggle must take energy, and its estimate must have a band$"
    ):
        Switching(capacitance_pf=1.0, volts=1.0, factor=1, source="", static="")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "about 0 pJ (estimate, 0 to 0)"),
        (3e-13, "about 0.3 pJ (estimate, 0.15 to 0.6)"),
        (2e-7, "about 0.2 µJ (estimate, 0.1 to 0.4)"),
        (4e-2, "about 40 mJ (estimate, 20 to 80)"),
        (450.0, "about 450 J (estimate, 220 to 900)"),
    ],
)
def test_a_band_is_spoken_in_a_unit_that_fits(value, said):
    assert band(value, value / 2, 2 * value, "J") == said


def test_the_constants_follow_from_a_published_measurement():
    """The multiplier is synthesised again, and its toggles counted, as decision 25 says."""
    spec = importlib.util.spec_from_file_location("toggle_energy", ROOT / "bench/toggle_energy.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    counter, both = map(bench.activity, bench.DESIGNS)
    # A counter toggles twice a clock, once in its flip-flops and once in the tables before them.
    assert counter.toggles == pytest.approx(4, abs=0.01)
    # Yosys makes about what was measured: else the toggles would be those of another circuit.
    assert both.tables == pytest.approx(bench.CELLS[1], rel=0.05)
    found = bench.capacitance_pf(both.toggles - counter.toggles)
    used = {family.name: family.switching for family in fpga_families()}
    assert used["ice40"].capacitance_pf == pytest.approx(found, rel=0.02)
    assert used["ecp5"].capacitance_pf == used["ice40"].capacitance_pf
    assert used["xc7"].capacitance_pf == pytest.approx(found * 28 / 40, rel=0.02)
    # What is assumed is told to be, with a wider band.
    assumed = {name for name, each in used.items() if each.source.startswith("Assumed")}
    assert assumed == set(used) - {"ice40"}
    assert all(used[name].factor > used["ice40"].factor for name in assumed)
