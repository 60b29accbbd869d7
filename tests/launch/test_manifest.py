"""`fastdist manifest` prints valid input for sbatch and for the JobSet schema."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdist import cli
from fastdist.launch import manifest
from fastdist.launch.cluster_places import KUBERNETES_PORT, first_pod
from fastdist.launch.flags import make_parser
from tests.launch.jobset_schema import JOBSET, SECRET, mistakes

PROGRAM = ("-n", "8", "train.py", "--lr", "0.1 a")
POD = ("jobset", "--nodes", "4", "--image", "lab/train:1", "--gpus", "8", "--memory", "64Gi")


def documents(*words: str) -> list[dict[str, Any]]:
    given = manifest._parser().read(words)
    manifest._check(given)
    return manifest.jobset(given)


def job_of(jobset: dict[str, Any]) -> Any:
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]


def script(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["manifest", "sbatch", *words]) == 0
    return capsys.readouterr().out


def test_a_jobset_fits_its_schema() -> None:
    more = ("--cpus", "32", "--max-restarts", "2", "--time", "2:00:00")
    secret, jobset = documents(*POD, *more, *PROGRAM)
    assert mistakes(secret, SECRET) == []
    assert mistakes(jobset, JOBSET) == []
    assert mistakes(documents(*POD[:5], "train.py")[1], JOBSET) == []


def test_the_schema_notices_a_wrong_name_a_wrong_type_and_a_missing_field() -> None:
    jobset = documents(*POD, *PROGRAM)[1]
    broken = copy.deepcopy(jobset)
    job_of(broken)["completions"] = "4"
    job_of(broken)["template"]["spec"]["containers"][0]["comand"] = []
    del job_of(broken)["template"]["spec"]["restartPolicy"]
    broken["spec"]["failurePolicy"] = {"maxRestart": 1}
    assert len(mistakes(broken, JOBSET)) == 4


def test_each_node_is_a_pod_that_can_save_and_find_the_others() -> None:
    _, jobset = documents(*POD, "--shutdown-timeout", "60", "--max-restarts", "2", *PROGRAM)
    job = job_of(jobset)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (4, 4, "Indexed")
    # A failed pod fails the Job, which restarts all nodes.
    assert (job["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 2
    assert pod["terminationGracePeriodSeconds"] > 60
    assert container["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "8"}
    name = jobset["metadata"]["name"]
    own = f"{name}-nodes-0-3.{name}.default.svc.cluster.local"
    assert jobset["spec"]["network"]["enableDNSHostnames"]
    assert first_pod(own, "3").startswith(f"{name}-nodes-0-0.{name}.")
    assert container["ports"][0]["containerPort"] == KUBERNETES_PORT


def test_pods_read_a_new_secret_that_no_command_shows() -> None:
    (secret, jobset), (other, _) = documents(*POD, *PROGRAM), documents(*POD, *PROGRAM)
    text = secret["stringData"]["secret"]
    assert re.fullmatch("[0-9a-f]{64}", text) and text != other["stringData"]["secret"]
    assert text not in json.dumps(jobset)
    (container,) = job_of(jobset)["template"]["spec"]["containers"]
    reference = {"name": secret["metadata"]["name"], "key": "secret"}
    assert container["env"][0] == {
        "name": "FASTDIST_JOB_SECRET",
        "valueFrom": {"secretKeyRef": reference},
    }


def test_pods_that_have_saved_are_started_again_without_a_restart_that_counts() -> None:
    _, jobset = documents(*POD, *PROGRAM)
    job = job_of(jobset)
    (saved,) = job["podFailurePolicy"]["rules"]
    (container,) = job["template"]["spec"]["containers"]
    assert (saved["action"], saved["onExitCodes"]["values"]) == ("FailJob", [75])
    assert saved["onExitCodes"]["containerName"] == container["name"]
    (rule,) = jobset["spec"]["failurePolicy"]["rules"]
    # The reason of a Job that its podFailurePolicy has failed; restart-attempt then grows.
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"


@pytest.mark.parametrize(
    ("time_limit", "seconds"),
    [
        *(("90", 5400), ("1:00", 60), ("2:00:00", 7200), ("1-0", 86_400)),
        *(("1-12:30", 131_400), ("2-00:00:05", 172_805)),
    ],
)
def test_a_time_limit_ends_a_jobset_for_good(time_limit: str, seconds: int) -> None:
    _, jobset = documents(*POD, "--max-restarts", "2", "--time", time_limit, *PROGRAM)
    assert job_of(jobset)["activeDeadlineSeconds"] == seconds
    last = jobset["spec"]["failurePolicy"]["rules"][-1]
    assert (last["action"], last["onJobFailureReasons"]) == ("FailJobSet", ["DeadlineExceeded"])
    assert "activeDeadlineSeconds" not in job_of(documents(*POD, *PROGRAM)[1])


def test_words_of_the_program_are_not_variables_of_kubernetes() -> None:
    _, jobset = documents(*POD, "train.py", "$(HOME)", "a$$b")
    command = job_of(jobset)["template"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["$$(HOME)", "a$$$$b"]


def run_script(text: str, folder: Path, status: int) -> subprocess.CompletedProcess[str]:
    """Run a script with an srun that ends with a status, and a scontrol that notes its words."""
    commands = {"srun": f"umask; ls -l .fast*; exit {status}", "scontrol": 'echo "scontrol $*"'}
    for name, line in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o700)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_JOB_ID": "7",
    }
    command = ["bash", "-c", f"umask 027\n{text}"]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("status", [0, 1, 75, 137])
def test_a_script_requeues_the_job_if_its_workers_have_saved(
    status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_script(script(capsys, *PROGRAM), tmp_path, status)
    mask, secret, *requeued = done.stdout.splitlines()
    # The user's own mask applies to the program; only this user may read the secret.
    assert (done.returncode, mask, secret[:10]) == (status, "0027", "-rw-------")
    assert requeued == (["scontrol requeue 7"] if status == 75 else [])
    assert not list(tmp_path.glob(".fastdist-secret-*"))


def test_a_script_says_that_a_lost_node_ends_a_job_of_single_restarts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = ("--max-restarts", "2", "--restart", "worker")
    assert "a lost node ends the job" in script(capsys, "--nodes", "2", *more, *PROGRAM)
    assert "a lost node" not in script(capsys, "--nodes", "1", *more, *PROGRAM)
    assert "a lost node" not in script(capsys, "--nodes", "2", *more[:2], *PROGRAM)


@pytest.mark.parametrize("engine", ["k8s", "slurm"])
def test_the_command_is_one_that_run_takes(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--max-restarts", "2", "--restart", "worker", "-m", *PROGRAM)
    if engine == "k8s":
        words = job_of(documents(*POD, *more)[1])["template"]["spec"]["containers"][0]["command"]
    else:
        lines = script(capsys, "--nodes", "4", *more).splitlines()
        (line,) = [line for line in lines if line.startswith("srun ")]
        words = shlex.split(line.removesuffix(" || status=$?"))[2:]
        assert words[0:4] == ["--kill-on-bad-exit=0", sys.executable, "-m", "fastdist"][0:4]
    given = make_parser("fastdist run").read(words[words.index("run") + 1 :])
    assert given.k8s if engine == "k8s" else given.slurm
    assert (given.nproc_per_node, given.max_restarts, given.restart) == ("8", "2", "worker")
    assert (given.module, given.program, given.arguments) == (True, "train.py", ["--lr", "0.1 a"])


def test_yaml_has_each_value_as_json() -> None:
    value = [{"a": {"b": [{"c": 1, "d": {"e": "x: y"}}, {"c": 2}], "f": [1, "2"], "g": True}}]
    lines = '---\na:\n  b:\n    - c: 1\n      d:\n        e: "x: y"\n    - c: 2\n  f: [1, "2"]\n'
    assert manifest.as_yaml(value) == lines + "  g: true\n"


def test_a_script_says_what_slurm_gives_and_when_it_signals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--nodes", "4", "--cpus", "8", "--gpus", "2", "--memory", "16G", "--time", "2:00:00")
    text = script(capsys, *words, "--shutdown-timeout", "60", *PROGRAM)
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, re.MULTILINE))
    assert (options["nodes"], options["ntasks-per-node"], options["cpus-per-task"]) == (
        *("4", "1", "8"),
    )
    assert (options["gpus-per-node"], options["mem"], options["time"]) == ("2", "16G", "2:00:00")
    signal, _, seconds = options["signal"].partition("@")
    assert signal == "TERM" and int(seconds) > 60
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jobset", "train.py"], "jobset needs --image"),
        (["sbatch", "--nodes", "0", "train.py"], "--nodes must be 1 or more, got 0"),
        (["sbatch", "--time", "1\n#SBATCH --x", "train.py"], "--time is '1\\n#SBATCH --x'"),
        (["jobset", "--time", "0", "train.py"], "--time is '0'; expected minutes, such as 90"),
        (["jobset", "--time", "1-2-3", "train.py"], "--time is '1-2-3'; expected minutes"),
        (["sbatch", "--memory", "16Gi", "train.py"], "sbatch expects a size such as 16G"),
        (["jobset", "--memory", "16K", "train.py"], "jobset expects a size such as 16Gi"),
        (["sbatch", "--name", "A b", "train.py"], "--name is 'A b'; expected lower-case"),
        (["sbatch", "-n", "x", "train.py"], "-n must be a number, auto, cpu or gpu, got 'x'"),
        (["sbatch", "--gpus", "-1", "train.py"], "--gpus must be 0 or more"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        manifest.main(words)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and message in err and err.count("\n") == 1
