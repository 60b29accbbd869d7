"""Programs run unchanged on each engine, and killed workers are restarted."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.engines import (
    RESTARTING,
    RESTARTING_ALL,
    ROOT,
    STARTS,
    Command,
    Job,
    started,
)
from tests.integrations.ray_cluster import RayCluster
from tests.integrations.slurm import Slurm
from tests.short_folders import short_folder
from tests.standstill import Standstill

pytestmark = pytest.mark.usefixtures("forks")

PARAMETER_SERVER = ("fastdist.examples.parameter_server", 3, 1e-9)
DATA_PARALLEL = ("fastdist.examples.data_parallel.ddp", 2, 1e-12)
LASTING = "tests.integrations.lasting"
SAVING = "tests.integrations.saving"
BACK_WITHIN_S = 20.0


def on_engines(*names: str) -> Any:
    params = [pytest.param(name, marks=pytest.mark.engines(name)) for name in names]
    return pytest.mark.parametrize("engine", params, indirect=True)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    with short_folder() as folder:
        cluster = RayCluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the name of an engine. If its drivers connect to a cluster, that cluster runs."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ray":
            for name, value in request.getfixturevalue("ray_cluster").environment.items():
                patch.setenv(name, value)
        yield request.param


def words_of(example: tuple[str, int, float], folder: Path) -> list[str]:
    return [example[0], "--steps", "5", "--out", str(folder)]


def require_result(output: str, bound: float) -> None:
    (found,) = re.findall(r"result: .* (\S+)\s*$", output, re.MULTILINE)
    assert float(found) <= bound, output


@pytest.mark.one_in(3)
@on_engines(*STARTS)
@pytest.mark.parametrize("example", [PARAMETER_SERVER, DATA_PARALLEL], ids=["rpc", "ddp"])
def test_an_example_runs_unchanged(
    engine: str, example: tuple[str, int, float], port: int, tmp_path: Path
) -> None:
    with started(engine, example[1], port, words_of(example, tmp_path), tmp_path) as job:
        require_result(job.end(), example[2])


def all_have_seen(folder: Path, rank: int, life: int, size: int) -> bool:
    """Return whether a life has joined, and has exchanged calls with all other workers."""
    others = [other for other in range(size) if other != rank]
    files = [f"up.{rank}.{life}", *(f"saw.{other}.{rank}.{life}" for other in others)]
    return all((folder / name).exists() for name in files)


def kill(folder: Path, rank: int, life: int) -> None:
    os.kill(int((folder / f"up.{rank}.{life}").read_text()), signal.SIGKILL)


def kill_each_once(job: Job, size: int, *, all_restart: bool = False) -> list[float]:
    """Kill each worker once, the possible host of the store last; return how soon each was back.

    If all workers restart, each time ends when the last worker is back.
    """
    ranks = range(size)
    job.wait_until(lambda: all(all_have_seen(job.folder, rank, 0, size) for rank in ranks))
    took = []
    for number, rank in enumerate(reversed(ranks)):
        life = number if all_restart else 0
        awaited = ranks if all_restart else [rank]
        kill(job.folder, rank, life)

        def are_back(life: int = life + 1, awaited: Sequence[int] = awaited) -> bool:
            return all(all_have_seen(job.folder, one, life, size) for one in awaited)

        with Standstill() as stood:
            took_s = job.wait_until(are_back)
        took.append(took_s - stood.seconds)
    (job.folder / "stop").touch()
    return took


@on_engines(*RESTARTING, *RESTARTING_ALL)
def test_any_worker_that_is_killed_is_back_soon(engine: str, port: int, tmp_path: Path) -> None:
    with started(engine, 2, port, [LASTING, str(tmp_path)], tmp_path) as job:
        took = kill_each_once(job, 2, all_restart=engine in RESTARTING_ALL)
        job.end()
    assert max(took) < BACK_WITHIN_S, took


# ---- Slurm: one cluster for these tests ----------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with short_folder() as folder:
        slurm = Slurm(Path(folder))
        try:
            slurm.start()
            yield slurm
        finally:
            slurm.close()


def srun(cluster: Slurm, job: Job, *words: str, environment: dict[str, str] | None = None) -> None:
    job.start("srun", *words, environment={**cluster.environment, **(environment or {})})


@pytest.mark.engines("slurm")
def test_tasks_of_slurm_are_workers(cluster: Slurm, tmp_path: Path) -> None:
    job = Job(tmp_path)
    try:
        python = sys.executable
        srun(cluster, job, "-N1", "-n3", python, "-m", *words_of(PARAMETER_SERVER, tmp_path))
        require_result(job.end(), PARAMETER_SERVER[2])
    finally:
        job.close()


@pytest.mark.engines("slurm")
def test_launchers_on_nodes_of_slurm_find_each_other(cluster: Slurm, tmp_path: Path) -> None:
    job, secret = Job(tmp_path), tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(secrets.token_hex(32))
    launcher = [sys.executable, "-m", "fastdist", "run", "--slurm"]
    try:
        srun(
            *(cluster, job, "-N2", "-n2", *launcher, "-m", *words_of(DATA_PARALLEL, tmp_path)),
            environment={"FASTDIST_JOB_SECRET_FILE": str(secret)},
        )
        require_result(job.end(), DATA_PARALLEL[2])
    finally:
        job.close()


@contextmanager
def started_on_slurm(cluster: Slurm, folder: Path, module: str, *more: str) -> Iterator[Job]:
    """Start a module on two nodes with the script that `fastdist manifest sbatch` prints."""
    words = ("--nodes", "2", "--cpus", "2", *more)
    manifest = [sys.executable, "-m", "fastdist", "manifest", "sbatch", *words, "-m", module]
    done = subprocess.run(
        [*manifest, str(folder)],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "job.sh").write_text(done.stdout)
    job = Job(folder)
    try:
        job.start("sbatch", "--wait", "-o", "output", "job.sh", environment=cluster.environment)
        yield job
    finally:
        cluster.run("scancel", "--user", str(os.getuid()))
        job.close()


@pytest.mark.engines("slurm")
def test_the_script_of_a_manifest_runs_and_brings_killed_workers_back(
    cluster: Slurm, tmp_path: Path
) -> None:
    again = ("--max-restarts", "2", "--restart", "worker")
    with started_on_slurm(cluster, tmp_path, LASTING, *again) as job:
        took = kill_each_once(job, 2)
        assert "restart 1 of 2" in job.end()
    assert max(took) < BACK_WITHIN_S, took
    assert not list(tmp_path.glob(".fastdist-secret-*"))


@pytest.mark.engines("slurm")
def test_a_job_that_has_saved_after_a_signal_is_requeued_and_finishes(
    cluster: Slurm, tmp_path: Path
) -> None:
    def states() -> list[str]:
        return cluster.run("squeue", "-h", "-o", "%i %T").stdout.split()

    with started_on_slurm(cluster, tmp_path, SAVING) as job:
        job.wait_until(lambda: len([*tmp_path.glob("up.*")]) == 2)
        number = states()[0]
        # Slurm sends this signal before a time limit, and at a preemption.
        cluster.run("scancel", "--signal=TERM", number)
        job.wait_until(lambda: states() == [number, "PENDING"])
        # Slurm starts a requeued job after two minutes.
        cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now")
        job.end()
    assert [path.read_text() for path in tmp_path.glob("done.*")] == ["1", "1"]
    assert not list(tmp_path.glob(".fastdist-secret-*"))


# ---- drivers of Ray and Dask --------------------------------------------------------------------


def start_driver(job: Job, engine: str, case: str) -> Command:
    words = [sys.executable, "-m", "tests.integrations.drivers", engine, case, str(job.folder)]
    return job.start(*words)


@on_engines("ray", "dask")
def test_mistakes_are_errors_that_name_what_is_wrong(engine: str, tmp_path: Path) -> None:
    job = Job(tmp_path)
    try:
        start_driver(job, engine, "errors")
        output = job.end()
    finally:
        job.close()
    assert "raised 1 ValueError('on purpose') True" in output
    words = "they need 9 CPU, and the cluster has 4"
    if engine == "dask":
        words = r"too few: within 1 s Dask did not have 9 free workers .* the cluster has \d"
    assert re.search(words, output)
    assert re.search(r"no number: .* is \{'lr': 0\.1\}; expected a .*number", output)
    assert "again [('0', '2'), ('1', '2')]" in output


@on_engines("ray", "dask")
def test_groups_come_back_whole_and_may_be_nested(engine: str, tmp_path: Path) -> None:
    job = Job(tmp_path)
    try:
        start_driver(job, engine, "groups")
        output = job.end()
    finally:
        job.close()
    assert "group [(1, 2.0), (1, 2.0)]" in output
    if engine == "ray":
        assert "memory [('0', '2'), ('1', '2')]" in output
    assert "nested [([('0', '2'), ('1', '2')], ('0', '2')), ('1', '2')]" in output


@on_engines("dask")
def test_a_worker_that_a_plugin_has_joined_is_replaced(engine: str, tmp_path: Path) -> None:
    job = Job(tmp_path)
    try:
        start_driver(job, engine, "plugin")
        output = job.end()
    finally:
        job.close()
    assert "joined True" in output and "back ['worker0', 'worker1']" in output


@on_engines("ray", "dask")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_driver(engine: str, ending: int, tmp_path: Path) -> None:
    job = Job(tmp_path, replaces=False)
    try:
        if engine == "dask":
            start_driver(job, engine, "cluster")
            job.wait_until((tmp_path / "address").exists)
        driver = start_driver(job, engine, "lasting")
        job.wait_until(lambda: all(all_have_seen(tmp_path, rank, 0, 2) for rank in (0, 1)))
        workers = [int((tmp_path / f"up.{rank}.0").read_text()) for rank in (0, 1)]
        require_no_secret_in_sight(workers)
        os.kill(driver.process.pid, ending)
        driver.is_expected_to_end = True
        job.wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 40)
        (tmp_path / "stop").touch()
        job.wait_until(lambda: driver.process.poll() is not None)
    finally:
        job.close()
    # The driver has handled the KeyboardInterrupt that `run` raised; Dask's processes may print
    # errors.
    assert ending == signal.SIGKILL or "interrupted" in job.output


def require_no_secret_in_sight(pids: list[int]) -> None:
    """Fail if the command line or the environment of a worker's process contains a secret."""
    for pid in pids:
        for file in ("cmdline", "environ"):
            text = Path(f"/proc/{pid}/{file}").read_bytes()
            assert b"FASTDIST_JOB_SECRET" not in text
            assert not re.search(rb"[0-9a-f]{64}", text)
