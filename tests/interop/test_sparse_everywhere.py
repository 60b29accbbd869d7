"""Functions of sparse tensors give PyTorch's results, where both libraries give one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.sparse.test_every_function import FUNCTIONS, calls

pytestmark = pytest.mark.interop("torch")

# These functions draw random numbers, return names or ids, or change their argument.
OTHERS = {
    "F.dropout", "F.dropout1d", "F.dropout2d", "F.dropout3d", "F.alpha_dropout", "Tensor.type",
    "F.feature_alpha_dropout", "dropout", "alpha_dropout", "feature_alpha_dropout",
    "Tensor.data_ptr", "empty_like", "Tensor.new_empty", "empty", "result_type", "svd_lowrank",
    # fastdist's result may be coalesced or keep the order of its input; the values are the same.
    "Tensor.is_coalesced",
}  # fmt: skip


def theirs_of(torch: Any, name: str) -> Callable[..., Any] | None:
    room, _, word = name.rpartition(".")
    home = {"": torch, "F": torch.nn.functional, "sparse": torch.sparse, "Tensor": torch.Tensor}
    found: Callable[..., Any] | None = getattr(home[room], word, None)
    return found


def there(torch: Any, value: Any) -> Any:
    if isinstance(value, fd.Tensor):
        if not value.is_sparse:
            return torch.tensor(value.numpy())
        return torch.sparse_coo_tensor(
            torch.tensor(value._indices().numpy()),
            torch.tensor(value._values().numpy()),
            tuple(value.shape),
            is_coalesced=value.is_coalesced(),
            check_invariants=False,
        )
    return [there(torch, one) for one in value] if isinstance(value, list) else value


def told(value: Any) -> Any:
    """Return the comparable parts: whether it is sparse, its dtype and its elements."""
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    if not hasattr(value, "to_dense"):
        return value if isinstance(value, bool | int | float | str) else type(value).__name__
    dtype = str(value.dtype).rpartition(".")[2]
    return [value.is_sparse, dtype, np.asarray(value.detach().to_dense().tolist(), np.float64)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OTHERS])
def test_what_both_make_is_the_same(name: str) -> None:
    import torch

    function = theirs_of(torch, name)
    for ours in calls():
        theirs = there(torch, list(ours))
        if function is None:
            continue
        expected, found = attempt(function, theirs), attempt(FUNCTIONS[name], ours)
        # The messages of fastdist's errors are tested elsewhere.
        if not any(isinstance(one, Exception) for one in (expected, found)):
            compare(found, expected, name)


def attempt(function: Callable[..., Any], given: Sequence[Any]) -> Any:
    """Return a function's comparable result, or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return told(function(*given))
        except Exception as error:
            return error


def compare(found: Any, expected: Any, name: str) -> None:
    if isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected), name
        for one, other in zip(found, expected, strict=True):
            compare(one, other, name)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)
    elif isinstance(expected, bool | int | float):
        assert found == pytest.approx(expected, nan_ok=True), name
