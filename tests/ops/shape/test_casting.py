"""Functions of whole tensors: equality, dtypes, indexing errors, casts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.properties import in_one_test

F = fd.nn.functional


def test_equal_compares_shape_and_elements() -> None:
    a = fd.tensor([1.0, 2.0])
    assert fd.equal(a, a.clone()) and not fd.equal(a, fd.tensor([1.0, 3.0]))
    assert not a.equal(fd.tensor([[1.0, 2.0]]))
    assert not fd.equal(fd.tensor(float("nan")), fd.tensor(float("nan")))
    assert fd.equal(a, a.double()) and fd.equal(fd.zeros(0, 2), fd.zeros(0, 2))


@in_one_test("dtype", [fd.float32, fd.bfloat16, fd.float8_e4m3fn, fd.complex64, fd.int16, fd.bool])
def test_equal_finds_one_element_that_differs_and_nan(dtype: Any) -> None:
    numbers = fd.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    one, turned = numbers.to(dtype), numbers.t().contiguous().to(dtype).t()
    assert fd.equal(one, one) and fd.equal(one, turned) and fd.equal(one, one.clone())
    for i in range(6):
        changed = numbers.clone()
        changed.view(-1)[i] = 1.0 - changed.view(-1)[i]
        assert not fd.equal(one, changed.to(dtype)) and not fd.equal(changed.to(dtype), turned)
    if dtype.is_floating_point:
        numbers[1, 2] = float("nan")
        assert not fd.equal(numbers.to(dtype), numbers.to(dtype))


def test_allclose_allows_rounding() -> None:
    a = fd.tensor([1.0, float("nan")])
    assert fd.allclose(a, a + 1e-7, equal_nan=True) and not a.allclose(a)
    assert fd.allclose(fd.tensor([1, 2]), fd.tensor([1, 2]))


def test_dtypes_of_pairs() -> None:
    assert fd.promote_types(fd.uint8, fd.int8) is fd.int16
    assert fd.result_type(fd.ones(2, dtype=fd.int32), 1.5) is fd.float32
    assert fd.can_cast(fd.int64, fd.float32) and not fd.can_cast(fd.float32, fd.int64)


def test_questions_about_a_tensor() -> None:
    x = fd.ones(2, 3)
    assert fd.is_tensor(x) and not fd.is_tensor([1])
    assert fd.is_floating_point(x) and fd.numel(x) == 6
    assert fd.is_signed(x) and not fd.is_complex(x) and fd.is_same_size(x, x + 1)
    assert fd.is_nonzero(x[0, 0]) and not fd.tensor([0]).is_nonzero()
    assert x.T.shape == (3, 2) and x.mT.shape == (3, 2)
    assert x.cpu() is x


def test_new_tensors_take_after_an_old_one() -> None:
    x = fd.ones(2, dtype=fd.float64)
    assert x.new_zeros(3).dtype is fd.float64 and x.new_ones((2, 2)).shape == (2, 2)
    assert x.new_full((2,), 7).tolist() == [7.0, 7.0] and x.new_empty(1).dtype is fd.float64
    assert x.new_tensor([1, 2]).dtype is fd.float64
    assert x.new_zeros(1, dtype=fd.int32).dtype is fd.int32


def test_iteration_and_unpacking_give_rows() -> None:
    a, b = fd.tensor([[1, 2], [3, 4]])
    assert a.tolist() == [1, 2] and b.tolist() == [3, 4]
    assert [int(i) for i in fd.arange(3)] == [0, 1, 2]


def test_an_integer_tensor_without_axes_indexes_as_a_number() -> None:
    x = fd.arange(6).view(2, 3)
    assert x[fd.tensor(1)].tolist() == [3, 4, 5] and x[fd.tensor(1), 2].item() == 5
    assert [10, 20][fd.tensor(1)] == 20


def test_bools_index_as_masks_without_axes() -> None:
    x = fd.arange(2)
    assert x[True].shape == (1, 2) and x[False].shape == (0, 2)


WRONG: list[tuple[Callable[[fd.Tensor], Any], type[Exception], str]] = [
    (lambda x: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
    (lambda x: x[:, -4], IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    (lambda x: x[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
    (lambda x: x[0, 0][0], IndexError, "invalid index of a 0-dim tensor."),
    (lambda x: x[::-1], ValueError, "step must be greater than zero"),
    (lambda x: x[1.5], IndexError, "only integers, slices (`:`), ellipsis (`...`), None"),
    (lambda x: x[fd.ones(2)], IndexError, "tensors used as indices must be long, int, byte"),
    (lambda x: x[fd.tensor([3])], IndexError, "index 3 is out of bounds for dimension 0 with"),
    (lambda x: x.gather(1, fd.tensor([[9]])), IndexError, "index 9 is out of bounds for dimension"),
    (lambda x: x.sum(2), IndexError, "Dimension out of range (expected to be in range of [-2, 1]"),
    (lambda x: x.sum((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: x.to(fd.int64).mean(), RuntimeError, "mean(): could not infer output dtype."),
    (lambda x: x[:0].max(), RuntimeError, "max(): Expected reduction dim to be specified for"),
    (lambda x: x[:0].amax(0), IndexError, "amax(): Expected reduction dim 0 to have non-zero"),
    (lambda x: x @ x, RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    (lambda x: fd.cat([x, fd.ones(2)]), RuntimeError, "Tensors must have same number of"),
    (lambda x: fd.cat([x, fd.ones(2, 2)]), RuntimeError, "Sizes of tensors must match except in"),
    (lambda x: x.view(4), RuntimeError, "shape '[4]' is invalid for input of size 6"),
    (lambda x: x.clamp(), RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be"),
    (lambda x: fd.div(x, 0, rounding_mode="up"), RuntimeError, "div expected rounding_mode to be"),
    (lambda x: fd.tensor([1]) // 0, RuntimeError, "ZeroDivisionError"),
    (lambda x: fd.tensor([2]) ** -1, RuntimeError, "Integers to negative integer powers are not"),
    (lambda x: x.topk(9), IndexError, "selected index k out of range"),
    (lambda x: x + fd.ones(4), RuntimeError, "The size of tensor a (3) must match the size of"),
    (
        lambda x: x.scatter_add(1, fd.tensor([[0, 1, 2]]), fd.ones(1, 1)),
        RuntimeError,
        "Expected index [1, 3] to be no larger than self [2, 3] apart from dimension 1 and to be",
    ),
    (
        lambda x: x.scatter(1, fd.tensor([[0, 1]]), fd.ones(3)),
        RuntimeError,
        "Index tensor must have the same number of dimensions as src tensor",
    ),
    (
        lambda x: x[0].scatter_add(0, fd.tensor([0]), fd.ones(1, 1)),
        RuntimeError,
        "Index tensor must have the same number of dimensions as src tensor",
    ),
    (
        lambda x: x[:0].norm(-math.inf, 0),
        RuntimeError,
        "linalg.vector_norm cannot compute the -inf norm on the dimension 0",
    ),
    (
        lambda x: x[:0].norm(math.inf),
        RuntimeError,
        "linalg.vector_norm cannot compute the inf norm on an empty tensor",
    ),
    (lambda x: fd.tensordot(x[0], x, 2), RuntimeError, "tensordot expects dims < ndim_a or ndim_b"),
    (
        lambda x: fd.tensordot(x, x, -1),
        RuntimeError,
        "tensordot expects dims >= 0, but got dims=-1",
    ),
    (lambda x: fd.tensordot(x, x, ([0, 1], [0])), RuntimeError, "both dimension lists should have"),
    (lambda x: fd.einsum("...i->...", x[0, 0]), RuntimeError, "einsum(): the subscript '...i' has"),
    (lambda x: x[0, 0].unflatten(0, (1, 1)), RuntimeError, "unflatten: the tensor has no axis"),
    (
        lambda x: x.add(fd.ones(3, 2)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
    ),
    (
        lambda x: x[:, None].add(fd.ones(5, 1, 3)),
        RuntimeError,
        "The size of tensor a (2) must match the size of tensor b (5) at non-singleton dimension 0",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG, ids=[row[2][:30] for row in WRONG])
def test_errors_begin_as_pytorch_s(
    call: Callable[[fd.Tensor], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call(fd.arange(6, dtype=fd.float32).view(2, 3))
    assert str(caught.value).startswith(text)


def test_nan_differs_from_nan_in_unique() -> None:
    values, counts = fd.tensor([float("nan"), 1.0, float("nan")]).unique(return_counts=True)
    assert str(values.tolist()) == "[1.0, nan, nan]" and counts.tolist() == [1, 1, 1]


def test_index_fill_keeps_the_dtype() -> None:
    found = fd.arange(4).index_fill(0, fd.tensor([1]), 2.5)
    assert found.dtype is fd.int64 and found.tolist() == [0, 2, 2, 3]


def test_take_along_dim_broadcasts_all_other_axes() -> None:
    x = fd.arange(6.0).reshape(2, 3)
    assert x.take_along_dim(fd.tensor([[2]]), 1).tolist() == [[2.0], [5.0]]
    assert x[:1].take_along_dim(fd.tensor([[0], [1]]), 1).tolist() == [[0.0], [1.0]]
    with pytest.raises(RuntimeError, match="should have the same number of dimensions"):
        x.take_along_dim(fd.tensor([0]), 1)


def test_std_mean_takes_what_std_takes() -> None:
    x = fd.arange(4.0).reshape(2, 2)
    for both, one in ((fd.std_mean, fd.std), (fd.var_mean, fd.var)):
        assert [part.tolist() for part in both(x, 0, False)] == [
            one(x, 0, False).tolist(),
            [1.0, 2.0],
        ]
        assert both(x, False)[0].item() == one(x, False).item()
        assert both(x, axis=1, keepdim=True)[1].tolist() == [[0.5], [2.5]]
        assert both(x, 0, correction=0)[0].tolist() == one(x, 0, correction=0).tolist()


def test_split_takes_the_words_of_the_method_and_of_the_function() -> None:
    x = fd.arange(3)
    for parts in (x.split(split_size=2), fd.split(tensor=x, split_size_or_sections=[2, 1])):
        assert [part.tolist() for part in parts] == [[0, 1], [2]]
    with pytest.raises(TypeError, match=r"split\(\) takes a size or a list of sizes, once: got"):
        x.split()


def test_a_tensor_is_cast_to_the_dtype_of_an_old_constructor() -> None:
    assert fd.tensor([1.5]).type(fd.LongTensor).tolist() == [1]
    with pytest.raises(TypeError, match="expected a dtype such as"):
        fd.tensor([1.5]).type(list)


def test_a_function_of_numbers_alone_asks_for_a_tensor() -> None:
    with pytest.raises(TypeError, match=r"expected one Tensor at least; make one with tensor\(\)"):
        fd.exp(2.0)  # type: ignore[arg-type]


def test_split_takes_sizes_that_stand_for_integers() -> None:
    x = fd.arange(6).reshape(3, 2)
    expected = [part.tolist() for part in x.split([1, 2])]
    for sizes in ([fd.tensor(1), 2], [np.int64(1), fd.tensor(2)]):
        assert [part.tolist() for part in x.split(sizes)] == expected


@pytest.mark.parametrize("split", [fd.split, fd.unsafe_split])
def test_split_takes_a_length_of_0_for_an_empty_axis_alone(split: Callable[..., Any]) -> None:
    assert [part.shape for part in split(fd.ones(3, 0), 0, 1)] == [(3, 0)]
    with pytest.raises(RuntimeError, match=r"can only be 0 if dimension size is 0, but .* of 5"):
        split(fd.ones(5), 0)


def test_split_refuses_negative_sizes() -> None:
    with pytest.raises(RuntimeError, match="only non-negative entries"):
        fd.arange(4.0).split([-1, 5])


@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits, F.kl_div,
    ],
)  # fmt: skip
def test_old_words_for_reductions_are_understood(loss: Callable[..., Any]) -> None:
    x, y = fd.tensor([0.25, 0.5]), fd.tensor([1.0, 0.0])
    for old, new in (
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"reduce": True, "size_average": True}, "mean"),
    ):
        with pytest.warns(UserWarning, match=f"please use reduction='{new}' instead"):
            found = loss(x, y, **old)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "reduction: 'mean' divides")  # kl_div's own warning
            expected = loss(x, y, reduction=new)
        assert found.tolist() == expected.tolist()


def test_old_words_for_reductions_of_classes() -> None:
    logits, classes = fd.eye(2), fd.tensor([0, 0])
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
            found = loss(logits, classes, size_average=False)
        assert found.item() == loss(logits, classes, reduction="sum").item()


def _scalar_cases() -> dict[str, tuple[Callable[[Any], Any], Any, Any, Any]]:
    two, at = fd.tensor([0, 0]), fd.tensor(2)
    return {
        "gather of a scalar": (lambda x: x.gather(0, two), 3.0, [3, 3], 3),
        "gather of nothing": (lambda x: x.gather(0, two[:0]), 3.0, [], 0),
        "gather at a scalar": (lambda x: x.gather(0, at), [3.0, 4.0, 5.0], 5, [0, 0, 1]),
        "scatter_add to a scalar": (
            lambda x: x.scatter_add(0, two, fd.ones(3)), 3.0, 5, 1,
        ),
        "scatter_add of a scalar": (
            lambda x: fd.zeros(3).scatter_add(0, at, x), 3.0, [0, 0, 3], 3,
        ),
        "scatter_add at a scalar": (
            lambda x: fd.zeros(3).scatter_add(0, at, x), [3.0, 4.0], [0, 0, 3], [3, 0],
        ),
        "scatter to a scalar": (lambda x: fd.zeros(()).scatter(0, two, x), [3.0, 4.0], 4, [1, 1]),
        "scatter of a scalar": (lambda x: fd.zeros(3).scatter(0, at, x), 3.0, [0, 0, 3], 3),
    }  # fmt: skip


@pytest.mark.parametrize("name", _scalar_cases())
def test_places_see_what_has_no_axes_as_a_vector_of_one(name: str) -> None:
    call, given, value, gradient = _scalar_cases()[name]
    x = fd.tensor(given, requires_grad=True)
    found = call(x)
    assert found.tolist() == value
    (found * (fd.arange(found.numel()).view(found.shape) + 1)).sum().backward()
    assert x.grad.tolist() == gradient


@pytest.mark.parametrize("call", [fd.gather, lambda x, dim, i: x.scatter(dim, i, 1.0)])
def test_a_scalar_has_no_second_place(call: Callable[..., Any]) -> None:
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 1"):
        call(fd.tensor(1.0), 0, fd.tensor(3))


@pytest.mark.parametrize("places", [[0, 0], []])
def test_index_select_of_a_scalar_takes_one_place(places: list[int]) -> None:
    with pytest.raises(RuntimeError, match="Index to scalar can have only 1 value"):
        fd.tensor(1.0).index_select(0, fd.tensor(places, dtype=fd.int64))


def test_modes_see_casts_to_the_dtype_that_a_tensor_has() -> None:
    seen = []

    class Noting(fd.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = fd.ones(2)
    with Noting():
        assert x.float() is x and x.cpu() is x
    assert seen == [fd.Tensor.float, fd.Tensor.cpu]
    assert x.float(memory_format=fd.preserve_format) is x and x.double().dtype is fd.float64
    with pytest.raises(TypeError):
        x.float(1, 2)
