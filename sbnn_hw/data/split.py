"""Part rows in those to learn from, those to choose by and those to test with."""

import numpy as np
import numpy.typing as npt

__all__ = ["fold_rows", "split_rows"]

Places = npt.NDArray[np.int64]


def split_rows(
    labels: npt.NDArray[np.str_], shares: tuple[int, int, int], seed: int
) -> tuple[Places, Places, Places]:
    """Return the places of training, validation and test rows, each in their first order.

    Every class is parted in these shares, by chance. A class has one training row at least.
    """
    parts: tuple[list[Places], ...] = ([], [], [])
    for number, name in enumerate(np.unique(labels)):
        rng = np.random.default_rng([seed, number])
        places = rng.permutation(np.flatnonzero(labels == name))
        total, count = sum(shares), len(places)
        test = min(round(count * shares[2] / total), count - 1)
        validation = min(round(count * shares[1] / total), count - 1 - test)
        for part, chosen in zip(
            parts,
            (places[test + validation :], places[test : test + validation], places[:test]),
            strict=True,
        ):
            part.append(chosen)
    train, validate, held = (np.sort(np.concatenate(part)) for part in parts)
    return train, validate, held


def fold_rows(labels: npt.NDArray[np.str_], count: int, seed: int) -> list[tuple[Places, Places]]:
    """Return, for each of ``count`` folds, the places of the rows to train on and to test with.

    Every row tests once. Classes are spread evenly over the folds, by chance.
    """
    fold = np.empty(len(labels), np.int64)
    first = 0
    for number, name in enumerate(np.unique(labels)):
        places = np.random.default_rng([seed, number]).permutation(np.flatnonzero(labels == name))
        # The next class begins where this one ends, so that folds are as large as one another.
        fold[places] = (first + np.arange(len(places))) % count
        first += len(places)
    return [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(count)]
