"""`x[...]` and `x[...] = y` under vmap give the results of a loop over the batch."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.func import grad, vmap

X = fd.arange(120.0).reshape(2, 4, 5, 3)
PLACES, J = fd.tensor([[0, 3, 1], [2, 2, 0]]), fd.tensor([[1, 4, 0], [3, 3, 2]])
U, K = fd.tensor([0, 2, 1]), fd.tensor([1, 3])

READS: dict[str, Any] = {
    "places": lambda x, i, j, k: x[i],
    "two axes": lambda x, i, j, k: x[i, j],
    "one of the calls' and one of all": lambda x, i, j, k: x[i, U],
    "behind a slice": lambda x, i, j, k: x[:, j],
    "behind two": lambda x, i, j, k: x[..., j % 3],
    "apart": lambda x, i, j, k: x[i, :, U],
    "together behind a slice": lambda x, i, j, k: x[:, j, U],
    "all three": lambda x, i, j, k: x[i, j, U],
    "a number": lambda x, i, j, k: x[k],
    "a number behind a slice": lambda x, i, j, k: x[:, k, 1:],
    "after a basic number": lambda x, i, j, k: x[0, :, j % 3],
    "before a basic number": lambda x, i, j, k: x[i, 0],
    "with a new axis": lambda x, i, j, k: x[None, :, j],
    "with steps": lambda x, i, j, k: x[::2, j, 1:],
    "a grid": lambda x, i, j, k: x[i[:, None], j],
    "from the end": lambda x, i, j, k: x[:, -1 - j.int()],
    "beside a list": lambda x, i, j, k: x[i, [0, 2, 1]],
    "beside a mask": lambda x, i, j, k: x[i[:, None], fd.tensor([True, False, False, True, True])],
    "of all alone": lambda x, i, j, k: x[U, :, U],
}
DIMS = [(0, 0, 0, 0), (None, 0, 0, 0), (0, None, 0, None), (0, None, None, 0)]


def given(dims: tuple[int | None, ...]) -> list[Any]:
    return [a if d is not None else a[0] for a, d in zip((X, PLACES, J, K), dims, strict=True)]


def each(call: Any, args: list[Any], dims: tuple[int | None, ...]) -> Any:
    rows = [[a if d is None else a[n] for a, d in zip(args, dims, strict=True)] for n in (0, 1)]
    return fd.stack([call(*row) for row in rows])


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_places_of_a_batch_are_read_in_one_call(read: Any, dims: Any) -> None:
    def slope(x: Any, i: Any, j: Any, k: Any) -> Any:
        return grad(lambda x: (read(x, i, j, k) ** 2).sum())(x)

    args = given(dims)
    expected = each(read, args, dims)
    assert fd.equal(vmap(read, in_dims=dims)(*args), expected)
    assert fd.equal(vmap(slope, in_dims=dims)(*args), each(slope, args, dims))
    twice = vmap(vmap(read, in_dims=dims), in_dims=(0, 0, 0, 0))(*[fd.stack([a, a]) for a in args])
    assert fd.equal(twice, fd.stack([expected, expected]))


class _Index:
    """Returns the index in its brackets."""

    def __getitem__(self, index: Any) -> Any:
        return index


VALUES: dict[str, Any] = {
    "as large": lambda shape: fd.randn(2, *shape),
    "a number each": lambda shape: fd.randn(2),
    "a whole number each": lambda shape: fd.tensor([3, 4]),
    "a row": lambda shape: fd.randn(2, *shape[-1:]),
    "with more axes of one": lambda shape: fd.randn(2, 1, 1, *shape),
}


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_places_of_a_batch_are_written_in_one_call(read: Any, value: Any) -> None:
    def written(x: Any, i: Any, j: Any, k: Any, v: Any) -> Any:
        x = x * 1
        x[read(_Index(), i, j, k)] = v
        return x

    values = value(read(X[0], PLACES[0], J[0], K[0]).shape)
    for dims in ((0, 0, 0, 0, 0), (0, 0, 0, 0, None), (0, None, None, None, 0)):
        args = [*given(dims[:4]), values if dims[4] == 0 else values[0]]
        assert fd.equal(vmap(written, in_dims=dims)(*args), each(written, args, dims))

    def slope(x: Any, i: Any, j: Any, v: Any) -> Any:
        return grad(lambda v: (written(x, i, j, K[0], v) ** 2).sum())(v)

    if values.dtype.is_floating_point:
        found = vmap(slope)(X, PLACES, J, values)
        fd.testing.assert_close(
            found, fd.stack([slope(X[n], PLACES[n], J[n], values[n]) for n in (0, 1)])
        )


@pytest.mark.filterwarnings("error:There is a performance drop")
def test_values_are_added_at_places_of_a_batch_in_one_call() -> None:
    def added(x: Any, i: Any, v: Any) -> Any:
        return x.index_put((i, U), v, accumulate=True)

    values = fd.randn(2, 3, 3)
    for dims in ((0, 0, 0), (None, 0, 0), (0, None, 0), (None, 0, None), (None, None, 0)):
        args = [a if d == 0 else a[0] for a, d in zip((X, PLACES, values), dims, strict=True)]
        fd.testing.assert_close(vmap(added, in_dims=dims)(*args), each(added, args, dims))
    with pytest.raises(RuntimeError, match=r"vmap: index_put_\(self.* is not possible"):
        vmap(lambda i: X[0].index_put_((i,), fd.tensor(1.0)))(PLACES)


@pytest.mark.filterwarnings("error:There is a performance drop")
def test_a_number_is_written_where_masks_of_a_batch_hold() -> None:
    def written(x: Any, mask: Any, v: Any) -> Any:
        x = x * 1
        x[mask] = v
        return x

    for mask in (X % 3 == 0, X[..., 0] % 2 == 0):
        for v in (fd.tensor([7.0, 8.0]), fd.tensor([7, 8])):
            found = vmap(written)(X, mask, v)
            assert fd.equal(found, fd.stack([written(X[n], mask[n], v[n]) for n in (0, 1)]))
    with pytest.raises(IndexError, match="The shape of the mask"):
        vmap(lambda x, mask: written(x, mask, 1.0))(X, X[:, :3, 0, 0] > 0)


def test_places_outside_of_an_axis_are_told() -> None:
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension"):
        vmap(lambda x, i: x[i])(X, PLACES + 1)
