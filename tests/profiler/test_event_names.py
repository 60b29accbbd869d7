"""Events of ops have PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.profiler import profile

A = fd.ones(8, 8, requires_grad=True)
V = fd.ones(8)
ONE = fd.tensor([1])
EYE = fd.eye(2)
VOLUME = fd.ones(1, 1, 2, 2, 2)
IMAGE = fd.ones(1, 1, 8, 8)
TARGET = fd.zeros(8, dtype=fd.int64)


def fresh() -> fd.Tensor:
    return V.clone()


def of(tensor: fd.Tensor, method: str) -> Callable[[], object]:
    # Look up the method only when it is called: a profile replaces some methods while it records.
    return partial(methodcaller(method), tensor)


# (call, its events); inner events are in parentheses. PyTorch 2.13 has the same outer events. The
# inner events depend on the implementation.
ROWS: dict[str, tuple[Callable[[], object], str]] = {
    "linear": (lambda: F.linear(A, A), "linear(mm)"),
    "linear with bias": (lambda: F.linear(A, A, V), "linear(addmm)"),
    "matrices": (lambda: A @ A, "mm"),
    "mm": (lambda: fd.mm(A, A), "mm"),
    "batches": (lambda: A.expand(2, 8, 8) @ A.expand(2, 8, 8), "expand expand bmm"),
    "mv": (lambda: fd.mv(A, V), "mv"),
    "dot": (lambda: fd.dot(V, V), "dot"),
    "conv2d": (lambda: F.conv2d(IMAGE, IMAGE), "conv2d(convolution)"),
    "cross_entropy": (
        lambda: F.cross_entropy(A, TARGET),
        "cross_entropy_loss(nll_loss_forward)",
    ),
    "layer_norm": (lambda: F.layer_norm(A, (8,)), "layer_norm(native_layer_norm)"),
    "embedding": (lambda: F.embedding(ONE, A), "embedding(index_select)"),
    "gelu": (lambda: F.gelu(A), "gelu"),
    "gelu by tanh": (lambda: F.gelu(A, approximate="tanh"), "gelu"),
    "softmax": (lambda: F.softmax(A, -1), "softmax"),
    "cat": (lambda: fd.cat([A, A]), "cat"),
    "stack": (lambda: fd.stack([V, V]), "stack(unsqueeze unsqueeze cat)"),
    "std": (of(A, "std"), "std"),
    "var": (of(A, "var"), "var"),
    "clamp": (lambda: A.clamp(0), "clamp"),
    "clamp both": (lambda: A.clamp(0, 1), "clamp"),
    "max": (lambda: A.max(0), "max"),
    "sort": (of(A, "sort"), "sort"),
    "topk": (lambda: A.topk(2), "topk"),
    "norm": (of(A, "norm"), "norm(linalg_vector_norm)"),
    "where": (lambda: fd.where(A > 0, A, A), "gt where"),
    "index": (lambda: V[ONE], "to index"),
    "to": (lambda: V.to(fd.float64), "to(_to_copy)"),
    "double": (of(V, "double"), "to(_to_copy)"),
    "contiguous": (lambda: A.t().contiguous(), "t(transpose) contiguous(clone)"),
    "clone": (of(A, "clone"), "clone"),
    "detach": (of(A, "detach"), "detach"),
    "copy_": (lambda: fresh().copy_(V), "clone copy_"),
    "fill_": (lambda: fresh().fill_(2.0), "clone fill_"),
    "zero_": (lambda: fresh().zero_(), "clone zero_"),
    "add_": (lambda: fresh().add_(1.0), "clone add_"),
    "item": (of(ONE, "item"), "item"),
    "bool": (lambda: bool(ONE), "is_nonzero(item)"),
    "float": (lambda: float(ONE), "item"),
    "select": (lambda: A[0], "select"),
    "slice": (lambda: A[1:3], "slice"),
    "new axis": (lambda: A[None], "unsqueeze"),
    "view": (lambda: A.view(64), "view"),
    "reshape": (lambda: A.reshape(64), "reshape(view)"),
    "flatten": (of(A, "flatten"), "flatten(view)"),
    "permute": (lambda: A.permute(1, 0), "permute"),
    "split": (lambda: A.split(4), "split(slice slice)"),
    "zeros": (lambda: fd.zeros(3), "zeros"),
    "randn": (lambda: fd.randn(3), "randn"),
    "arange": (lambda: fd.arange(3), "arange"),
    "dropout": (lambda: F.dropout(V), "dropout(bernoulli(rand lt to(_to_copy)) mul mul)"),
    "max_pool2d": (lambda: F.max_pool2d(IMAGE, 2), "max_pool2d(max_pool2d_with_indices)"),
    "max_pool1d": (
        lambda: F.max_pool1d(V[None], 2),
        "unsqueeze max_pool1d(max_pool2d_with_indices)",
    ),
    "max_pool3d": (
        lambda: F.max_pool3d(VOLUME, 2),
        "max_pool3d(max_pool3d_with_indices)",
    ),
    "adaptive_max_pool2d": (
        lambda: F.adaptive_max_pool2d(IMAGE, 2),
        "adaptive_max_pool2d(max_pool2d_with_indices)",
    ),
    "interpolate": (lambda: F.interpolate(IMAGE, scale_factor=2), "upsample_nearest2d"),
    "interpolate exactly": (
        lambda: F.interpolate(IMAGE, scale_factor=2, mode="nearest-exact"),
        "_upsample_nearest_exact2d",
    ),
    "interpolate linearly": (
        lambda: F.interpolate(IMAGE[0], 4, mode="linear"),
        "select upsample_linear1d",
    ),
    "interpolate by cubics": (
        lambda: F.interpolate(IMAGE, 4, mode="bicubic"),
        "upsample_bicubic2d",
    ),
    "mse_loss": (lambda: F.mse_loss(A, A), "mse_loss(mse_loss mean)"),
    "normalize": (
        lambda: F.normalize(A),
        "norm(linalg_vector_norm) clamp_min(clamp) expand_as(expand) div",
    ),
    "inv": (lambda: fd.linalg.inv(EYE), "linalg_inv(linalg_inv_ex)"),
    "solve": (lambda: fd.linalg.solve(EYE, EYE), "linalg_solve(linalg_solve_ex)"),
    "batch_norm": (
        lambda: F.batch_norm(A, V, V, training=True, momentum=0.0),
        "batch_norm(native_batch_norm detach detach mul reshape(view) lerp_ reshape(view) lerp_)",
    ),
}


_KERNELS_MADE = ("fastdist::load_kernel", "fastdist::compile_kernel")


def told(p: profile) -> str:
    """Return the names of events, with inner events in parentheses. Events of loading or compiling
    a kernel are omitted, since earlier tests may already have loaded or compiled it.
    """

    def text(events: list[Any]) -> str:
        shown = [event for event in events if event.name not in _KERNELS_MADE]
        return " ".join(map(one, shown))

    def one(event: Any) -> str:
        inner, name = text(event.cpu_children), event.name.removeprefix("aten::")
        return f"{name}({inner})" if inner else name

    return text([event for event in p.events() if event.cpu_parent is None])


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ROWS)
def test_events_have_the_names_that_pytorchs_have(name: str) -> None:
    call, expected = ROWS[name]
    with profile() as p:
        call()
    assert told(p) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: F.avg_pool2d(IMAGE, 2), {"avg_pool2d"}),
        (lambda: F.avg_pool3d(VOLUME, 2), {"avg_pool3d"}),
        (lambda: F.adaptive_avg_pool2d(IMAGE, 3), {"adaptive_avg_pool2d", "_adaptive_avg_pool2d"}),
        (lambda: fd.nn.GRU(8, 3)(A[None]), {"gru", "linear", "mkldnn_rnn_layer"}),
        (lambda: fd.nn.LSTM(8, 3)(A[None]), {"lstm", "linear", "mkldnn_rnn_layer"}),
        (
            lambda: F.scaled_dot_product_attention(A[None], A[None], A[None]),
            {"scaled_dot_product_attention", "bmm", "softmax"},
        ),
    ],
)
def test_what_is_made_of_kernels_of_our_own_is_told_in_pytorchs_words(
    call: Callable[[], object], expected: set[str]
) -> None:
    with profile() as p:
        call()
    names = {str(event.name).removeprefix("aten::") for event in p.events()}
    assert expected <= names and not names & {"weigh", "recurrent_sequence", "largest"}


def test_gradients_of_pooling_and_resizing_have_their_names() -> None:
    image = IMAGE.clone().requires_grad_()
    pooled = F.max_pool2d(F.interpolate(F.avg_pool2d(image, 2), scale_factor=2), 2)
    with profile() as p:
        pooled.sum().backward()
    names = [str(event.name).removeprefix("aten::") for event in p.events()]
    wanted = {
        "max_pool2d_with_indices_backward",
        "upsample_nearest2d_backward",
        "avg_pool2d_backward",
    }
    assert wanted <= {*names}


def test_methods_are_what_they_were_after_a_profile() -> None:
    names = ("item", "detach", "copy_", "fill_", "zero_", "reshape", "__bool__")
    before = [getattr(fd.Tensor, name) for name in names]
    with profile():
        assert all(getattr(fd.Tensor, n) is not m for n, m in zip(names, before, strict=True))
    assert [getattr(fd.Tensor, name) for name in names] == before


def test_a_failure_inside_of_a_function_ends_its_event() -> None:
    with profile() as p:
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            F.linear(fd.ones(2, 3), fd.ones(2, 2))
        V.exp()
    assert told(p).split()[-1] == "exp"
