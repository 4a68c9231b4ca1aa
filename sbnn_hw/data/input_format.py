"""How raw values become a network's integers, told to programs elsewhere: JSON, Python and C."""

import inspect
import json
from collections.abc import Iterable
from typing import Any

from sbnn_hw.data import standalone
from sbnn_hw.data.tables import MISSING
from sbnn_hw.netlist import Column, Network

__all__ = ["FILES", "describe_input", "input_files"]

#: What is written next to a design.
FILES = ("input_format.json", "input_format.py", "input_format.h", "input_format.c")

_HEADER = """\
/* How raw values become the integers that a network takes; sbnn-hw wrote this for one network.
 *
 * Needs C99, and a double that is IEEE 754's binary64. The integers are the same as those that the
 * network was trained with. input_format.json tells the same to other programs.
 */

#ifndef SBNN_INPUT_FORMAT_H
#define SBNN_INPUT_FORMAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Of a row: numbers (NaN where one is missing) and names (NULL or "" where one is missing), each in
 * the order of the table, position by position for signals and pictures; and the integers. */
#define SBNN_INPUT_NUMBERS {numbers}
#define SBNN_INPUT_NAMES {names}
#define SBNN_INPUT_VALUES {values}
#define SBNN_INPUT_BITS {bits}
#define SBNN_INPUT_CLASSES {classes}

/* Up to 8 bits, a row of these is an image for sbnn_classify; above, write each low byte first. */
typedef {type} sbnn_input_value;

/* What the columns of numbers and those of names are called (NULL ends each), and the classes. */
extern const char *const sbnn_input_numbers[{number_columns} + 1];
extern const char *const sbnn_input_names[{name_columns} + 1];
extern const char *const sbnn_input_classes[SBNN_INPUT_CLASSES];

/* Turn a row into integers. `numbers` or `names` may be NULL if there are none. */
void sbnn_input_integers(const double *numbers, const char *const *names,
                         sbnn_input_value *values);

#ifdef __cplusplus
}}
#endif

#endif
"""

_SOURCE = """\
/* How raw values become the integers that a network takes; sbnn-hw wrote this for one network. */

#include "input_format.h"

#include <float.h>
#include <stddef.h>

/* A sum that is not rounded to binary64 at once could round to another integer. */
#if DBL_MANT_DIG != 53 || !(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 1)
#error "double must be binary64, computed without more digits (on x86: -msse2 -mfpmath=sse)"
#endif
#ifdef __FAST_MATH__
#error "compile this file without -ffast-math, which does away with NaN"
#endif

#define MOST {most}u
#define POSITIONS {positions}u

const char *const sbnn_input_numbers[{number_columns} + 1] = {{
{number_names}    NULL
}};

const char *const sbnn_input_names[{name_columns} + 1] = {{
{name_names}    NULL
}};

const char *const sbnn_input_classes[SBNN_INPUT_CLASSES] = {{
{class_names}}};

/* One for each column. A column of names has `count` of them, the others as many bounds. */
enum {{ AFFINE, STEPS, NAMES }};

typedef struct {{
    int rule;
    unsigned first, count;
    unsigned missing;
    double offset, scale;
}} column;

static const double bounds[] = {{
{bounds}}};

static const char *const categories[] = {{
{categories}    NULL
}};

static const column columns[] = {{
{columns}}};

static int same(const char *a, const char *b)
{{
    while (*a != '\\0' && *a == *b) {{
        a++;
        b++;
    }}
    return *a == *b;
}}

static unsigned affine(const column *c, double x)
{{
    /* Each step is stored, so that no compiler joins a product and a sum. */
    volatile double v = x - c->offset;

    v = v * c->scale;
    v = v + 0.5;
    if (v < 1.0)
        return 0;
    return v >= (double)MOST ? MOST : (unsigned)v;
}}

/* How many bounds x reaches. */
static unsigned steps(const column *c, double x)
{{
    unsigned low = 0, high = c->count;

    while (low < high) {{
        unsigned middle = low + (high - low) / 2;

        if (bounds[c->first + middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }}
    return low;
}}

void sbnn_input_integers(const double *numbers, const char *const *names,
                         sbnn_input_value *values)
{{
    unsigned position, place, each;

    for (position = 0; position < POSITIONS; position++) {{
        for (place = 0; place < sizeof columns / sizeof columns[0]; place++) {{
            const column *c = &columns[place];

            if (c->rule == NAMES) {{
                const char *name = *names++;

                for (each = 0; each < c->count; each++)
                    *values++ = (sbnn_input_value)(
                        name != NULL && same(categories[c->first + each], name) ? MOST : 0u);
            }} else {{
                double x = *numbers++;
                unsigned found = c->missing;

                if (x == x)
                    found = c->rule == STEPS ? steps(c, x) : affine(c, x);
                *values++ = (sbnn_input_value)found;
            }}
        }}
    }}
}}
"""


def describe_input(network: Network) -> dict[str, Any]:
    """Return what goes into a network and comes out of it, as input_format.json has it."""
    meaning, edge = network.meaning, network.input
    shape = edge.shape
    kind = "images" if meaning is None else meaning.kind
    columns = () if meaning is None else meaning.columns
    if not columns:
        # Values are taken as they are, up to the largest.
        columns = tuple(Column(f"x{number}") for number in range(shape[-1]))
    positions = 1
    for side in shape[:-1]:
        positions *= side
    return {
        "format": 1,
        "network": network.digest,
        "kind": kind,
        "shape": list(shape),
        "bits": edge.bits,
        # How often the columns come after each other: at each position of a signal or picture.
        "positions": positions,
        "columns": _columns(columns),
        # Texts that stand for a value that is not there, in small letters.
        "missing": sorted(MISSING),
        "label": "" if meaning is None else meaning.source.label,
        "classes": [network.class_name(number) for number in range(network.classes)],
    }


def _columns(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Return the raw columns: those of one column of names become one again."""
    found: list[dict[str, Any]] = []
    for column in columns:
        if column.kind == "category":
            if not (found and found[-1]["rule"] == "names" and found[-1]["name"] == column.source):
                found.append({"name": column.source, "rule": "names", "names": []})
            found[-1]["names"].append(column.category)
        elif column.kind == "steps":
            rule = {"rule": "steps", "bounds": list(column.bounds), "missing": column.missing}
            found.append({"name": column.name, **rule})
        else:
            rule = {"rule": "affine", "offset": column.offset, "scale": column.scale}
            found.append({"name": column.name, **rule, "missing": column.missing})
    return found


def input_files(network: Network) -> dict[str, str]:
    """Return the files for other programs, by name."""
    form = describe_input(network)
    python = inspect.getsource(standalone)
    texts = (json.dumps(form, indent=1) + "\n", python, *_c_files(form))
    return dict(zip(FILES, texts, strict=True))


def _c_files(form: dict[str, Any]) -> tuple[str, str]:
    columns, bits, positions = form["columns"], form["bits"], form["positions"]
    named = [column["name"] for column in columns if column["rule"] == "names"]
    numbered = [column["name"] for column in columns if column["rule"] != "names"]
    values = sum(len(c["names"]) if c["rule"] == "names" else 1 for c in columns)
    bounds: list[float] = []
    categories: list[str] = []
    rows = []
    for column in columns:
        kept: list[Any] = categories if column["rule"] == "names" else bounds
        more = column.get("names", column.get("bounds", []))
        offset, scale = (float(column.get(name, 0.0)).hex() for name in ("offset", "scale"))
        rows.append(
            f"    {{ {column['rule'].upper()}, {len(kept)}u, {len(more)}u, "
            f"{column.get('missing', 0)}u, {offset}, {scale} }},\n"
        )
        kept += more
    filled = {
        "numbers": positions * len(numbered),
        "names": positions * len(named),
        "values": positions * values,
        "bits": bits,
        "classes": len(form["classes"]),
        "type": "uint8_t" if bits <= 8 else "uint16_t",
        "number_columns": len(numbered),
        "name_columns": len(named),
        "most": (1 << bits) - 1,
        "positions": positions,
        "number_names": _strings(numbered),
        "name_names": _strings(named),
        "class_names": _strings(form["classes"]),
        "categories": _strings(categories),
        # An array must not be empty.
        "bounds": "".join(f"    {bound.hex()},\n" for bound in bounds) or "    0.0\n",
        "columns": "".join(rows),
    }
    return _HEADER.format(**filled), _SOURCE.format(**filled)


def _strings(texts: Iterable[str]) -> str:
    return "".join(f"    {_string(text)},\n" for text in texts)


def _string(text: str) -> str:
    """Return a text as C has it: all but letters, digits and a few signs by their numbers."""
    plain = set(b" -_.=+,:()/")
    return (
        '"'
        + "".join(
            chr(byte) if byte < 128 and (chr(byte).isalnum() or byte in plain) else f"\\{byte:03o}"
            for byte in text.encode()
        )
        + '"'
    )
