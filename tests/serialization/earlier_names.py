"""The modules that have defined the public names so far: a pickle has the module and the name.

python -m tests.serialization.earlier_names

adds today's public names to the file `earlier_names.txt`. It removes nothing, because pickles of
earlier versions have the names that the file has. A line has a public module (`fastdist.` is left
out), the module that defined names of it, and these names, `public=defined` where they differ.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.serialization.earlier_values import public_names

FILE = Path(__file__).parent / "files" / "earlier_names.txt"
# The public name, such as "nn:Linear", and the module and the name in a pickle.
Row = tuple[str, str, str]


class NamingUnpickler(pickle.Unpickler):
    """Keeps the name that a pickle looks up."""

    named = ("", "")

    def find_class(self, module: str, name: str) -> Any:
        self.named = (module, name)
        return super().find_class(module, name)


def rows_of_today() -> set[Row]:
    """Return the row of each public name of this version."""
    rows = set[Row]()
    for public, thing in public_names().items():
        reader = NamingUnpickler(io.BytesIO(pickle.dumps(thing, 4)))
        reader.load()
        rows.add((public, *reader.named))
    return rows


def stored_rows() -> set[Row]:
    """Return the rows of the file."""
    rows = set[Row]()
    for line in FILE.read_text().splitlines():
        place, names = line.split(": ")
        space, _, module = place.rpartition(" ")
        for name in names.split():
            public, _, defined = name.partition("=")
            rows.add((f"{space}:{public}", module, defined or public))
    return rows


def text_of(rows: set[Row]) -> str:
    """Return the text of a file with these rows."""
    lines = defaultdict[str, list[str]](list)
    for public, module, defined in sorted(rows):
        space, _, name = public.partition(":")
        lines[f"{space} {module}"].append(name if name == defined else f"{name}={defined}")
    return "".join(f"{place}: {' '.join(names)}\n" for place, names in lines.items())


if __name__ == "__main__":
    FILE.write_text(text_of(stored_rows() | rows_of_today()))
