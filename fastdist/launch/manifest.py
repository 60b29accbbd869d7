"""`fastdist manifest`: prints a Slurm script or a Kubernetes JobSet for a job on several nodes."""

from __future__ import annotations

import argparse
import json
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from fastdist.distributed.constants import PREEMPTED_EXIT_STATUS
from fastdist.launch.cluster_places import KUBERNETES_PORT
from fastdist.launch.command_parser import CommandParser
from fastdist.launch.ending import SHUTDOWN_S
from fastdist.launch.flags import GROUP, WORKER

_SBATCH, _JOBSET = "sbatch", "jobset"
# Seconds from a signal to the end: _GRACE_S for the workers, and _MARGIN_S for the launcher.
_MARGIN_S = 10
_GRACE_S = int(SHUTDOWN_S)
_NEW_SECRET = "od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' > \"$FASTDIST_JOB_SECRET_FILE\""
# --memory of each kind, with an example. Kubernetes' unit for 1000 bytes is a lower-case letter.
_MEMORY = {
    _SBATCH: (re.compile(r"[0-9]+[KMGT]?"), "16G"),
    _JOBSET: (re.compile(r"[0-9]+(k|[MGTPE]|[KMGTPE]i)?"), "16Gi"),
}
# Slurm's forms of a time limit: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM and D-HH:MM:SS.
_TIME = re.compile(r"([0-9]{1,9})(:[0-9]{1,2}){0,2}|([0-9]{1,4})-[0-9]{1,2}(:[0-9]{1,2}){0,2}")
# A Kubernetes name. It is so short that "-nodes-0-" and an index can follow it in a host name.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_EPILOG = """
examples:
  fastdist manifest sbatch --nodes 4 -n 8 --time 2:00:00 train.py --epochs 5 > job.sh
  sbatch job.sh
  fastdist manifest jobset --nodes 4 -n 8 --image IMAGE train.py | kubectl apply -f -
"""


def main(arguments: Sequence[str]) -> int:
    """Print the manifest for a command line; return the exit status."""
    parser = _parser()
    given = parser.read(arguments)
    try:
        _check(given)
    except ValueError as error:
        parser.refuse(str(error))
    print(sbatch(given) if given.kind == _SBATCH else as_yaml(jobset(given)), end="")
    return 0


def _parser() -> CommandParser:
    prog = "fastdist manifest"
    parser = CommandParser(
        prog,
        f"{prog} sbatch --nodes 4 -n 8 train.py, or {prog} jobset --nodes 4 --image I train.py",
        description="Print the manifest of a job on several nodes: a script for Slurm's sbatch, or "
        "a Secret and a JobSet for Kubernetes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("kind", choices=(_SBATCH, _JOBSET), help="for which engine")
    add("--nodes", type=int, default=1, metavar="N", help="how many nodes (default 1)")
    add("-n", "--nproc-per-node", default="1", metavar="M", help="workers on each (default 1)")
    add("--name", metavar="NAME", help="name of the job (default: that of the program)")
    add("--image", metavar="IMAGE", help="jobset: the image, with fastdist and the program in it")
    add("--cpus", type=int, metavar="C", help="cores of each node")
    add("--gpus", type=int, default=0, metavar="G", help="GPUs of each node")
    add("--memory", metavar="SIZE", help="memory of each node, such as 16G (Kubernetes: 16Gi)")
    add("--time", metavar="TIME", help="the time limit as Slurm writes it, such as 2:00:00")
    add("--max-restarts", type=int, default=0, metavar="N", help="as for `fastdist run`")
    add(
        *("--restart",),
        choices=(GROUP, WORKER),
        default=GROUP,
        help=f"as for `fastdist run`; with {WORKER} the loss of a whole node ends the job",
    )
    add(
        *("--shutdown-timeout",),
        type=int,
        default=_GRACE_S,
        metavar="S",
        help="how many seconds workers have to save after a preemption's SIGTERM, which comes so "
        f"much before the end (default {_GRACE_S})",
    )
    add("-m", "--module", action="store_true", help="PROGRAM is a module's name")
    add("program", metavar="PROGRAM", help="a Python script, or with -m a module")
    add("arguments", nargs=argparse.REMAINDER, metavar="...", help="PROGRAM's own arguments")
    return parser


def _check(given: argparse.Namespace) -> None:
    """Raise ValueError for a value that is invalid in a manifest; set the name if none is given.

    A value with a line break would end its line of the script, and inject another line.
    """
    for flag in ("nodes", "cpus"):
        value = getattr(given, flag)
        if value is not None and value < 1:
            raise ValueError(f"--{flag} must be 1 or more, got {value}")
    for flag in ("gpus", "max_restarts", "shutdown_timeout"):
        if getattr(given, flag) < 0:
            raise ValueError(f"--{flag.replace('_', '-')} must be 0 or more")
    if not re.fullmatch(r"[0-9]{1,6}|auto|cpu|gpu", given.nproc_per_node):
        raise ValueError(f"-n must be a number, auto, cpu or gpu, got {given.nproc_per_node!r}")
    if given.time is not None and (not _TIME.fullmatch(given.time) or seconds_of(given.time) < 1):
        raise ValueError(
            f"--time is {given.time!r}; expected minutes, such as 90, or a time such as 2:00:00 or "
            "1-12:00:00 (days-hours:minutes:seconds)"
        )
    pattern, example = _MEMORY[given.kind]
    if given.memory is not None and not pattern.fullmatch(given.memory):
        raise ValueError(
            f"--memory is {given.memory!r}; {given.kind} expects a size such as {example}"
        )
    if given.kind == _JOBSET and not given.image:
        raise ValueError("jobset needs --image: one that holds fastdist and the program")
    if given.name is None:
        stem = given.program.rpartition("/")[2].removesuffix(".py").lower()
        given.name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:40].strip("-") or "job"
    if not _NAME.fullmatch(given.name):
        raise ValueError(
            f"--name is {given.name!r}; expected lower-case letters, digits and dashes, at most 40"
        )


def seconds_of(time_limit: str) -> int:
    """Return the seconds of a time limit that `_TIME` matches."""
    days, dash, rest = time_limit.rpartition("-")
    numbers = [int(part) for part in rest.split(":")]
    # Without days, one number is minutes, and two are minutes and seconds.
    if not dash and len(numbers) < 3:
        numbers = [0, *numbers]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def run_command(given: argparse.Namespace, engine: str) -> list[str]:
    """Return the arguments of `fastdist` that each node runs."""
    words = ["run", f"--{engine}", "-n", given.nproc_per_node]
    if given.max_restarts:
        words += ["--max-restarts", str(given.max_restarts), "--restart", given.restart]
    words += ["--shutdown-timeout", str(given.shutdown_timeout)]
    return [*words, *(["-m"] if given.module else []), given.program, *given.arguments]


# ---- Slurm --------------------------------------------------------------------------------------


def sbatch(given: argparse.Namespace) -> str:
    """Return a script for sbatch.

    Slurm sends SIGTERM to the steps some seconds before the time limit, and at a preemption. The
    launchers let their workers use these seconds to save. If workers exit with
    PREEMPTED_EXIT_STATUS, the script requeues the job. Launchers end together by themselves; srun
    must not kill the last ones, or its own status would be that of a signal. The first node creates
    the secret as a file that only this user can read, in the job's folder, which all nodes share.
    """
    options = {
        "job-name": given.name,
        "nodes": given.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": given.cpus,
        "gpus-per-node": given.gpus or None,
        "mem": given.memory,
        "time": given.time,
        "signal": f"TERM@{given.shutdown_timeout + _MARGIN_S}",
        "output": "%x-%j.log",
        "open-mode": "append",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value is not None]
    command = shlex.join([sys.executable, "-m", "fastdist", *run_command(given, "slurm")])
    notes = []
    if given.max_restarts and given.restart == WORKER and given.nodes > 1:
        notes.append("# --restart worker: a failed worker is restarted; a lost node ends the job.")
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "#SBATCH --requeue",
            "set -euo pipefail",
            "# The secret of this job: a file that all nodes see, and this user alone may read.",
            'export FASTDIST_JOB_SECRET_FILE="$SLURM_SUBMIT_DIR/.fastdist-secret-$SLURM_JOB_ID"',
            "trap 'rm -f \"$FASTDIST_JOB_SECRET_FILE\"' EXIT",
            f"(umask 077; {_NEW_SECRET})",
            "status=0",
            *notes,
            f"srun --ntasks-per-node=1 --kill-on-bad-exit=0 {command} || status=$?",
            f"# {PREEMPTED_EXIT_STATUS}: the workers have saved after a signal, to continue later.",
            f'if [ "$status" -eq {PREEMPTED_EXIT_STATUS} ]; then',
            '    rm -f "$FASTDIST_JOB_SECRET_FILE"',
            '    scontrol requeue "$SLURM_JOB_ID"',
            "fi",
            'exit "$status"',
            "",
        ]
    )


# ---- Kubernetes ---------------------------------------------------------------------------------


def jobset(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a Secret with a new job secret, and the JobSet whose pods read it.

    A pod that exits with PREEMPTED_EXIT_STATUS fails its Job. The JobSet then starts all pods
    again, which does not count as one of its restarts.

    Source  JobSet API v1alpha2, kubernetes-sigs/jobset: api/jobset/v1alpha2/jobset_types.go
    """
    secret = f"{given.name}-fastdist"
    labels = {"app.kubernetes.io/name": given.name, "app.kubernetes.io/managed-by": "fastdist"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "labels": labels},
            "type": "Opaque",
            "immutable": True,
            "stringData": {"secret": secrets.token_hex(32)},
        },
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": given.name, "labels": labels},
            "spec": {
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "failurePolicy": {"maxRestarts": given.max_restarts, "rules": _rules(given)},
                "replicatedJobs": [
                    {"name": "nodes", "replicas": 1, "template": {"spec": _job(given, secret)}}
                ],
            },
        },
    ]


def _rules(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the JobSet's actions for a saved state and, with a time limit, for its end."""
    rules = [("preempted", "RestartJobSetAndIgnoreMaxRestarts", "PodFailurePolicy")]
    if given.time is not None:
        rules.append(("time_limit", "FailJobSet", "DeadlineExceeded"))
    return [
        {"name": name, "action": action, "onJobFailureReasons": [reason]}
        for name, action, reason in rules
    ]


def _job(given: argparse.Namespace, secret: str) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu": given.cpus, "memory": given.memory}
    if given.gpus:
        resources["nvidia.com/gpu"] = given.gpus
    resources = {name: str(value) for name, value in resources.items() if value is not None}
    restarts = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}
    command = run_command(given, "k8s")
    at = command.index("-n")
    command[at:at] = ["--nnodes", str(given.nodes)]
    container = {
        "name": "fastdist",
        "image": given.image,
        # Kubernetes replaces $(NAME) in a command, and $$ by $.
        "command": ["fastdist", *(word.replace("$", "$$") for word in command)],
        "env": [
            {
                "name": "FASTDIST_JOB_SECRET",
                "valueFrom": {"secretKeyRef": {"name": secret, "key": "secret"}},
            },
            {"name": "FASTDIST_RESTART_COUNT", "valueFrom": restarts},
        ],
        "ports": [{"name": "store", "containerPort": KUBERNETES_PORT}],
        # Workers of a node use shared memory, of which a pod has only 64 MB by default.
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    if resources:
        container["resources"] = {"requests": resources, "limits": resources}
    saved = {"containerName": "fastdist", "operator": "In", "values": [PREEMPTED_EXIT_STATUS]}
    limit = {} if given.time is None else {"activeDeadlineSeconds": seconds_of(given.time)}
    return {
        **limit,
        "completionMode": "Indexed",
        "completions": given.nodes,
        "parallelism": given.nodes,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": saved}]},
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": given.shutdown_timeout + _MARGIN_S,
                "containers": [container],
                "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}],
            }
        },
    }


def as_yaml(documents: Sequence[Any]) -> str:
    """Return documents of dicts, lists and scalars as YAML; scalars are written as in JSON."""
    return "".join("---\n" + "".join(_lines(document, "")) for document in documents)


def _lines(value: Any, indent: str) -> list[str]:
    found = []
    for key, item in value.items():
        if isinstance(item, dict):
            found += [f"{indent}{key}:\n", *_lines(item, indent + "  ")]
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            found.append(f"{indent}{key}:\n")
            for one in item:
                first, *others = _lines(one, indent + "    ")
                found += [f"{indent}  - {first.lstrip()}", *others]
        else:
            found.append(f"{indent}{key}: {json.dumps(item)}\n")
    return found
