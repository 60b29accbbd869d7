"""Generated code whose lines tracebacks, debuggers and `inspect` show."""

from __future__ import annotations

import linecache
import threading
from types import CodeType

_lock = threading.Lock()
_texts: dict[str, str] = {}  # by file name


def compile_text(name: str, source: str) -> CodeType:
    """Compile a text under a file name `<fastdist NAME>` of its own, at which its lines are found.

    Args    name: describes the code to a reader of a traceback
    Returns the code of the module that source is
    Threads any; the same source under the same name has the same file name
    """
    return compile(source, register_text(name, source), "exec")


def register_text(name: str, source: str) -> str:
    """Return the file name under which the lines of source are shown from now on."""
    with _lock:
        number, file = 1, f"<fastdist {name}>"
        while _texts.setdefault(file, source) != source:
            number += 1
            file = f"<fastdist {name} {number}>"
    # Without a modification time: linecache.checkcache() then keeps what is in no file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return file
