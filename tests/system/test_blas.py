"""The choice of a core type for OpenBLAS, and reading the type that OpenBLAS uses."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastdist.system import blas

ROOT = Path(__file__).resolve().parents[2]
_ALL = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"})
_ZEN4 = blas.Cpu("AuthenticAMD", 25, "AMD EPYC", _ALL)
_ZEN5 = blas.Cpu("AuthenticAMD", 26, "AMD EPYC 9755", _ALL)
_ZEN6 = blas.Cpu("AuthenticAMD", 27, "to come", _ALL)


@pytest.mark.parametrize(
    ("cpu", "core"),
    [(_ZEN4, "Haswell"), (_ZEN5, "SkylakeX"), (_ZEN6, "SkylakeX")],
    ids=["zen4", "zen5", "newer"],
)
def test_choose_core_sets_the_fastest_on_amd_cpus_with_avx512(
    monkeypatch: pytest.MonkeyPatch, cpu: blas.Cpu, core: str
) -> None:
    monkeypatch.setattr(blas, "_numpy_crashes_with_haswell", lambda: False)
    environment: dict[str, str] = {}
    choice = blas._choose(environment, False, lambda: cpu)
    assert (choice.how, choice.core) == ("chosen", core)
    assert environment["OPENBLAS_CORETYPE"] == core


@pytest.mark.parametrize(
    ("version", "how"), [("2.4.6", "chosen"), ("2.5.0", "left"), ("3.0.0rc1", "left")]
)
def test_on_zen4_the_choice_of_newer_numpy_versions_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, how: str
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").touch()
    text = f'"""The version."""\nversion = "{version}"\n__version__ = version\n'
    (tmp_path / "numpy" / "version.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert blas._choose({}, False, lambda: _ZEN4).how == how
    assert blas._choose({}, False, lambda: _ZEN5).how == "chosen"


def test_choose_core_tells_a_child_that_its_user_did_not_choose() -> None:
    environment: dict[str, str] = {}
    blas._choose(environment, False, lambda: _ZEN5)
    assert blas._choose(environment, False, lambda: _ZEN5).how == "chosen"


@pytest.mark.parametrize(
    "cpu",
    [
        blas.Cpu("GenuineIntel", 6, "Intel Xeon", _ALL),
        blas.Cpu("AuthenticAMD", 25, "AMD EPYC 7763", frozenset({"avx2"})),
        blas.Cpu("AuthenticAMD", 26, "no vector lengths", _ALL - {"avx512vl"}),
        blas.Cpu("", 0, "", frozenset()),
    ],
    ids=["intel", "zen3", "part of avx512", "unknown"],
)
def test_choose_core_leaves_other_cpus_alone(cpu: blas.Cpu) -> None:
    environment: dict[str, str] = {}
    assert (blas._choose(environment, False, lambda: cpu).how, environment) == ("left", {})


def test_choose_core_leaves_what_the_user_set() -> None:
    environment = {"OPENBLAS_CORETYPE": "Zen"}
    choice = blas._choose(environment, False, lambda: _ZEN5)
    assert (choice.how, choice.core, environment) == ("user's", "Zen", {"OPENBLAS_CORETYPE": "Zen"})


def test_choose_core_says_when_numpy_was_first() -> None:
    environment: dict[str, str] = {}
    assert blas._choose(environment, True, lambda: _ZEN5).how == "already loaded"
    assert environment == {}


def test_read_cpu_takes_the_first_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel name\t: X\n"
        "flags\t\t: fpu avx512f\n\n"
        "processor\t: 1\nvendor_id\t: Other\n"
    )
    assert blas.read_cpu(str(file)) == blas.Cpu(
        "AuthenticAMD", 26, "X", frozenset({"fpu", "avx512f"})
    )


def test_read_cpu_is_empty_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert blas.read_cpu(str(tmp_path / "missing")).features == frozenset()


@pytest.mark.one_in(3)
def test_openblas_core_names_the_core_that_the_environment_asks_for() -> None:
    if blas.openblas_core() is None:
        # NumPy was built with another BLAS than OpenBLAS, so this function must return None too.
        assert blas.blas_threads() is None
        return
    code = "from fastdist.core import blas; print(blas.choose_core().how, blas.openblas_core())"
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Haswell"}
    environment.pop("FASTDIST_OPENBLAS_CORETYPE", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split()[-2:] in (["user's", "Haswell"], ["loaded", "Haswell"])


def test_runs_right_core_compares_with_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def right(running: str | None, cpu: blas.Cpu) -> bool:
        monkeypatch.setattr(blas, "openblas_core", lambda: running)
        monkeypatch.setattr(blas, "read_cpu", lambda: cpu)
        return blas.runs_right_core()

    monkeypatch.setattr(blas, "_numpy_crashes_with_haswell", lambda: False)
    intel = blas.Cpu("GenuineIntel", 6, "Intel Xeon", _ALL)
    assert [right("SkylakeX", _ZEN5), right("SkylakeX", _ZEN4)] == [True, False]
    assert [right("SapphireRapids", intel), right(None, intel)] == [True, False]
    monkeypatch.setattr(blas, "_numpy_crashes_with_haswell", lambda: True)
    assert [right("SkylakeX", _ZEN4), right(None, _ZEN4)] == [True, False]


def test_set_blas_threads_is_read_back() -> None:
    before = blas.blas_threads()
    if before is None:
        assert blas.set_blas_threads(1) is False
        return
    try:
        assert blas.set_blas_threads(1) is True
        assert blas.blas_threads() == 1
    finally:
        blas.set_blas_threads(before)


def test_set_blas_threads_refuses_none() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        blas.set_blas_threads(0)


def test_the_library_that_scipy_brings_uses_as_many_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importlib.import_module("scipy.linalg")
    before = blas.blas_threads()
    own = [blas._function("get_num_threads", "c_int", one) for one in blas._scipys_own()]
    try:
        blas.set_blas_threads(1)
        assert all(count is not None and count() == 1 for count in own)
    finally:
        blas.set_blas_threads(before or 1)
    monkeypatch.delitem(sys.modules, "scipy.linalg")
    assert blas._scipys_own() == []


WITHOUT_THE_FUNCTION = """
import os, numpy
from fastdist.core import blas
from fastdist.data.start_method import _count_others

class Hiding:
    def __init__(self, library):
        self.library = library

    def __getattr__(self, name):
        if name == "blas_thread_shutdown_":
            raise AttributeError(name)
        return getattr(self.library, name)

blas._loaded = Hiding(blas._library())
matrix = numpy.ones((600, 600))
for _ in range(2):  # the second product starts them again
    assert (matrix @ matrix == 600).all()
    before = len(os.listdir("/proc/self/task"))
    blas.end_blas_threads()
    print(before, 1 + _count_others())
"""


@pytest.mark.one_in(3)
def test_threads_end_where_openblas_does_not_export_how() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_THE_FUNCTION],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    threads = min(2, len(os.sched_getaffinity(0)))
    assert done.stdout.splitlines() == [f"{threads} 1"] * 2
