"""Generated code whose lines tracebacks, debuggers and `inspect` show.

Coverage tools do not measure it: coverage.py skips file names in angle brackets, and its reports
show only files. Writing a file for each text at every start would be slow, and most texts never run
twice. The table test of an op runs its generated code, and the modules that write the code are
measured like any other.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Sequence
from types import CodeType
from typing import Any

_lock = threading.Lock()
_texts: dict[str, str] = {}  # by file name


def compile_text(name: str, source: str) -> CodeType:
    """Compile a text under the unique file name `<fastdist NAME>`, at which its lines are found.

    Args    name: describes the code to a reader of a traceback
    Returns the code of the module that source is
    Threads any; the same source under the same name has the same file name
    """
    return compile(source, register_text(name, source), "exec")


def register_text(name: str, source: str, function: str = "") -> str:
    """Return the file name under which the lines of source are shown from now on, with `function`
    in the place of the name of the first function, if that is given.
    """
    with _lock:
        number, file = 1, f"<fastdist {name}>"
        while _texts.setdefault(file, source) != source:
            number += 1
            file = f"<fastdist {name} {number}>"
    # Without a modification time, so that linecache.checkcache() keeps code that is in no file.
    lines: Any = _Lines(source, function)
    linecache.cache[file] = (len(source), None, lines, file)
    return file


class _Lines(Sequence[str]):
    """The lines of a text, made on first use: hundreds of ops share few texts."""

    __slots__ = ("_function", "_source")

    def __init__(self, source: str, function: str) -> None:
        self._source, self._function = source, function

    def _made(self) -> list[str]:
        source = self._source
        if self._function:
            _, _, rest = source.partition("(")
            source = f"def {self._function}({rest}"
        return source.splitlines(keepends=True)

    def __len__(self) -> int:
        return len(self._made())

    def __getitem__(self, index: Any) -> Any:
        return self._made()[index]
