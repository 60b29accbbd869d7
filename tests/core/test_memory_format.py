"""memory_format=: elements lie as asked, values and gradients are the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

LAST = (60, 1, 15, 3)  # the strides of (2, 3, 4, 5) with its channels last


def x() -> fd.Tensor:
    return fd.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    "copied",
    [
        lambda x: x.clone(memory_format=fd.channels_last),
        lambda x: x.contiguous(memory_format=fd.channels_last),
        lambda x: x.to(memory_format=fd.channels_last),
        lambda x: x.to("cpu", fd.float64, memory_format=fd.channels_last),
        lambda x: fd.clone(x, memory_format=fd.channels_last).clone(),
    ],
)
def test_copies_lie_as_asked(copied: Callable[[Any], Any]) -> None:
    found = copied(x())
    assert found.stride() == LAST and (found == x()).all()
    assert found.is_contiguous(memory_format=fd.channels_last) and not found.is_contiguous()
    assert found.contiguous().stride() == (60, 20, 5, 1)
    leaf = x().requires_grad_()
    (copied(leaf) * 2).sum().backward()
    assert (leaf.grad == 2).all()


@pytest.mark.parametrize(
    "make",
    [
        fd.empty_like,
        fd.zeros_like,
        fd.ones_like,
        fd.rand_like,
        fd.randn_like,
        lambda x, **how: fd.full_like(x, 3.0, **how),
        lambda x, **how: fd.randint_like(x, 9, **how),
    ],
)
def test_tensors_like_others_lie_as_asked(make: Callable[..., Any]) -> None:
    assert make(x(), memory_format=fd.channels_last).stride() == LAST
    assert make(x(), memory_format=fd.preserve_format).stride() == (60, 20, 5, 1)
    last = x().to(memory_format=fd.channels_last)
    assert make(last).stride() == LAST
    assert make(last, memory_format=fd.contiguous_format).stride() == (60, 20, 5, 1)


def test_what_lies_so_already_is_not_copied() -> None:
    last = x().to(memory_format=fd.channels_last)
    assert last.contiguous(memory_format=fd.channels_last) is last
    assert last.to(memory_format=fd.channels_last) is last
    assert last.to(memory_format=fd.preserve_format) is last


def test_a_module_moves_the_tensors_that_have_channels() -> None:
    module = fd.nn.Linear(2, 2)
    module.kernel = fd.nn.Parameter(x())
    assert module.to(memory_format=fd.channels_last).kernel.stride() == LAST
    assert module.weight.stride() == (2, 1)


def test_other_ranks_are_refused() -> None:
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        fd.ones(2, 3).clone(memory_format=fd.channels_last)
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported by the contig"):
        fd.ones(2).contiguous(memory_format=fd.preserve_format)
    assert not fd.ones(2).is_contiguous(memory_format=fd.channels_last)
    assert fd.ones(1, 2, 3, 4, 5).clone(memory_format=fd.channels_last_3d).stride()[1] == 1


def test_formats_are_one_object_each_and_strided_is_the_layout() -> None:
    assert pickle.loads(pickle.dumps(fd.channels_last)) is fd.channels_last
    assert isinstance(fd.preserve_format, fd.memory_format) and isinstance(fd.strided, fd.layout)
    assert repr(fd.contiguous_format) == "fastdist.contiguous_format"
    assert x().layout is fd.strided and fd.ones(2).to_sparse().layout is fd.sparse_coo
    assert fd.zeros(2, layout=fd.strided, pin_memory=False).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="pin_memory=True requires a CUDA or other accelerator"):
        fd.zeros(2, pin_memory=True)
    with pytest.raises(TypeError, match=r"argument 'layout' must be fastdist\.strided"):
        fd.zeros(2, layout="sparse")


def test_dtypes_that_are_not_there_can_be_named_and_say_so_when_used() -> None:
    known = {fd.float32: 1, fd.bfloat16: 2, fd.complex64: 3}
    assert known[fd.bfloat16] == 2 and fd.ones(1).dtype != fd.bfloat16
    assert pickle.loads(pickle.dumps(fd.bfloat16)) is fd.bfloat16
    for use in (
        lambda: fd.zeros(2, dtype=fd.bfloat16), lambda: fd.ones(2).to(fd.bfloat16),
        lambda: fd.finfo(fd.bfloat16), lambda: fd.set_default_dtype(fd.bfloat16),
        lambda: fd.ones(2).to(fd.complex128), lambda: fd.nn.Linear(2, 2).to(fd.bfloat16),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"fastdist.(bfloat16|complex128) is not there yet"):
            use()
    assert fd.get_default_dtype() is fd.float32
