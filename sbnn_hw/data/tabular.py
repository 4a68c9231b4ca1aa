"""Tables that are known by name, with the split that others report on."""

from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import Known, OwnData, make_data
from sbnn_hw.data.tables import read_table
from sbnn_hw.datasets import default_root
from sbnn_hw.errors import DataMissing

__all__ = ["TABLES", "KnownTable", "open_known_table"]


@dataclass(frozen=True)
class KnownTable:
    """A table below the folder of data sets."""

    name: str
    about: str
    #: The column of classes.
    label: str = "Class"
    #: The first rows are those to train on; without them rows are split by chance.
    train: int = 0
    #: Columns that are left out.
    drop: tuple[str, ...] = ()


TABLES = {
    table.name: table
    for table in (
        KnownTable("letter", "letters by 16 features of their pictures", "lettr", 16_000),
        KnownTable("satimage", "soils by 36 values of satellite pictures", "classes", 4_435),
        KnownTable("shuttle", "states of a shuttle by 9 sensors", train=43_500),
        KnownTable("vehicle", "vehicles by 18 features of their outlines"),
        # The first column is the speaker: those of the test are others.
        KnownTable(
            "vowel", "vowels by 9 features, tested on other speakers", train=528, drop=("V1",)
        ),
        KnownTable("dna", "kinds of splice junctions by 180 bits", train=2_000),
    )
}


def open_known_table(
    name: str, root: str | Path | None = None, known: Known | None = None
) -> OwnData:
    """Return the table of a name, in its usual parts."""
    table = TABLES[name]
    folder = default_root() if root is None else Path(root)
    places = [folder / "tabular" / f"{name}{end}" for end in (".csv.gz", ".csv")]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise DataMissing(
            f"No {name} data at {places[0]} (point --data-root or $SBNN_DATA at the folder that "
            f"holds tabular/)"
        )
    options = DataOptions(label=table.label, drop=table.drop)
    rows, label = read_table(path, options)
    parts = {"all": rows}
    if table.train:
        if len(rows) <= table.train:
            raise DataMissing(f"{path} has only {len(rows):,} rows; fetch the data set again")
        parts = {"train": rows.first(table.train), "test": rows.after(table.train)}
    return make_data(name, parts, "table", label, options, known)
