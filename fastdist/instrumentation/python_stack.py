"""The user's Python stack of the current thread."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Final

from ..core.generated_code import GENERATED

_ROOT: Final = os.path.dirname(os.path.dirname(__file__))
# The folder that contains the package; after an editable install it is not in sys.path.
_SOURCE: Final = os.path.dirname(_ROOT)
_ROOMS: Final = (
    *("concurrency", "core", "instrumentation", "language", "random_numbers", "system"),
    *("dispatch", "engine", "graph", "interpreters", "namespace", "ops", "profiler", "tensor"),
)
# The file names of frames between an op and its caller start with one of these.
_MACHINERY: Final = (GENERATED, *[os.path.join(_ROOT, room, "") for room in _ROOMS])
# Files of the frames between the call of a module and its `forward`.
_BETWEEN: Final = tuple(
    [os.path.join(_ROOT, "nn", f"module{end}.py") for end in ("", "_hooks", "_ranges")]
)
# Files of frames that serve remote calls. All frames outside of such a frame belong to fastdist.
_SERVING: Final = os.path.join(_ROOT, "distributed", "rpc", "")


def python_stack() -> tuple[str, ...]:
    """Return "FILE(LINE): FUNCTION" for each frame of the calling thread, innermost first.

    Frames in which fastdist calls an op or a module are not in the result. While a remote call is
    served, the outermost frame in the result is that of the called function.
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


# The frames of each training step have the same few lines, so the texts of lines are cached.
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
