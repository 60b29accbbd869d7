"""Generated code with source lines for tracebacks, debuggers and `inspect`.

Coverage tools measure only files. If the environment variable FASTDIST_GENERATED names a folder,
each text is written into a file there, and the code has the name of this file, which is the same in
each process. By default no files are written: it would be slow at each start, and nothing would
read most files.
"""

from __future__ import annotations

import linecache
import os
import threading
from collections.abc import Sequence
from types import CodeType
from typing import Any, Final

# The folder for files with generated code; empty if none are written.
_FOLDER: Final = os.environ.get("FASTDIST_GENERATED", "")
# The file names of generated code begin with this text.
GENERATED: Final = os.path.join(_FOLDER and os.path.abspath(_FOLDER), "<fastdist ")

_lock = threading.Lock()
_texts: dict[str, str] = {}  # file name -> source


def compile_text(name: str, source: str) -> CodeType:
    """Compile source under a unique file name, for which `linecache` has the lines: by default
    `<fastdist NAME>`.

    Args    name: describes the code to the reader of a traceback
    Returns the code object of source as a module
    Threads any; the same source under the same name has the same file name
    """
    return compile(source, register_text(name, source), "exec")


def register_text(name: str, source: str, function: str = "") -> str:
    """Register source with `linecache` and return its file name. If `function` is given, it
    replaces the name of the first function in the shown lines.
    """
    # No modification time: linecache.checkcache() then keeps the entry although no file exists.
    lines: Any = _Lines(source, function)
    if _FOLDER:
        file = _write(name, "".join(lines[:]))
    else:
        with _lock:
            number, file = 1, f"{GENERATED}{name}>"
            while _texts.setdefault(file, source) != source:
                number += 1
                file = f"{GENERATED}{name} {number}>"
    linecache.cache[file] = (len(source), None, lines, file)
    return file


def _write(name: str, text: str) -> str:
    """Write a text into a file of the folder FASTDIST_GENERATED, and return its path. The path
    depends only on the name and the text, so that processes can combine what they measure.
    """
    from zlib import crc32

    os.makedirs(os.path.dirname(GENERATED), exist_ok=True)
    short = name.replace(os.sep, "_")[:100]
    path = f"{GENERATED}{short} {crc32(f'{name}{text}'.encode()):08x}>"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


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
