"""Generated code with source lines for tracebacks, debuggers and `inspect`.

Coverage tools do not measure this code: coverage.py skips file names in angle brackets, and its
reports show only files. Writing a file for each source text at every start would be slow, and most
files would never be read by a second process. The table test of each op runs its generated code,
and coverage measures the modules that generate it.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Sequence
from types import CodeType
from typing import Any

_lock = threading.Lock()
_texts: dict[str, str] = {}  # file name -> source


def compile_text(name: str, source: str) -> CodeType:
    """Compile source under the unique file name `<fastdist NAME>`, for which `linecache` has the
    lines.

    Args    name: describes the code to the reader of a traceback
    Returns the code object of source as a module
    Threads any; the same source under the same name has the same file name
    """
    return compile(source, register_text(name, source), "exec")


def register_text(name: str, source: str, function: str = "") -> str:
    """Register source with `linecache` and return its file name. If `function` is given, it
    replaces the name of the first function in the shown lines.
    """
    with _lock:
        number, file = 1, f"<fastdist {name}>"
        while _texts.setdefault(file, source) != source:
            number += 1
            file = f"<fastdist {name} {number}>"
    # No modification time: linecache.checkcache() then keeps the entry although no file exists.
    lines: Any = _Lines(source, function)
    linecache.cache[file] = (len(source), None, lines, file)
    return file


class _Lines(Sequence[str]):
    """The lines of a source text, split on first use: hundreds of ops share a few texts."""

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
