"""A kernel has the same name and parameters on the CPU and on CUDA."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
# Kernels without a CUDA twin. Their ops use them only on the CPU, and use expressions on other
# devices (tests/ops/nn/test_norm_slopes.py). See may_fuse in fastdist/ops/reduce/row_slopes.py.
ON_THE_CPU = {
    "nn.channel_norms.by_known",
    "nn.channel_norms.groups",
    "nn.norm_slopes.batch_norm",
    "nn.norm_slopes.group_norm",
    "nn.norm_slopes.layer_norm",
    "nn.norm_slopes.rms_norm",
    "nn.softmax.log_softmax_slope",
    "nn.softmax.softmax_slope",
    "reduce.row_slopes.logsumexp",
    "reduce.row_slopes.norm",
    "reduce.row_slopes.var",
}


@functools.cache
def kernels_in(folder: str) -> dict[str, list[str]]:
    """Return the parameters of each structured kernel: public, takes `out`, returns None."""
    found = {}
    for path in sorted((KERNELS / folder).rglob("*.py")):
        module = ".".join(path.relative_to(KERNELS / folder).with_suffix("").parts)
        if module == "pointwise.pointwise":
            continue  # generated from scalar bodies, which both devices share
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                parameters = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
                if "out" in parameters and getattr(node.returns, "value", ...) is None:
                    found[f"{module}.{node.name}"] = parameters
    return found


def test_every_cpu_kernel_has_a_cuda_twin() -> None:
    assert kernels_in("cpu").keys() - kernels_in("cuda").keys() == ON_THE_CPU, (
        "a kernel comes with its twin: write the twin of a new kernel in the same change"
    )


def test_every_cuda_kernel_has_a_cpu_twin() -> None:
    assert kernels_in("cuda").keys() - kernels_in("cpu").keys() == set()


def test_twins_take_the_same_parameters_in_the_same_order() -> None:
    cpu, cuda = kernels_in("cpu"), kernels_in("cuda")
    both = cpu.keys() & cuda.keys()
    assert {name: cuda[name] for name in both} == {name: cpu[name] for name in both}
