"""Write dtype_results.json with PyTorch: `python -m tests.ops.make_dtype_results torch`."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.ops.dtype_samples import COMPLEX, DTYPES, HALVES, REFUSALS, Sample, samples
from tests.ops.make_torch_results import call_of

PLACE = Path(__file__).with_name("dtype_results.json")
# The cotangent of complex results; the cotangent of real results is 1.
COTANGENT = 1 + 0.5j


def let_cases_call(torch: Any) -> None:
    """Replace fastdist's modules by PyTorch's in the files that contain cases."""
    names = {"fd": torch, "F": torch.nn.functional, "FT": torch.fft, "LA": torch.linalg}
    for name, module in sys.modules.items():
        if name.startswith("tests.ops."):
            for one, other in names.items():
                if hasattr(module, one):
                    setattr(module, one, other)


def twin_of(torch: Any, name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's counterpart of a sample's function."""
    known, _, which = name.rpartition(" ") if " " in name else name.rpartition("-")
    if which == "pointwise":
        return call_of(torch, known)
    if not is_ours(ours):
        # `ours` is a function of a case file, where the names of modules now lead to PyTorch.
        for cell in getattr(ours, "__closure__", None) or ():
            if callable(cell.cell_contents) and is_ours(cell.cell_contents):
                cell.cell_contents = twin_of(torch, name, cell.cell_contents)
        return ours
    for home in (torch, torch.nn.functional, torch.special):
        found = home
        for part in known.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise LookupError(f"PyTorch has no {known}")


def is_ours(function: Any) -> bool:
    """Return whether the function belongs to fastdist; an op's class has its module."""
    return (getattr(function, "__module__", None) or "fastdist").startswith("fastdist")


def listed(value: Any) -> list[Any]:
    """Return the elements of a tensor with six digits; a complex element becomes two numbers."""
    array = value.detach().cpu().resolve_conj().resolve_neg()
    if array.is_floating_point():
        array = array.double()
    flat = array.numpy().ravel()
    if flat.dtype.kind == "c":
        flat = np.stack([flat.real, flat.imag], -1).ravel()
    if flat.dtype.kind != "f":
        return [int(one) for one in flat]
    return [float(f"{one:.6g}") if np.isfinite(one) else str(one) for one in flat.tolist()]


def found_of(torch: Any, call: Callable[..., Any], sample: Sample, dtype: str) -> Any:
    """Return [result dtype, values, gradients or None], or None if PyTorch rejects the dtype."""
    tensors = []
    for real, array in zip(sample.inputs, sample.arrays(dtype), strict=True):
        is_number = real.dtype.kind == "f"
        kind = {"dtype": getattr(torch, dtype)} if is_number else {}
        moves = is_number and dtype in COMPLEX and sample.is_differentiable
        tensors.append(torch.tensor(array).to(**kind).requires_grad_(moves))
    try:
        result = call(*tensors)
        told = str(result.dtype).rpartition(".")[2]
    except REFUSALS:
        return None
    if told in ("complex32", "float8_e4m3fn"):
        return None
    gradients = None
    if getattr(result, "requires_grad", False):
        leaves = [one for one in tensors if one.requires_grad]
        cotangent = torch.full_like(result, COTANGENT if result.is_complex() else 1.0)
        try:
            given = torch.autograd.grad(result, leaves, cotangent, allow_unused=True)
            gradients = [None if one is None else listed(one) for one in given]
        except REFUSALS:
            pass
    return [told, listed(result), gradients]


def results_of(torch: Any, call: Callable[..., Any], sample: Sample) -> dict[str, Any] | None:
    """Return the dict {"dtypes": {dtype: [result dtype, index in "values"] or None}, "values"}."""
    made: dict[str, Any] = {}
    values: list[Any] = []
    for dtype in DTYPES:
        if dtype in HALVES and sample.is_differentiable:
            continue  # test_table.py compares half types with float64
        found = found_of(torch, call, sample, dtype)
        if found is None:
            made[dtype] = None
            continue
        same = [i for i, one in enumerate(values) if _is_alike(one, found[1:])]
        made[dtype] = [found[0], same[0] if same else len(values)]
        if not same:
            values.append(found[1:])
    return {"dtypes": made, "values": values}


def _is_alike(one: Any, other: Any) -> bool:
    flat = [
        [list(map(float, part)) for part in (x[0], *(x[1] or [])) if part] for x in (one, other)
    ]
    if [len(part) for part in flat[0]] != [len(part) for part in flat[1]]:
        return False
    return all(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in zip(*flat, strict=True))


def main() -> None:
    """Write the file with the library named on the command line; tests never import PyTorch."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module(sys.argv[1])
    known = samples()
    let_cases_call(torch)
    rows = []
    for name, sample in known.items():
        try:
            call = twin_of(torch, name, sample.ours)
            call(*[torch.tensor(array) for array in sample.inputs])
        except (LookupError, *REFUSALS):
            continue  # PyTorch does not have this function
        told = json.dumps(results_of(torch, call, sample), separators=(",", ":"))
        rows.append(f"{json.dumps(name)}:{told}")
    PLACE.write_text("{" + ",\n".join(rows) + "}\n")


if __name__ == "__main__":
    main()
