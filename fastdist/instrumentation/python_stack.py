"""Where in the user's Python a thread is."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Final

_ROOT: Final = os.path.dirname(os.path.dirname(__file__))
# Where the package lies, which is not among sys.path where it was installed to be edited.
_SOURCE: Final = os.path.dirname(_ROOT)
_ROOMS: Final = (
    *("concurrency", "core", "instrumentation", "language", "random_numbers", "system"),
    *("dispatch", "engine", "graph", "interpreters", "namespace", "ops", "profiler", "tensor"),
)
# Frames between an op and its caller; generated code of an op is in no file.
_MACHINERY: Final = ("<fastdist ", *[os.path.join(_ROOT, room, "") for room in _ROOMS])
# Frames between a module and its forward, at each of them.
_BETWEEN: Final = tuple(
    [os.path.join(_ROOT, "nn", f"module{end}.py") for end in ("", "_hooks", "_ranges")]
)
# Frames that serve a call of another worker: outside of the called function there is only our code.
_SERVING: Final = os.path.join(_ROOT, "distributed", "rpc", "")


def python_stack() -> tuple[str, ...]:
    """Return "FILE(LINE): FUNCTION" of each function that the calling thread is in, the innermost
    first, beginning with the first outside of the machinery of ops; in a call that is served for
    another worker, up to the function that was called.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    entries = []
    while frame is not None and not frame.f_code.co_filename.startswith(_SERVING):
        code = frame.f_code
        if code.co_filename not in _BETWEEN:
            entries.append(_entry(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(entries)


# The same few places come again at each step: their texts are made, and kept, once.
@functools.lru_cache(maxsize=10_000)
def _entry(path: str, line: int, function: str) -> str:
    inside = [
        folder
        for folder in (_SOURCE, *sys.path)
        if folder and path.startswith(os.path.join(folder, ""))
    ]
    if inside:
        path = os.path.relpath(path, max(inside, key=len))
    return f"{path}({line}): {function}"
