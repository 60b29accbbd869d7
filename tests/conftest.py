"""Setup of every run: kernel cache, private runtime folder, leak checks, table of seed rows."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.kept_port import KeptPort
from tests.crash_report import CrashReport
from tests.first_process import leave_orphans_to_a_parent, restore_ctrl_c
from tests.lanes import FewReports, Lanes, num_processes
from tests.leak_fixture import nothing_left_behind
from tests.properties import Properties
from tests.seed_report import SeedReport
from tests.shared_rewriting import SharedRewriting
from tests.short_folders import make_short_folder
from tests.suite import lock_order, rotation
from tests.suite.cpu_report import CpuReport
from tests.suite.shared_collection import SharedCollection
from tests.suite.slow_sample import SlowSample
from tests.surroundings import set_aside_what_is_not_the_tests

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]

# Set the environment before fastdist is imported; the processes that tests start inherit it.
# Kernels are compiled once into a cache inside this checkout, so tests of a new clone compile them.
set_aside_what_is_not_the_tests(os.environ)
lock_order.install()
os.environ["FASTDIST_CACHE_DIR"] = str(ROOT / ".kernel-cache")

deselected_because: Counter[str] = Counter()
private_directory = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    parser.addoption(
        "--slow-sample", metavar="SEED", help="run some of the slow tests, and no other"
    )
    parser.addoption(
        "--rotate", metavar="SEED", help="run one in n of the cases with the marker one_in"
    )
    parser.addoption("--cpu", action="store_true", help="list the CPU seconds of folders of tests")


def pytest_configure(config: pytest.Config) -> None:
    leave_orphans_to_a_parent()
    restore_ctrl_c()
    # Two test runs on one machine must not find each other's socket files.
    config.stash[private_directory] = make_short_folder()
    os.environ["XDG_RUNTIME_DIR"] = config.stash[private_directory]
    if config.option.slow_sample is not None:
        config.option.slow = True
        config.pluginmanager.register(SlowSample(config.option.slow_sample), "fastdist-slow-sample")
    turn = rotation.Rotation(config, str(ROOT))
    config.pluginmanager.register(turn, "fastdist-rotation")
    if config.option.slow or turn.seed is not None:
        from tests.distributed import templates  # templates reads the environment when imported

        if turn.seed is None:
            templates.ENDS_WHOLE_ONE_IN = 1
        else:
            templates.draw_ends(turn.seed)
    config.pluginmanager.register(SeedReport(), "fastdist-seed-report")
    config.pluginmanager.register(CpuReport(), "fastdist-cpu-report")
    crashes = CrashReport(config.stash[private_directory])
    config.pluginmanager.register(crashes, "fastdist-crash-report")
    config.pluginmanager.register(SharedRewriting(), "fastdist-shared-rewriting")
    # The plugin registered last runs its hooks first, before plugins that read the collection.
    shared = SharedCollection(config.stash[private_directory])
    config.pluginmanager.register(shared, "fastdist-shared-collection")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(FewReports(), "fastdist-few-reports")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[private_directory], ignore_errors=True)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return num_processes(config, lambda: no_gpu() is None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return Lanes(config, log) if config.option.dist == "load" else None


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip test files that import pyzmq if it is not installed, as on a machine for GPU tests."""
    if importlib.util.find_spec("zmq") is not None:
        return None
    return WithoutSockets.from_parent(parent, path=module_path)


class WithoutSockets(pytest.Module):
    """A test file that may import pyzmq, on a machine without pyzmq."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests of the file, or none if it imports pyzmq."""
        try:
            return super().collect()
        except self.CollectError as error:
            cause = error.__cause__
            if not (isinstance(cause, ModuleNotFoundError) and cause.name == "zmq"):
                raise
            deselected_because["files of tests: pyzmq is not installed (pip install pyzmq)"] += 1
            return []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that cannot run here. Never skip: a skipped test looks like a checked one."""
    kept: list[pytest.Item] = []
    gone: list[pytest.Item] = []
    for item in items:
        reasons = [reason for mark in item.iter_markers() if (reason := why_not(mark, config))]
        for reason in reasons[:1]:
            deselected_because[reason] += 1
        (gone if reasons else kept).append(item)
    turn = config.pluginmanager.get_plugin("fastdist-rotation")
    if turn is not None and (others := turn.others(kept)):
        reason = (
            f"one_in: cases of other commits; this run is --rotate {turn.seed}, --slow runs all"
        )
        deselected_because[reason] += len(others)
        gone += others
        kept = [item for item in kept if item not in others]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    # An xdist worker prints no summary, so it sends its counts to the controller.
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["deselected_because"] = dict(deselected_because)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    # Every worker collects all tests, so all have the same counts; a crashed worker sends none.
    told = getattr(node, "workeroutput", {}).get("deselected_because", {})
    deselected_because.update(Counter(told) - deselected_because)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    # Nearly all objects made during collection stay alive, and each garbage collection would visit
    # them, which takes 2 of the 7 s.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    forget_what_lives_on()


def forget_what_lives_on() -> None:
    """Exclude long-lived objects from garbage collection, because every collection visits them:
    300,000 objects once tests are collected, and later a million, most of them from compiled code.
    """
    gc.collect()
    gc.freeze()


def why_not(given: pytest.Mark, config: pytest.Config) -> str | None:
    """Return why tests with this mark cannot run now, or None if they can."""
    mark = given.name
    if mark == "interop":
        return no_others(*given.args)
    if mark == "packages":
        return no_package(config.option.markexpr, *given.args)
    if mark == "gpu":
        return no_gpu()
    if mark == "nvrtc":
        return no_nvrtc()
    if mark == "site" and "site" not in config.option.markexpr:
        return "site: give -m site (pip install -e '.[docs]')"
    if mark == "mpi":
        from tests.launch import mpirun

        return mpirun.why_not(*given.args)
    if mark == "engines":
        from tests.integrations import engines

        return next((why for name in given.args if (why := engines.why_not(name))), None)
    if mark == "namespaces":
        from tests.launch import two_hosts

        return two_hosts.why_not()
    if mark == "slow" and not config.option.slow and "slow" not in config.option.markexpr:
        return "slow: give --slow or -m slow"
    return None


@functools.cache
def no_others(*packages: str) -> str | None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"interop: {' and '.join(missing)} not installed" if missing else None


def no_package(chosen: str, package: str) -> str | None:
    if "packages" not in chosen:
        return "packages: give -m packages"
    if importlib.util.find_spec(package) is None:
        return f"packages: {package} is not installed"
    return None


@functools.cache
def no_gpu() -> str | None:
    if importlib.util.find_spec("cupy") is None:
        return "gpu: CuPy is not installed (pip install -e '.[cuda12]')"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"gpu: no driver answers ({error})"
    return None if count else "gpu: no GPU in this machine"


@functools.cache
def no_nvrtc() -> str | None:
    if importlib.util.find_spec("cupy") is None:
        return "nvrtc: CuPy is not installed (pip install -e '.[nvrtc]')"
    from cupy_backends.cuda.libs import nvrtc

    try:
        nvrtc.getVersion()
    except (RuntimeError, ImportError, OSError) as error:
        return f"nvrtc: the compiler does not load ({error}; pip install -e '.[nvrtc]')"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in sorted(deselected_because.items()):
        terminalreporter.write_line(f"deselected {count}, {reason}")


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    # A module-scoped fixture may hold an agent that opens more resources while a test uses it.
    with nothing_left_behind("test", wider=True):
        yield


@pytest.fixture
def properties(subtests: pytest.Subtests) -> Properties:
    """Return the property checks of one sample call; they share its arrays and its reference."""
    return Properties(subtests, draw_the_same_numbers_in_each_run)


@pytest.fixture(scope="session")
def samples_alone(pytestconfig: pytest.Config) -> bool:
    """Return whether slow checks run only on a sample with a fixed seed; --slow runs all."""
    return not pytestconfig.option.slow


@pytest.fixture(scope="module")
def forks() -> Iterator[None]:
    """Make `subprocess` fork Python programs from this process. This saves the imports of a
    program: half a second of CPU time each.
    """
    from tests.launch.forked_programs import ForkedPopen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedPopen)
        yield


@pytest.fixture
def port() -> Iterator[int]:
    """Yield a free port of this machine, reserved for one test."""
    kept = KeptPort()
    yield kept.number
    kept.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    # Some test files draw random numbers on import, such as the parameters of a layer.
    if isinstance(collector, pytest.Module):
        draw_the_same_numbers_in_each_run()


@pytest.fixture(autouse=True)
def draws_the_same_numbers_in_each_run() -> None:
    draw_the_same_numbers_in_each_run()


def draw_the_same_numbers_in_each_run() -> None:
    """Seed the default generator; without a seed its numbers would differ between runs."""
    # Do not import the generator here: some tests check which modules an import loads.
    generator = sys.modules.get("fastdist.random_numbers.generator")
    if generator is not None:
        generator.manual_seed(generator.DEFAULT_SEED)


@pytest.fixture(autouse=True, scope="module")
def module_leaves_nothing_behind() -> Iterator[None]:
    with nothing_left_behind("tests of this file"):
        yield
    forget_what_lives_on()
