"""``component.xml``: a core in IP-XACT 1685-2009, the form that Vivado's catalogue reads.

The elements stand in the order that the schema asks for.
"""

import xml.etree.ElementTree as ET

from sbnn_hw.families import find_family
from sbnn_hw.ip.core import ADDRESS_BITS, LIBRARY, VENDOR, VERSION, IpDescription
from sbnn_hw.ip.files import NETWORK, WRAPPER
from sbnn_hw.ip.registers import REGISTERS, Register

__all__ = ["component_xml"]

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "http://www.xilinx.com"

#: The two views: name, what Vivado looks for, and the file set's name.
_VIEWS = (
    ("xilinx_anylanguagesynthesis", ":vivado.xilinx.com:synthesis", "synthesis"),
    ("xilinx_anylanguagebehavioralsimulation", ":vivado.xilinx.com:simulation", "simulation"),
)


def component_xml(core: IpDescription) -> str:
    """Return the text of ``component.xml``."""
    ET.register_namespace("spirit", _SPIRIT)
    ET.register_namespace("xilinx", _XILINX)
    root = ET.Element(_spirit("component"))
    for name, text in (
        ("vendor", VENDOR),
        ("library", LIBRARY),
        ("name", core.module),
        ("version", VERSION),
    ):
        _add(root, name, text)
    _bus_interfaces(_add(root, "busInterfaces"), core)
    _memory_map(_add(root, "memoryMaps"), core)
    _model(_add(root, "model"), core)
    sets = _add(root, "fileSets")
    for _, _, name in _VIEWS:
        files = _add(sets, "fileSet")
        _add(files, "name", name)
        for file in (NETWORK, WRAPPER):
            each = _add(files, "file")
            _add(each, "name", file)
            _add(each, "fileType", "verilogSource")
    _add(root, "description", core.title)
    # Vivado asks each core for the name that its instance gets.
    _parameter(
        _add(root, "parameters"), "Component_Name", f"{core.module}_0", "PARAM_VALUE", "user"
    )
    _extensions(_add(root, "vendorExtensions"), core)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _spirit(name: str) -> str:
    return f"{{{_SPIRIT}}}{name}"


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    """Add an element of the standard, with attributes of the standard."""
    given = {_spirit(key): value for key, value in attributes.items()}
    element = ET.SubElement(parent, _spirit(tag), given)
    element.text = text
    return element


def _parameter(
    parent: ET.Element, name: str, value: str, group: str, resolve: str = "immediate"
) -> None:
    parameter = _add(parent, "parameter")
    _add(parameter, "name", name)
    _add(parameter, "value", value, id=f"{group}.{name}", resolve=resolve)


def _bus_interfaces(parent: ET.Element, core: IpDescription) -> None:
    stream = {"HAS_TREADY": "1", "HAS_TLAST": "1", "HAS_TKEEP": "0", "HAS_TSTRB": "0"}
    for bus, width, mode in (("s_axis", core.s_width, "slave"), ("m_axis", core.m_width, "master")):
        _interface(parent, core, bus, "axis", mode, {"TDATA_NUM_BYTES": str(width // 8), **stream})
    lite = {"PROTOCOL": "AXI4LITE", "DATA_WIDTH": "32", "ADDR_WIDTH": str(ADDRESS_BITS)}
    _interface(parent, core, "s_axi", "aximm", "slave", lite)
    _interface(parent, core, "aresetn", "reset", "slave", {"POLARITY": "ACTIVE_LOW"})
    clock = {"ASSOCIATED_BUSIF": "s_axis:m_axis:s_axi", "ASSOCIATED_RESET": "aresetn"}
    _interface(parent, core, "aclk", "clock", "slave", clock)


def _interface(
    parent: ET.Element,
    core: IpDescription,
    bus: str,
    kind: str,
    mode: str,
    parameters: dict[str, str],
) -> None:
    interface = _add(parent, "busInterface")
    _add(interface, "name", bus)
    library = "signal" if kind in ("clock", "reset") else "interface"
    for element, name in (("busType", kind), ("abstractionType", f"{kind}_rtl")):
        _add(interface, element, vendor="xilinx.com", library=library, name=name, version="1.0")
    face = _add(interface, mode)
    if bus == "s_axi":
        _add(face, "memoryMapRef", memoryMapRef=bus)
    maps = _add(interface, "portMaps")
    for port in core.ports:
        if port.bus == bus:
            pair = _add(maps, "portMap")
            _add(_add(pair, "logicalPort"), "name", port.signal)
            _add(_add(pair, "physicalPort"), "name", port.name)
    inner = _add(interface, "parameters")
    for name, value in parameters.items():
        _parameter(inner, name, value, f"BUSIFPARAM_VALUE.{bus.upper()}")


def _memory_map(parent: ET.Element, core: IpDescription) -> None:
    memory = _add(parent, "memoryMap")
    _add(memory, "name", "s_axi")
    block = _add(memory, "addressBlock")
    _add(block, "name", "registers")
    _add(block, "baseAddress", "0")
    _add(block, "range", str(1 << ADDRESS_BITS))
    _add(block, "width", "32")
    _add(block, "usage", "register")
    _add(block, "access", "read-write")
    for register in REGISTERS:
        _register(block, register, core)


def _register(parent: ET.Element, register: Register, core: IpDescription) -> None:
    element = _add(parent, "register")
    _add(element, "name", register.name)
    _add(element, "description", register.text)
    _add(element, "addressOffset", f"0x{register.offset:X}")
    _add(element, "size", "32")
    _add(element, "access", register.access)
    reset = _add(element, "reset")
    _add(reset, "value", f"0x{register.value(core) if register.value else 0:X}")
    for each in register.fields:
        field = _add(element, "field")
        _add(field, "name", each.name)
        _add(field, "description", each.text)
        _add(field, "bitOffset", str(each.bit))
        _add(field, "bitWidth", "1")
        _add(field, "access", register.access)


def _model(parent: ET.Element, core: IpDescription) -> None:
    views = _add(parent, "views")
    for name, environment, files in _VIEWS:
        view = _add(views, "view")
        _add(view, "name", name)
        _add(view, "envIdentifier", environment)
        _add(view, "language", "verilog")
        _add(view, "modelName", core.module)
        _add(_add(view, "fileSetRef"), "localName", files)
    ports = _add(parent, "ports")
    for port in core.ports:
        element = _add(ports, "port")
        _add(element, "name", port.name)
        wire = _add(element, "wire")
        _add(wire, "direction", "out" if port.output else "in")
        if port.width > 1:
            vector = _add(wire, "vector")
            _add(vector, "left", str(port.width - 1))
            _add(vector, "right", "0")


def _extensions(parent: ET.Element, core: IpDescription) -> None:
    """Add what Vivado wants to know besides."""

    def add(parent: ET.Element, name: str, text: str | None = None) -> ET.Element:
        element = ET.SubElement(parent, f"{{{_XILINX}}}{name}")
        element.text = text
        return element

    extensions = add(parent, "coreExtensions")
    families = add(extensions, "supportedFamilies")
    for name in find_family(core.design.family).catalogue:
        add(families, "family", name).set(f"{{{_XILINX}}}lifeCycle", "Production")
    add(add(extensions, "taxonomies"), "taxonomy", "/UserIP")
    add(extensions, "displayName", core.title)
    add(extensions, "coreRevision", "1")
