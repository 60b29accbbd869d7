"""`fastdist manifest` prints valid input for sbatch and for the JobSet schema."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
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
    secret, jobset = documents(*POD, "--cpus", "32", "--max-restarts", "2", *PROGRAM)
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
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 2}
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


@pytest.mark.parametrize("engine", ["k8s", "slurm"])
def test_the_command_is_one_that_run_takes(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--max-restarts", "2", "--restart", "worker", "-m", *PROGRAM)
    if engine == "k8s":
        words = job_of(documents(*POD, *more)[1])["template"]["spec"]["containers"][0]["command"]
    else:
        last = script(capsys, "--nodes", "4", *more).splitlines()[-1]
        words = shlex.split(last)[2:]
        assert words[0:4] == ["--kill-on-bad-exit=1", sys.executable, "-m", "fastdist"][0:4]
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
