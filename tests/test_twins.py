"""The claim that a kernel has the same name and parameters on the CPU and on CUDA."""

from __future__ import annotations

import ast
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "kernels"

# CPU kernels that have no CUDA twin yet. This list may only shrink: a new kernel comes as twins.
MISSING_ON_CUDA: set[str] = {
    "copying.cat",
    "copying.flip",
    "copying.place_diagonal",
    "copying.roll",
    "copying.triangle",
    "cross_entropy.rows",
    "cross_entropy.rows_gradient",
    "indexing.add",
    "indexing.gather",
    "indexing.put",
    "indexing.put_zeros",
    "indexing.replace",
    "indexing.scatter",
    "indexing.scatter_add",
    "indexing.scatter_zeros",
    "indexing.select",
    "indexing.take",
    "loss.nll",
    "loss.nll_gradient",
    "normalization.layer_norm",
    "normalization.layer_norm_gradient",
    "ordering.sort",
    "ordering.topk",
    "product.linear",
    "reduce.all",
    "reduce.amax",
    "reduce.amin",
    "reduce.any",
    "reduce.argmax",
    "reduce.argmin",
    "reduce.count_nonzero",
    "reduce.logsumexp",
    "reduce.max_along",
    "reduce.mean",
    "reduce.min_along",
    "reduce.norm",
    "reduce.prod",
    "reduce.std",
    "reduce.var",
}


# How long the list may be at most: lower it with each twin.
AT_MOST = 39


def kernels_in(folder: str) -> dict[str, list[str]]:
    """Return the parameters of each structured kernel: public, fills out, returns nothing."""
    found = {}
    for path in sorted((KERNELS / folder).glob("*.py")):
        if path.stem == "pointwise":
            continue  # made from scalar bodies, which both sides read
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                parameters = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
                if "out" in parameters and getattr(node.returns, "value", ...) is None:
                    found[f"{path.stem}.{node.name}"] = parameters
    return found


def test_the_list_of_missing_twins_is_right() -> None:
    missing = kernels_in("cpu").keys() - kernels_in("cuda").keys()
    assert sorted(missing) == sorted(MISSING_ON_CUDA), (
        "this list may only shrink: strike what has its twin now, write the twin of what is new"
    )
    assert len(MISSING_ON_CUDA) <= AT_MOST


def test_every_cuda_kernel_has_a_cpu_twin() -> None:
    assert kernels_in("cuda").keys() - kernels_in("cpu").keys() == set()


def test_twins_take_the_same_parameters_in_the_same_order() -> None:
    cpu, cuda = kernels_in("cpu"), kernels_in("cuda")
    both = cpu.keys() & cuda.keys()
    assert {name: cuda[name] for name in both} == {name: cpu[name] for name in both}
