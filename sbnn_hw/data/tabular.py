"""Tables that are known by name, with the split that others report on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.place import find_place
from sbnn_hw.data.rows import Rows
from sbnn_hw.data.tables import read_table
from sbnn_hw.errors import DataMissing

__all__ = ["TABLES", "KnownTable", "table_reader"]


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
    #: Shares of rows that are split by chance.
    split: str = ""


TABLES = {
    table.name: table
    for table in (
        KnownTable("letter", "letters by 16 features of their pictures", "lettr", 16_000),
        KnownTable("satimage", "soils by 36 values of satellite pictures", "classes", 4_435),
        KnownTable("shuttle", "states of a shuttle by 9 sensors", train=43_500),
        # Validation rows are held out of the training rows, as they are of the other tables.
        KnownTable("vehicle", "vehicles by 18 features of their outlines", split="80/0/20"),
        # The first column is the speaker: those of the test are others.
        KnownTable(
            "vowel", "vowels by 9 features, tested on other speakers", train=528, drop=("V1",)
        ),
        KnownTable("dna", "kinds of splice junctions by 180 bits", train=2_000),
    )
}


def table_reader(table: KnownTable) -> Callable[[Path], dict[str, Rows]]:
    """Return what reads a table below the folder of data sets."""

    def read(root: Path) -> dict[str, Rows]:
        candidates = [f"tabular/{table.name}{end}" for end in (".csv.gz", ".csv")]
        path = find_place(root, table.name, candidates)
        rows, _ = read_table(path, DataOptions(label=table.label, drop=table.drop))
        if not table.train:
            return {"all": rows}
        if len(rows) <= table.train:
            raise DataMissing(f"{path} has only {len(rows):,} rows; fetch the data set again")
        return {"train": rows.first(table.train), "test": rows.after(table.train)}

    return read
