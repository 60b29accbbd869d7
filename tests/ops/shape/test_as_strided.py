"""`as_strided` when it reads elements outside of its base view, or memory with gaps.

The expected gradients are results of PyTorch 2.13 for the same code.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fastdist as fd

CHANGES: dict[str, tuple[Callable[[fd.Tensor], object], list[float]]] = {
    "written by its kernel": (lambda y: y.mul_(2), [2, 2, 2, 1, 1, 1]),
    "copied over": (lambda y: y.div_(2), [0.5, 0.5, 0.5, 1, 1, 1]),
    "scanned": (lambda y: y.cumsum_(0), [3, 2, 1, 1, 1, 1]),
    "twice": (lambda y: y.div_(2).clamp_(max=9), [0.5, 0.5, 0.5, 1, 1, 1]),
    "a view of it": (lambda y: y[1:].div_(2), [1, 0.5, 0.5, 1, 1, 1]),
    "its base, then it": (lambda y: (y._base.mul_(2), y.div_(4)), [0.5, 0.5, 0.5, 2, 2, 2]),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_change_of_places_between_those_of_the_view_it_is_taken_of_passes_gradients(
    name: str,
) -> None:
    change, gradient = CHANGES[name]
    leaf = fd.arange(6.0, requires_grad=True)
    x = leaf.clone()
    change(x[::2].as_strided((3,), (1,)))
    assert fd.autograd.grad(x, leaf, fd.ones(6))[0].tolist() == gradient


def test_change_through_a_real_part_of_imaginary_ones_passes_gradients() -> None:
    leaf = fd.tensor([[1 + 2j, 3 + 4j]], dtype=fd.complex128, requires_grad=True)
    x = leaf.clone()
    x.real.as_strided((2,), (1,)).div_(2)
    assert fd.autograd.grad((x.real**2 + x.imag**2).sum(), leaf)[0].tolist() == [[0.5 + 1j, 6 + 8j]]


def with_gaps() -> fd.Tensor:
    return fd.zeros(4, 4).t()[1:, ::2].detach()


def columns_first() -> fd.Tensor:
    return fd.zeros(2, 3).t().detach()


@pytest.mark.parametrize(
    ("make", "strides", "gradient"),
    [
        (with_gaps, (1, 8), [[2.0, 3.0], [5.0, 7.0], [1.0, 1.0]]),
        (columns_first, (1, 3), [[2.0, 3.0], [5.0, 7.0], [1.0, 1.0]]),
        (columns_first, (3, 1), [[2.0, 5.0], [3.0, 7.0], [1.0, 1.0]]),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_change_of_a_base_that_lies_otherwise_passes_gradients_to_the_places_it_changed(
    make: Callable[[], fd.Tensor],
    strides: tuple[int, int],
    gradient: list[list[float]],
    create_graph: bool,
) -> None:
    leaf = fd.ones(3, 2, requires_grad=True)
    x = make().copy_(leaf)
    x.as_strided((2, 2), strides).mul_(fd.tensor([[2.0, 3.0], [5.0, 7.0]]))
    found = fd.autograd.grad(x, leaf, fd.ones(3, 2), create_graph=create_graph)
    assert found[0].tolist() == gradient


def test_what_is_taken_of_an_expanded_tensor_may_be_written_where_no_place_repeats() -> None:
    x = fd.arange(3.0).expand(2, 3)
    x.as_strided((2,), (1,), 1).mul_(2)
    assert x.tolist() == [[0.0, 2.0, 4.0]] * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.as_strided((2, 2), (0, 1)).mul_(2)


def test_forward_mode_refuses_places_for_which_a_tangent_has_no_number() -> None:
    forward, x = fd.autograd.forward_ad, fd.arange(6.0)
    with forward.dual_level():
        dense = forward.make_dual(x, fd.arange(6.0) * 10)[::2].as_strided((3,), (1,))
        assert forward.unpack_dual(dense).tangent.tolist() == [0.0, 10.0, 20.0]
        with pytest.raises(RuntimeError, match="no number for each place in between"):
            forward.make_dual(x[::2], fd.ones(3)).as_strided((2,), (1,))
        with pytest.raises(RuntimeError, match="no number for each place in between"):
            forward.make_dual(x[:3], fd.ones(3)).as_strided((4,), (1,))


REPEATED: dict[str, Callable[[fd.Tensor], fd.Tensor]] = {
    "rows": lambda x: x.as_strided((2, 3), (0, 1)),
    "columns": lambda x: x.as_strided((2, 3), (1, 0)),
    "expanded": lambda x: x[:3].expand(2, 3),
    "expanded over gaps": lambda x: x.reshape(3, 4)[:2, 1:2].expand(2, 3),
}
REFUSED: dict[str, Callable[[fd.Tensor], object]] = {
    "mul_": lambda v: v.mul_(2),
    "exp_": lambda v: v.exp_(),
    "copy_": lambda v: v.copy_(fd.ones(2, 3)),
    "an assignment": lambda v: v.__setitem__(..., fd.ones(2, 3)),
    "fill_ with a tensor": lambda v: v.fill_(fd.tensor(2.0)),
    "uniform_": lambda v: v.uniform_(),
    "normal_": lambda v: v.normal_(),
    "random_": lambda v: v.random_(3),
    "bernoulli_": lambda v: v.bernoulli_(),
    "leaky_relu": lambda v: fd.nn.functional.leaky_relu(v, inplace=True),
    "hardtanh": lambda v: fd.nn.functional.hardtanh(v, inplace=True),
    "out=": lambda v: fd.add(fd.ones(2, 3), 1, out=v),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("place", list(REPEATED))
@pytest.mark.parametrize("name", list(REFUSED))
def test_change_of_elements_that_are_one_place_in_memory_is_refused(name: str, place: str) -> None:
    x = fd.arange(12.0)
    for _ in range(2):
        REFUSED[name](fd.ones(2, 3))
        with pytest.raises(RuntimeError, match="refers to a single memory location"):
            REFUSED[name](REPEATED[place](x))
    assert x.tolist() == list(range(12))


@pytest.mark.parametrize("place", list(REPEATED))
def test_one_number_for_all_elements_may_be_written_to_repeated_places(place: str) -> None:
    x = fd.arange(12.0)
    seen = REPEATED[place](x)
    assert seen.fill_(7).tolist() == [[7.0] * 3] * 2
    assert seen.zero_().tolist() == [[0.0] * 3] * 2
    assert x.sum().item() == 66 - {"rows": 3, "columns": 1, "expanded": 3}.get(place, 6)


def test_a_part_of_repeated_places_in_which_none_repeats_may_be_changed() -> None:
    x = fd.arange(6.0)
    x.as_strided((2, 3), (0, 1))[1].mul_(2)
    x.as_strided((2, 3), (1, 0))[:, 0].add_(1)
    assert x.tolist() == [1, 3, 4, 3, 4, 5]


@pytest.mark.parametrize("step", [2**40, 2**62, 2**63 - 1])
def test_strides_of_axes_that_nobody_walks_may_be_any_number(step: int) -> None:
    x = fd.arange(4.0)
    assert x.as_strided((1,), (step,)).tolist() == [0.0]
    assert x.as_strided((0, 2), (step, 1)).tolist() == []
    assert fd.empty_strided((1, 2), (step, 1)).shape == (1, 2)


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        *[((2,), (2**63 - 1,), 0), ((3,), (2**62,), 2**62), ((2, 2), (2**62, 2**62), 0)],
        *[((1,), (2**63,), 0), ((1,), (1,), 2**63), ((1,), (1,), -(2**63)), ((2,), (-(2**63),), 0)],
        *[((2**63 - 1,), (1,), 0), ((1,), (10**30,), 0)],
    ],
)
def test_strides_and_offsets_near_the_ends_of_int64_are_refused(
    size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    with pytest.raises(RuntimeError, match=r"as_strided|out of (bounds|range)"):
        fd.arange(4.0).as_strided(size, stride, offset)
