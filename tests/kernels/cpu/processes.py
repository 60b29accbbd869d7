"""Run scripts of the kernels' tests in separate processes, so that a crash has no side effects."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

if __name__ == "__main__":
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.distributed import templates

ROOT = Path(__file__).resolve().parents[3]
_DEADLINE_S = 100


def cache_with_runner(folder: Path) -> Path:
    """Return `folder` as a cache that contains only the runner of pointwise loops.

    The runner is copied from the cache of the tests. If object code is not stored, the cache stays
    empty. Compiling the runner takes 3 s of CPU time, ten times as long as compiling a loop (AMD
    EPYC, Zen 4).
    """
    from fastdist.kernels.cpu.jit import kernel_cache, launch, object_store
    from fastdist.kernels.cpu.jit.source_stamp import can_load_objects
    from fastdist.system.cache_directory import cache_directory

    stored = cache_directory(object_store.FOLDER)
    if stored is None or not can_load_objects():
        return folder
    launch._runner()
    key = kernel_cache._text_of(("jit.iteration", "runner", repr(())), exact=False)
    objects = folder / object_store.FOLDER
    objects.mkdir(0o700)
    shutil.copy(object_store._path_of(stored, key), objects)
    return folder


def named_modules() -> set[str]:
    """Return the modules of kernels/cpu whose names are strings in kernels/cpu, as the modules of
    makers are.
    """
    files = list((ROOT / "kernels/cpu").rglob("*.py"))
    modules = {".".join(x.relative_to(ROOT / "kernels/cpu").with_suffix("").parts) for x in files}
    trees = [ast.parse(file.read_text()) for file in files]
    strings = {
        node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)
    }
    return modules & strings  # type: ignore[operator]


def run_script(script: str, **environment: str) -> str:
    """Return the output of a script in a fresh interpreter, which treats warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr}"
    return done.stdout.strip()


def run_forked(script: str, **environment: str) -> str:
    """Return the output of a script in a fork of a process that has imported Numba and our modules.

    That process has called nothing, so it has not read the environment variables that are read at
    the first call. Importing takes ten times as long as compiling a kernel.
    """
    status, out, err = end_of_fork(script, **environment)
    assert status == 0, f"exit status {status}\n{err}"
    return out.strip()


def end_of_fork(script: str, **environment: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of a script that runs like run_forked's."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with open(os.devnull, "rb") as nothing:
            streams = nothing.fileno(), out.fileno(), err.fileno()
            process = begin_fork(script, streams, **environment)
        try:
            status = process.wait(_DEADLINE_S)
        finally:
            process.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return status, texts[0], texts[1]


def begin_fork(
    script: str, streams: tuple[int, int, int], **environment: str
) -> templates.ForkedWorker:
    """Start a script like run_forked's, with three given streams."""
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    words = ([script], whole, str(ROOT))
    return templates.fork("numba", __file__, words, streams[0], streams)


def _load() -> None:
    import numba

    import fastdist.kernels.cpu.jit.background
    import fastdist.kernels.cpu.pointwise.numba_pointwise
    import fastdist.kernels.cpu.pointwise.pointwise  # noqa: F401

    # When the first function is compiled, Numba reads its type tables, and LLVM starts.
    numba.njit("float64(float64)")(lambda x: x + 1.0)


if __name__ == "__main__":
    _load()
    os.close(templates.serve(int(sys.argv[1]), ()))
    warnings.simplefilter("error")
    exec(compile(sys.argv[1], "<script>", "exec"), {"__name__": "__main__"})
