"""Steps with unchanged packages of PyTorch's ecosystem: on fastdist as torch, and on PyTorch.

    pip install transformers timm torchvision gpytorch torch-geometric

Two processes run the same source with the same weights and data; in one of them `import torch`
finds fastdist. Before a step is timed, the first results of both processes are compared. Jobs whose
packages are not installed are left out, and the command that installs the packages is printed.
REASONS explains ratios above 1.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from multiprocessing.connection import Connection

from .distributed.jobs import Steps, require_same, serve_steps
from .distributed.rpc import Couple, warn_nobody
from .harness import Case, Row, chosen, compare, peer_torch

NEEDS = ("zmq",)
TARGET = 1.3  # the ratio that each job is to reach
# For each job: its repetitions per sample, and its required distributions with their modules.
JOBS: dict[str, tuple[int, dict[str, str]]] = {
    "GPT-2 training step": (2, {"transformers": "transformers"}),
    "BERT forward": (5, {"transformers": "transformers"}),
    "Llama generate": (1, {"transformers": "transformers"}),
    "timm ResNet-18 training step": (1, {"timm": "timm", "torchvision": "torchvision"}),
    "GPyTorch fit step": (5, {"gpytorch": "gpytorch"}),
    "PyG GCN epoch": (5, {"torch-geometric": "torch_geometric"}),
}

# The causes of a ratio above 1, by job, on one core of an AMD EPYC (Zen 4).
REASONS = {
    "Llama generate": (
        "200 ops a token on a few hundred numbers each: what counts is the call. A layer "
        "takes 6.7 us on PyTorch and 7.4 on fastdist, a view 0.8 and 1.0, cat 1.2 and 2.5, "
        "attention with a cache 7 and 16"
    ),
    "GPyTorch fit step": (
        "200 points: half of the step is Python of gpytorch, and a third LAPACK's and BLAS's "
        "Cholesky factor, solves and products, which take as long on both sides"
    ),
    "PyG GCN epoch": (
        "two thirds are the products of 2708 x 1433 features by 16 columns, a BLAS's on both sides"
    ),
}


def run(rounds: int) -> list[Row]:
    """Compare a step of each job, after checking that both processes' first results are equal."""
    jobs = installed([job for job in JOBS if chosen() in job])
    if not jobs:
        return []
    names = ["fastdist", *(["torch"] * (peer_torch() is not None))]
    # The stack ends all processes, even if one of them fails.
    with ExitStack() as ends:
        sides = []
        for name in names:
            sides.append(Couple(name, __name__, 1))
            ends.callback(sides[-1].end)
        for job in jobs:
            require_same(job, [side.ask("losses", job) for side in sides])
        cases = [
            Case(job, *(side.stopwatch(job) for side in sides), target=TARGET, number=JOBS[job][0])
            for job in jobs
        ]
        rows = compare(cases, rounds)
    for row in rows:
        if row.ratio is not None and row.ratio.median > 1 and row.name in REASONS:
            print(f"{row.name}, above 1: {REASONS[row.name]}", flush=True)
    return rows


def installed(jobs: list[str]) -> list[str]:
    """Return the jobs whose packages are installed; print which jobs are left out."""
    found = []
    for job in jobs:
        missing = [package for package, module in JOBS[job][1].items() if not find_spec(module)]
        if missing:
            print(f"{job} is left out: pip install {' '.join(missing)}", flush=True)
        else:
            found.append(job)
    return found


def _live(library: str, connection: Connection) -> None:
    if library == "fastdist":
        importlib.import_module("fastdist").install_as_torch()
    warn_nobody()
    # Nothing may be downloaded.
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    importlib.import_module("torch").set_num_threads(1)
    steps = importlib.import_module("bench.package_steps")
    steps.import_torchvision()
    serve_steps(Steps(steps.MAKERS).do, connection)


if __name__ == "__main__":
    _live(sys.argv[1], Connection(int(sys.argv[3])))
