"""--slurm and --k8s read ranks and addresses from the cluster, and name what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fastdist.launch.cluster_places import first_pod, read_cluster
from fastdist.launch.flags import make_parser
from fastdist.launch.options import parse_options

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NODEID": "2",
    "SLURM_STEP_NODELIST": "rack[3-5,9]",
    "SLURM_PROCID": "2",
}
POD = {"JOB_COMPLETION_INDEX": "3"}


def read(
    *flags: str, environment: Mapping[str, str], name: str = ""
) -> tuple[str, str | None, str | None, str | None, int]:
    given = make_parser("fastdist run").read([*flags, "train.py"])
    starts = read_cluster(given, environment, lambda: name)
    return given.nnodes, given.node_rank, given.master_addr, given.master_port, starts


def test_a_step_of_slurm_says_everything() -> None:
    nodes, rank, host, port, starts = read("--slurm", environment=STEP)
    assert (nodes, rank, host, starts) == ("4", "2", "rack3", 0)
    assert port is not None and 20_000 <= int(port) <= 60_000
    other = {**STEP, "SLURM_NODEID": "0", "SLURM_RESTART_COUNT": "2"}
    assert read("--slurm", environment=other) == ("4", "0", "rack3", port, 2)


def test_flags_that_are_given_stay() -> None:
    flags = ("--slurm", "--master-addr", "10.0.0.1", "--master-port", "29500")
    assert read(*flags, environment=STEP) == ("4", "2", "10.0.0.1", "29500", 0)


def test_a_job_of_one_node_has_a_store_of_its_own() -> None:
    one = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0"}
    assert read("--slurm", environment=one) == ("1", None, None, None, 0)


def test_a_pod_finds_the_first_one_by_its_own_name() -> None:
    name = "train-nodes-0-3.train.lab.svc.cluster.local"
    expected = ("4", "3", "train-nodes-0-0.train.lab.svc.cluster.local", "29500", 1)
    environment = {**POD, "FASTDIST_RESTART_COUNT": "1"}
    assert read("--k8s", "--nnodes", "4", environment=environment, name=name) == expected
    given = {**POD, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
    assert read("--k8s", "--nnodes", "4", environment=given)[2:4] == ("10.0.0.1", "1234")


@pytest.mark.parametrize("name", ["pod", "train-nodes-0-3", "train-nodes-0-2.train"])
def test_a_pod_without_a_name_for_others_is_told_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}'.*headless service.*or set MASTER_ADDR"):
        first_pod(name, "3")


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (["--slurm"], {}, "SLURM_JOB_ID is not set: start the command by `srun"),
        (["--slurm", "--k8s"], STEP, "--slurm and --k8s exclude each other"),
        (["--slurm", "--standalone"], STEP, "--standalone contradicts --slurm"),
        (["--slurm"], {**STEP, "SLURM_STEP_NUM_TASKS": "8"}, "has 4 nodes and has 8 tasks"),
        (["--slurm"], {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2"}, "2 nodes and has no step"),
        (["--slurm"], {**STEP, "SLURM_NODEID": "x"}, "SLURM_NODEID is 'x'; expected a number"),
        (["--k8s"], {}, "JOB_COMPLETION_INDEX is '': set completionMode: Indexed"),
    ],
)
def test_what_is_missing_is_named(
    flags: list[str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read(*flags, environment=environment)


def test_the_command_line_knows_how_often_the_job_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    options = parse_options(["--slurm", str(tmp_path / "train.py")])
    assert (options.nodes, options.earlier_starts) == (1, 3)


def test_without_the_flags_nothing_is_read() -> None:
    assert read(environment={**STEP, **POD}) == ("1", None, None, None, 0)
