"""Private functions that packages call, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist

pytestmark = pytest.mark.interop("torch")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
INTS = RNG.integers(-128, 127, (32, 16)).astype(np.int8)
MORE_INTS = RNG.integers(-128, 127, (16, 8)).astype(np.int8)
SCALES = np.float32([0.1, 0.2, 0.3])
POINTS = np.int32([0, 1, -1])

# By function name, the arguments of a call, made with a tensor constructor and the library. A
# "+" at the end of a name means that the first argument requires a gradient.
CALLS: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "_shape_as_tensor": lambda t, lib: (t(X),),
    "_cast_Long": lambda t, lib: (t(X),),
    "_softmax_backward_data": lambda t, lib: (t(X), t(abs(X)), 1, lib.float32),
    "_log_softmax_backward_data": lambda t, lib: (t(X), t(-abs(X)), 1, lib.float32),
    "_int_mm": lambda t, lib: (t(INTS), t(MORE_INTS)),
    "native_layer_norm+": lambda t, lib: (t(X), [4], None, None, 1e-5),
    "native_channel_shuffle": lambda t, lib: (t(X.reshape(1, 4, 3, 1)), 2),
    "_convert_indices_from_coo_to_csr": lambda t, lib: (t(np.array([0, 0, 1, 3])), 5),
    "_convert_indices_from_csr_to_coo": lambda t, lib: (
        t(np.array([0, 2, 3, 3, 4])),
        t(np.array([0, 1, 1, 2])),
    ),
    "fake_quantize_per_tensor_affine+": lambda t, lib: (t(X * 3), 0.1, 3, -10, 12),
    "fake_quantize_per_channel_affine+": lambda t, lib: (
        t(X * 3),
        *(t(SCALES), t(POINTS)),
        *(0, -8, 7),
    ),
    "_amp_update_scale_": lambda t, lib: (
        *(t(np.float32([8])), t(np.int32([1])), t(np.float32([0]))),
        *(2.0, 0.5, 2),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_pytorchs(name: str) -> None:
    import torch

    results = []
    for lib in (fastdist, torch):
        tensors: list[Any] = []

        def made(array: Any, lib: Any = lib, tensors: list[Any] = tensors) -> Any:
            tensors.append(lib.tensor(array.tolist(), dtype=getattr(lib, str(array.dtype))))
            return tensors[-1]

        args = CALLS[name](made, lib)
        if name.endswith("+"):
            args[0].requires_grad_()
        found: Any = getattr(lib, name.removesuffix("+"))(*args)
        parts = list(found) if isinstance(found, tuple) else [found]
        if name.endswith("+"):
            (parts[0] ** 3).sum().backward()
            parts.append(args[0].grad)
        results.append([(str(x.dtype).split(".")[-1], x.detach().numpy()) for x in parts + tensors])
    for (kind, one), (expected, other) in zip(*results, strict=True):
        assert kind == expected
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_by_row", [False, True])
def test_products_of_scaled_float8(is_by_row: bool) -> None:
    import torch

    a, b = RNG.normal(size=(16, 16)), RNG.normal(size=(16, 16))
    scales = (
        (np.ones((16, 1)) * 2, np.ones((1, 16)) / 4) if is_by_row else tuple(map(np.array, (2, 4)))
    )
    out = []
    for lib in (torch, fastdist):
        one, other = (lib.tensor(x.tolist()).to(lib.float8_e4m3fn) for x in (a, b))
        given = [lib.tensor(x.tolist(), dtype=lib.float32) for x in scales]
        kind = lib.bfloat16 if is_by_row else lib.float32
        product = lib._scaled_mm(one, other.t(), *given, out_dtype=kind)
        out.append(product.to(lib.float32).numpy())
    np.testing.assert_allclose(*out, rtol=1e-2 if is_by_row else 1e-6)


def test_gradients_of_convolutions_as_functions() -> None:
    import torch

    x, w = RNG.normal(size=(2, 4, 7)), RNG.normal(size=(6, 2, 3))
    g = RNG.normal(size=(2, 6, 4))
    found = []
    for lib in (fastdist, torch):
        rows = [lib.tensor(one.tolist(), dtype=lib.float64) for one in (x, w, g)]
        import importlib

        grad = importlib.import_module(f"{lib.__name__}.nn.grad")
        options = {"stride": 2, "padding": 1, "groups": 2}
        parts = [grad.conv1d_input(rows[0].shape, rows[1], rows[2], **options)]
        parts.append(grad.conv1d_weight(rows[0], rows[1].shape, rows[2], **options))
        found.append([part.numpy() for part in parts])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_sparse_diagonals() -> None:
    import torch

    rows, offsets = np.arange(9.0).reshape(3, 3), [0, -1, 2]
    dense = []
    for lib in (fastdist, torch):
        if lib is torch:
            found = torch.sparse.spdiags(torch.tensor(rows), torch.tensor(offsets), (4, 3))
        else:
            found = fastdist.sparse.spdiags(lib.tensor(rows.tolist()), lib.tensor(offsets), (4, 3))
        dense.append(found.to_dense().numpy())
    np.testing.assert_array_equal(*dense)
