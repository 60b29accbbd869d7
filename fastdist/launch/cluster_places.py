"""Reads this node's rank and address from variables of Slurm or Kubernetes: `--slurm`, `--k8s`."""

from __future__ import annotations

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping

from fastdist.distributed.store.environment import slurm_host, slurm_port

# The store's port for --k8s and in a JobSet manifest.
KUBERNETES_PORT = 29500
_COUNT = re.compile(r"[0-9]{1,9}")


def read_cluster(
    given: argparse.Namespace,
    environment: Mapping[str, str] = os.environ,
    own_name: Callable[[], str] = socket.getfqdn,
) -> int:
    """Set the flags of this node that --slurm or --k8s reads from the cluster's variables.

    Flags on the command line have precedence. Return how often the cluster started the job before.

    Raises  ValueError that names the missing or invalid variable, and the command that sets it
    """
    if given.slurm and given.k8s:
        raise ValueError("--slurm and --k8s exclude each other: give the one that starts this job")
    if not (given.slurm or given.k8s):
        return 0
    if given.standalone:
        raise ValueError(f"--standalone contradicts {'--slurm' if given.slurm else '--k8s'}")
    if given.slurm:
        _read_slurm(given, environment)
        return _number(environment, "SLURM_RESTART_COUNT", default=0)
    _read_kubernetes(given, environment, own_name)
    return _number(environment, "FASTDIST_RESTART_COUNT", default=0)


def _number(environment: Mapping[str, str], *names: str, default: int) -> int:
    for name in names:
        text = environment.get(name)
        if text:
            if not _COUNT.fullmatch(text):
                raise ValueError(f"{name} is {text!r}; expected a number, 0 or more")
            return int(text)
    return default


def _read_slurm(given: argparse.Namespace, environment: Mapping[str, str]) -> None:
    if not environment.get("SLURM_JOB_ID"):
        raise ValueError(
            "--slurm is for a job of Slurm, and SLURM_JOB_ID is not set: start the command by "
            "`srun --ntasks-per-node=1`, for example in the script that `fastdist manifest sbatch` "
            "prints"
        )
    names = ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    nodes = _number(environment, *names, default=1)
    tasks = _number(environment, "SLURM_STEP_NUM_TASKS", default=1)
    if tasks != nodes:
        how = "has no step" if tasks == 1 else f"has {tasks} tasks"
        raise ValueError(
            f"this job of Slurm has {nodes} nodes and {how}, and `fastdist run` starts all workers "
            "of a node: start it once on each, by `srun --ntasks-per-node=1`"
        )
    if given.nnodes == "1":
        given.nnodes = str(nodes)
    if nodes == 1:
        return
    given.node_rank = given.node_rank or str(_number(environment, "SLURM_NODEID", default=0))
    given.master_addr = given.master_addr or slurm_host(environment)
    given.master_port = given.master_port or str(slurm_port(environment))


def _read_kubernetes(
    given: argparse.Namespace, environment: Mapping[str, str], own_name: Callable[[], str]
) -> None:
    index = environment.get("JOB_COMPLETION_INDEX", "")
    if not _COUNT.fullmatch(index):
        raise ValueError(
            f"--k8s is for a pod of an indexed Job, and JOB_COMPLETION_INDEX is {index!r}: set "
            "completionMode: Indexed, as the manifest that `fastdist manifest jobset` prints does"
        )
    if given.nnodes == "1" and index == "0":
        return
    given.node_rank = given.node_rank or index
    given.master_port = given.master_port or environment.get("MASTER_PORT") or str(KUBERNETES_PORT)
    given.master_addr = given.master_addr or environment.get("MASTER_ADDR")
    if given.master_addr is None:
        given.master_addr = first_pod(own_name(), index)


def first_pod(name: str, index: str) -> str:
    """Return the name of the pod with index 0, from the full name of a pod with another index.

    Raises  ValueError if the pod does not have a name with which other pods can reach it
    """
    host, dot, domain = name.partition(".")
    if not dot or not host.endswith(f"-{index}"):
        raise ValueError(
            f"the name of this pod is {name!r}, from which the name of the first one does not "
            "follow: give the pods a headless service (subdomain: NAME), or set MASTER_ADDR"
        )
    return f"{host.removesuffix(index)}0.{domain}"
