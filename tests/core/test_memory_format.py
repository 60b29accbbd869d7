"""memory_format= sets the strides and changes neither values nor gradients."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

LAST = (60, 1, 15, 3)  # the strides of shape (2, 3, 4, 5) in channels-last format


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
    assert module.to(memory_format=fd.contiguous_format).kernel.stride() == (60, 20, 5, 1)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d"):
        module.to(memory_format=fd.channels_last_3d)


CASTS = {
    "float": fd.float32,
    "double": fd.float64,
    "half": fd.float16,
    "bfloat16": fd.bfloat16,
    "long": fd.int64,
    "int": fd.int32,
    "short": fd.int16,
    "char": fd.int8,
    "byte": fd.uint8,
    "bool": fd.bool,
    "cfloat": fd.complex64,
    "cdouble": fd.complex128,
    "cpu": fd.float32,
}


@pytest.mark.parametrize("name", CASTS)
def test_casts_lie_as_asked(name: str) -> None:
    cast = getattr(x(), name)
    assert cast().stride() == cast(memory_format=fd.preserve_format).stride() == (60, 20, 5, 1)
    found = cast(memory_format=fd.channels_last)
    assert found.stride() == LAST and found.dtype is CASTS[name]
    assert fd.equal(found, x().to(CASTS[name]))
    assert getattr(found, name)(memory_format=fd.contiguous_format).stride() == (60, 20, 5, 1)
    assert getattr(found, name)() is found


def test_other_sizes_lie_as_asked() -> None:
    small = fd.arange(2.0)
    assert small.resize_(2, 3, 4, 5, memory_format=fd.channels_last) is small
    assert small.stride() == LAST and small.reshape(-1)[0] == 0
    assert small[0, 1, 0, 0] == 1  # the element keeps its place in memory
    assert small.resize_((2, 3, 4, 5)).stride() == LAST
    assert small.resize_(2, 3, 4, 5, memory_format=fd.contiguous_format).stride() == (60, 20, 5, 1)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d"):
        small.resize_(2, 3, memory_format=fd.channels_last_3d)
    with pytest.raises(RuntimeError, match=r"unsupported memory format Preserve: .* contiguous_fo"):
        small.resize_(2, 3, memory_format=fd.preserve_format)


def test_sizes_of_another_may_come_with_its_channels_last() -> None:
    last = x().to(memory_format=fd.channels_last)
    assert fd.empty(0).resize_as_(last).stride() == (60, 20, 5, 1)
    assert fd.empty(0).resize_as_(last, memory_format=fd.preserve_format).stride() == LAST
    assert fd.empty(0).resize_as_(x(), memory_format=fd.channels_last).stride() == LAST
    assert fd.empty(0).resize_as_(x(), memory_format=fd.preserve_format).stride()[1] == 20


def test_made_tensors_lie_as_asked() -> None:
    assert fd.empty(2, 3, 4, 5, memory_format=fd.channels_last).stride() == LAST
    made = fd.testing.make_tensor(2, 3, 4, 5, dtype=fd.float32, memory_format=fd.channels_last)
    assert made.stride() == LAST
    assert fd.equal(made, fd.testing.make_tensor(2, 3, 4, 5, dtype=fd.float32))
    with pytest.raises(RuntimeError, match="unsupported memory format Preserve"):
        fd.empty(2, 3, memory_format=fd.preserve_format)
    with pytest.raises(ValueError, match="mutually exclusive"):
        fd.testing.make_tensor(
            2, 3, dtype=fd.int64, noncontiguous=True, memory_format=fd.channels_last
        )


TAKING: dict[str, Callable[[Any, Any], Any]] = {
    "to": lambda x, given: x.to(memory_format=given),
    "double": lambda x, given: x.double(memory_format=given),
    "type": lambda x, given: x.type(fd.float64, memory_format=given),
    "cpu": lambda x, given: x.cpu(memory_format=given),
    "clone": lambda x, given: x.clone(memory_format=given),
    "rand_like": lambda x, given: fd.rand_like(x, memory_format=given),
    "empty": lambda x, given: fd.empty(2, 3, memory_format=given),
    "resize_": lambda x, given: x.clone().resize_(2, 2, memory_format=given),
    "Module.to": lambda x, given: fd.nn.Conv2d(3, 1, 1).to(memory_format=given)(x),
    "contiguous": lambda x, given: x.contiguous(memory_format=given),
    "is_contiguous": lambda x, given: x.is_contiguous(memory_format=given),
}
WITHOUT_NONE = ("contiguous", "is_contiguous")


@pytest.mark.parametrize("name", TAKING)
def test_what_is_no_format_is_refused_and_none_is_where_pytorch_refuses_it(name: str) -> None:
    x = fd.ones(2, 3, 4, 5)
    refused = [3, "channels_last", fd.strided, *([None] if name in WITHOUT_NONE else [])]
    for given in refused:
        with pytest.raises(TypeError, match=r"memory_format.*must be a memory format such as"):
            TAKING[name](x, given)
    if name not in WITHOUT_NONE:
        TAKING[name](x, None)


def test_other_ranks_are_refused() -> None:
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        fd.ones(2, 3).clone(memory_format=fd.channels_last)
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported by the contig"):
        fd.ones(2, 3).t().contiguous(memory_format=fd.preserve_format)
    one = fd.ones(2, 3)
    assert one.contiguous(memory_format=fd.preserve_format) is one
    assert one.is_contiguous(memory_format=fd.preserve_format)
    assert not one.t().is_contiguous(memory_format=fd.preserve_format)
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
