"""vmap over every op and composite of the tables gives the results of a loop."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastdist as fd
from fastdist.func import vmap
from tests.ops.cases import Case, as_tensors
from tests.ops.pointwise.pointwise_rows import ROWS, Row
from tests.ops.pointwise.test_pointwise import function_of, sample, shapes_for, tensors_of
from tests.ops.test_table import ALL, CASES, every_case
from tests.properties import Properties

pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using a target size:UserWarning"),
]


REFUSED = {"as_strided_scatter", "argwhere", "masked_select", "nonzero"} | {
    *("unique", "unique_consecutive")
}


def is_refused(name: str, one: Case) -> bool:
    """Return whether vmap must reject a call whose result depends on values or on strides."""
    return name in REFUSED or one is CASES["where"][0]


def batches(name: str, one: Case) -> list[list[fd.Tensor]]:
    """Return the inputs of two calls with different random numbers."""
    return [as_tensors(one.arrays(f"{name} {seed}"), fd.float64) for seed in ("first", "second")]


# Ops without a batching rule; docs/pytorch.md names them.
LOOPS = {"histogramdd", "take_places"}
# Ops whose results have a number of elements that depends on the values of the inputs.
LENGTHS = {"bincount", "repeat_interleave", "take_places"}


@pytest.mark.one_in(5)
@every_case
def test_a_batch_of_calls_gives_what_each_call_gives(
    name: str, one: Case, properties: Properties
) -> None:
    first, second = batches(name, one)
    if is_refused(name, one):
        with pytest.raises(RuntimeError, match="vmap: "):
            vmap(one.ours)(*[fd.stack([a, a]) for a in first])
        return
    with properties("a batch of two"):
        stacked = [fd.stack([a, b]) for a, b in zip(first, second, strict=True)]
        fd.manual_seed(3)
        expected = fd.stack([one.ours(*first), one.ours(*second)])
        fd.manual_seed(3)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = vmap(one.ours, randomness="different")(*stacked)
        drops = [each for each in warned if "performance drop" in str(each.message)]
        assert not drops or name in LOOPS
        assert found.shape == expected.shape and found.dtype is expected.dtype
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
    if one is CASES["one_hot"][0]:
        return  # the largest value sets the length; an empty batch has none
    with properties("a batch of none"):
        none = [x.new_zeros((0, *x.shape)) for x in first]
        found = vmap(one.ours, randomness="different")(*none)
        expected = one.ours(*first)
        assert found.dtype is expected.dtype and found.shape[0] == 0
        assert found.shape[1:] == expected.shape or name in LENGTHS


@pytest.mark.one_in(5)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_batch_of_a_pointwise_op_is_one_call(row: Row) -> None:
    function = function_of(row)
    for shapes in shapes_for(row):
        first, second = [
            tensors_of(sample(row, shapes, seed), fd.float64) for seed in ("first", "second")
        ]
        for which in range(len(first)):
            given = [
                fd.stack([a, b]) if i >= which else a
                for i, (a, b) in enumerate(zip(first, second, strict=True))
            ]
            dims = tuple(0 if i >= which else None for i in range(len(first)))
            other = [*first[:which], *second[which:]]
            expected = fd.stack([function(*first), function(*other)])
            with warnings.catch_warnings():
                if not row.public.startswith("binary"):  # these ops require probabilities
                    warnings.filterwarnings("error", message="There is a performance drop")
                found = vmap(function, in_dims=dims)(*given)
            fd.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_a_condition_and_a_number_in_a_tensor_may_be_batches() -> None:
    x, mask = fd.randn(2, 3), fd.randn(2, 3) > 0
    found = vmap(lambda a, m: fd.where(m, a, -1.0) + a.masked_fill(m, 2.0))(x, mask)
    assert fd.equal(found, fd.where(mask, x, -1.0) + x.masked_fill(mask, 2.0))


ONE_BY_ONE = [
    *("avg_pool2d", "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d", "embedding", "group_norm", "index_select", "layer_norm", "linalg.lstsq"),
    *("linalg.pinv", "linalg.solve", "masked_fill", "max_pool2d", "pad", "roll", "scatter"),
    *("scatter_reduce", "take_along_dim", "unfold", "diagonal_scatter", "embedding_bag", "frexp"),
    *("gather_add", "gru", "gru_cell", "index_copy", "lstm", "lstm_cell", "masked_scatter"),
    *("nonzero_static", "put", "rnn_relu", "rnn_tanh_cell", "select_scatter", "slice_scatter"),
    *("fft.fft", "istft"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_any_one_of_the_tensors_may_be_a_batch_alone(name: str) -> None:
    for one in CASES[name]:
        first, second = batches(name, one)
        for which in range(len(first)):
            given = [*first[:which], fd.stack([first[which], second[which]]), *first[which + 1 :]]
            dims = tuple(0 if i == which else None for i in range(len(first)))
            other = [*first[:which], second[which], *first[which + 1 :]]
            expected = fd.stack([one.ours(*first), one.ours(*other)])
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="There is a performance drop")
                found = vmap(one.ours, in_dims=dims)(*given)
            fd.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


NESTED = [
    *(
        "attention_in_blocks",
        "bincount",
        "embedding_bag",
        "frexp",
        "gather_add",
        "gru",
        "histogramdd",
        "index_copy",
    ),
    *("lstm", "masked_scatter", "nonzero_static", "put", "repeat_interleave", "rnn_relu_cell"),
    *("slice_scatter", "take_places"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NESTED)
def test_a_batch_of_batches_gives_what_each_call_gives(name: str) -> None:
    for one in CASES[name]:
        first, second = batches(name, one)
        stacked = [fd.stack([a, b, a, b, b, a]) for a, b in zip(first, second, strict=True)]
        nested = [x.reshape(2, 3, *x.shape[1:]).movedim(1, -1) for x in stacked]
        found = vmap(vmap(one.ours, -1, -1))(*nested)
        each = fd.stack([one.ours(*first), one.ours(*second)])
        expected = each[[0, 1, 0, 1, 1, 0]].reshape(2, 3, *each.shape[1:]).movedim(1, -1)
        fd.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_calls_whose_results_are_of_several_lengths_are_told() -> None:
    x = fd.tensor([[0, 1], [3, 1]])
    assert vmap(lambda x: fd.bincount(x, minlength=4))(x).tolist() == [[1, 1, 0, 0], [0, 1, 0, 1]]
    for f in (fd.bincount, lambda x: fd.arange(2).repeat_interleave(x)):
        with pytest.raises(RuntimeError, match=r"vmap: the results of .* have different lengths"):
            vmap(f)(x)


def test_negative_repeats_of_one_call_are_told() -> None:
    with pytest.raises(RuntimeError, match="Repeats must be non-negative, got -1"):
        vmap(lambda n: fd.arange(2).repeat_interleave(n))(fd.tensor([[1, 1], [3, -1]]))


def test_gradients_of_each_sample_go_through_convolutions() -> None:
    x, weight = fd.randn(3, 2, 4, 9), fd.randn(6, 2, 3)

    def loss(weight: fd.Tensor, x: fd.Tensor) -> fd.Tensor:
        return fd.nn.functional.conv1d(x, weight, groups=2, padding=1).square().sum()

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="There is a performance drop")
        found = vmap(fd.func.grad(loss), in_dims=(None, 0))(weight, x)
        both = vmap(fd.func.grad(loss))(fd.stack([weight, 2 * weight, -weight]), x)
    each = [fd.func.grad(loss)(weight, one) for one in x]
    fd.testing.assert_close(found, fd.stack(each), rtol=1e-4, atol=1e-4)
    fd.testing.assert_close(both[2], -each[2], rtol=1e-4, atol=1e-4)


def test_a_batch_is_put_into_a_copy_for_each_call_but_not_into_one_tensor() -> None:
    x, values, places = fd.zeros(3), fd.randn(2, 2), fd.tensor([0, 2])
    found = vmap(lambda one: x.index_put((places,), one))(values)
    assert fd.equal(found, fd.stack([x.index_put((places,), one) for one in values]))
    with pytest.raises(RuntimeError, match=r"vmap: index_put_\(self.* is not possible"):
        vmap(lambda one: x.index_put_((places,), one))(values)
    assert not x.any()


def test_a_singular_matrix_among_the_calls_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): .* singular"):
        vmap(fd.linalg.inv)(fd.stack([fd.eye(2), fd.zeros(2, 2)]))


# Ops of the table that vmap runs once for each call: this list may only shrink.
LOOPED = frozenset({"histogramdd", "index"})


def test_only_these_functions_run_one_call_after_the_other() -> None:
    looped = set()
    for param in ALL:
        name, one = param.values
        if is_refused(name, one):
            continue
        first, second = batches(name, one)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            stacked = [fd.stack([a, b]) for a, b in zip(first, second, strict=True)]
            vmap(one.ours, randomness="different")(*stacked)
        texts = [str(one.message) for one in told]
        looped |= {t.partition("aten::")[2].partition(":")[0] for t in texts if "aten::" in t}
    assert looped == LOOPED, (
        "this list may only shrink: remove ops that have a rule now; give a new op batch= in its "
        "declaration, or a rule with @op.batches"
    )
