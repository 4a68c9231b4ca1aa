"""Data sets that are known by name and are not images: where their files are, and how to read them.

Nothing is downloaded. Files are read as their owners publish them; if they are not there, a
sentence says where to get them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sbnn_hw.data.jets import read_jets_cernbox, read_jets_openml
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import Known, OwnData, make_data
from sbnn_hw.data.rows import Rows
from sbnn_hw.data.speech import read_speech
from sbnn_hw.data.tabular import TABLES, table_reader
from sbnn_hw.data.unsw import read_flows, read_flows_in_bits
from sbnn_hw.datasets import default_root

__all__ = ["KNOWN", "KnownData", "open_known"]


@dataclass(frozen=True)
class KnownData:
    """A data set below the folder of data sets."""

    name: str
    about: str
    #: Takes the folder of data sets; returns parts of rows, or ``all`` of them.
    read: Callable[[Path], dict[str, Rows]]
    kind: str = "table"
    options: DataOptions = field(default_factory=DataOptions)


KNOWN = {
    data.name: data
    for data in (
        *(
            KnownData(
                table.name,
                table.about,
                table_reader(table),
                options=DataOptions(label=table.label, drop=table.drop, split=table.split),
            )
            for table in TABLES.values()
        ),
        KnownData(
            "jsc_openml",
            "jets by 16 features, as OpenML has them",
            read_jets_openml,
            options=DataOptions(label="class"),
        ),
        KnownData("jsc_cernbox", "jets by 16 features, as CERNBox has them", read_jets_cernbox),
        KnownData(
            "unsw_nb15",
            "attacks in network traffic by 42 features",
            read_flows,
            options=DataOptions(label="label", drop=("id", "attack_cat")),
        ),
        KnownData(
            "unsw_nb15_binarized",
            "the same traffic as 593 bits, as LogicNets has them",
            read_flows_in_bits,
        ),
        KnownData("speech_commands", "ten words by 49 × 10 MFCCs", read_speech, "signals"),
    )
}


def open_known(name: str, root: str | Path | None = None, known: Known | None = None) -> OwnData:
    """Return the data set of a name, in its usual parts."""
    data = KNOWN[name]
    parts = data.read(default_root() if root is None else Path(root))
    # A model keeps the split of its training.
    options = data.options if known is None else replace(data.options, split="")
    return make_data(name, parts, data.kind, data.options.label, options, known)
