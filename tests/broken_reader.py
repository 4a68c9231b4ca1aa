"""Read data that are broken, one after the other, with little memory; say what came of each.

A process of its own: gets a list of (place, options) as JSON, and gives back a list of sentences,
with what was run meanwhile and the memory that it took.
"""

import json
import resource
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path

import PIL.Image
import PIL.ImageOps

from sbnn_hw.data.find import find_data
from sbnn_hw.data.options import DataOptions
from sbnn_hw.errors import SbnnError

#: Bytes that reading may take, beyond what the interpreter has: of addresses, whatever is used.
MOST = 700 << 20

#: What would mean that data were run.
RUNS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
        "pickle.find_class", "socket.connect", "ctypes.dlopen")  # fmt: skip


def peak():
    """Return the most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    warnings.simplefilter("error")
    cases = json.load(sys.stdin)
    # All that is loaded late is there before memory is counted.
    PIL.Image.init()
    ran = []
    sys.addaudithook(lambda event, _: ran.append(event) if event in RUNS else None)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found, before = [], peak()
    for place, options in cases:
        options = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
        try:
            data = find_data(place, DataOptions(**options))
            said = f"read: {asdict(data.meaning)['classes']}"
        except SbnnError as error:
            said = error.sentence
        except BaseException:
            said = traceback.format_exc()
        found.append(said)
    json.dump({"said": found, "ran": ran, "megabytes": peak() - before}, sys.stdout)


main()
