"""In-place ops on leaves, results and views: the gradients and errors that PyTorch gives.

The expected numbers were made with PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fastdist as fd

Program = Callable[[fd.Tensor], fd.Tensor]


def leaf(*values: float) -> fd.Tensor:
    return fd.tensor(list(values or (1.0, 2.0, 3.0, 4.0)), dtype=fd.float64, requires_grad=True)


def on_a_result(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    y.mul_(x)
    y.add_(1)
    return y


def on_a_view_of_a_result(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    y[1:3].mul_(x[0:2])
    return y * y


def on_a_base_whose_view_is_used(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    v = y[1:3]
    y.mul_(3)
    return v * v


def on_one_of_two_views_that_overlap(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    v, w = y[1:3], y[2:]
    v.mul_(5)
    return w * w + v.sum()


def on_a_view_of_a_view(x: fd.Tensor) -> fd.Tensor:
    y = (x * 2).view(2, 2)
    y.t()[0].sqrt_()
    return y * x.view(2, 2)


def twice_through_a_view_then_on_the_base(x: fd.Tensor) -> fd.Tensor:
    y = x * 1
    v = y[:2]
    v.mul_(2)
    v.mul_(3)
    return y.mul_(x)


def by_assignment(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    y[1] = x[0] * x[3]
    y[2:] = 7
    return y * y


def by_assignment_where_a_mask_holds(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    y[y > 4] = 0
    return y * x


def by_assignment_at_places(x: fd.Tensor) -> fd.Tensor:
    y = x * 2
    y[fd.tensor([0, 2])] = x[1:3] * 3
    return y * y


def into_memory_that_asked_for_no_gradient(x: fd.Tensor) -> fd.Tensor:
    b = fd.zeros(4, dtype=fd.float64)
    b[1:3] = x[:2] * 2
    b[0] = x[3]
    return b.mul_(x)


def into_a_view_of_such_memory(x: fd.Tensor) -> fd.Tensor:
    b = fd.zeros(4, dtype=fd.float64)
    b[:4].mul_(0).add_(x)
    return b * b


def into_a_tensor_joined_from_others(x: fd.Tensor) -> fd.Tensor:
    c = fd.cat([x, x * 2])
    c[0] = 5.0
    return c * c


GRADIENTS: dict[Program, list[float]] = {
    on_a_result: [4, 8, 12, 16],
    on_a_view_of_a_result: [40, 160, 96, 32],
    on_a_base_whose_view_is_used: [0, 144, 216, 0],
    on_one_of_two_views_that_overlap: [0, 20, 620, 32],
    on_a_view_of_a_view: [2.12132, 8, 3.674235, 16],
    twice_through_a_view_then_on_the_base: [12, 24, 6, 8],
    by_assignment: [40, 0, 0, 8],
    by_assignment_where_a_mask_holds: [4, 8, 0, 0],
    by_assignment_at_places: [0, 52, 54, 32],
    into_memory_that_asked_for_no_gradient: [8, 8, 4, 1],
    into_a_view_of_such_memory: [2, 4, 6, 8],
    into_a_tensor_joined_from_others: [8, 20, 30, 40],
}
OTHERS: dict[str, tuple[Program, list[float]]] = {
    "copy_": (lambda x: fd.ones(4, dtype=fd.float64).copy_(x * x).mul_(2), [4, 8, 12, 16]),
    "zero_": (lambda x: (x * 2).zero_(), [0, 0, 0, 0]),
    "fill_": (lambda x: (x * 2).fill_(x.sum()), [4, 4, 4, 4]),
    "clamp_": (lambda x: (x * 2).clamp_(3, 7).square_(), [0, 16, 24, 0]),
    "masked_fill_": (lambda x: (x * 2).masked_fill_(x > 2, 9.0).square_(), [8, 16, 0, 0]),
    "index_add_": (
        lambda x: (x * 2).index_add_(0, fd.tensor([0, 0, 1]), x[1:]).square_(),
        [28, 46, 38, 48],
    ),
    "scatter_": (
        lambda x: (x * 2).scatter_(0, fd.tensor([0, 3]), x[1:3]).square_(),
        [0, 20, 30, 0],
    ),
    "pow_": (lambda x: (x * 1).pow_(3), [3, 12, 27, 48]),
    "div_": (lambda x: (x * 1).div_(x * x), [-1, -0.25, -0.111111, -0.0625]),
}


@pytest.mark.parametrize("program", GRADIENTS, ids=lambda program: program.__name__)
def test_gradients_through_an_inplace_op(program: Program) -> None:
    x = leaf()
    program(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx(GRADIENTS[program], abs=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_gradients_through_each_kind_of_inplace_op(name: str) -> None:
    program, expected = OTHERS[name]
    x = leaf()
    program(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx(expected, abs=1e-5)


def test_views_see_what_is_written_into_their_base_and_back() -> None:
    base = fd.zeros(4)
    view, transposed = base[1:3], base.view(2, 2).t()
    view.add_(5)
    transposed[0].mul_(2)
    assert base.tolist() == [0, 5, 10, 0] and view.tolist() == [5, 10]
    assert base._version == view._version == transposed._version


def test_a_view_of_plain_memory_requires_grad_once_its_base_does() -> None:
    base = fd.zeros(4, dtype=fd.float64)
    view = base[:2]
    base.add_(leaf())
    assert view.requires_grad and view.grad_fn is not None


def test_no_grad_changes_a_leaf_and_its_views() -> None:
    x = leaf()
    with fd.no_grad():
        x.mul_(2)
        x[0] = 9
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [18, 8, 12, 16]


def test_a_retained_gradient_is_that_of_the_value_after_the_change() -> None:
    x = leaf()
    y = x * 2
    seen: list[list[float]] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3).sum().backward()
    assert seen == [[3, 3, 3, 3]]


def test_overlapping_memory_is_read_before_it_is_written() -> None:
    # These views have gaps. Overlapping memory without gaps is rejected, as in PyTorch.
    x = fd.arange(10, dtype=fd.float64).reshape(2, 5)
    x[:, 1:].copy_(x[:, :-1])
    assert x.tolist() == [[0, 0, 1, 2, 3], [5, 5, 6, 7, 8]]
    y = fd.arange(5, dtype=fd.float64).repeat(2, 1)
    y[:, 1:] += y[:, :-1]
    assert y.tolist() == [[0, 1, 3, 5, 7]] * 2


SAME_MEMORY: dict[str, tuple[Callable[..., fd.Tensor], Callable[..., fd.Tensor]]] = {
    "mul_": (lambda x, w: x.mul_(x.detach()), lambda x, w: x * x.detach()),
    "a view": (lambda x, w: x[::2].mul_(x.detach()[1::2]), lambda x, w: x[::2] * x.detach()[1::2]),
    "pow_": (lambda x, w: x.pow_(x.detach()), lambda x, w: x ** x.detach()),
    "itself": (lambda x, w: x.mul_(x), lambda x, w: x * x),
    "addcmul_": (lambda x, w: x.addcmul_(x, w), lambda x, w: x + x * w),
    "addcmul_ of a detached one": (
        lambda x, w: x.addcmul_(w, x.detach()),
        lambda x, w: x + w * x.detach(),
    ),
    "lerp_": (lambda x, w: x.lerp_(w, x.detach()), lambda x, w: x + x.detach() * (w - x)),
}


@pytest.mark.parametrize("name", SAME_MEMORY)
@pytest.mark.parametrize("requires_grad", [(True, True), (True, False), (False, True)])
def test_operands_in_the_memory_that_is_written_keep_their_old_value_for_gradients(
    name: str, requires_grad: tuple[bool, bool]
) -> None:
    found = []
    for call in SAME_MEMORY[name]:
        leaf = fd.arange(1.0, 7.0, requires_grad=requires_grad[0])
        w = fd.linspace(2.0, 3.0, 6).requires_grad_(requires_grad[1])
        changed = call(leaf.clone(), w)
        if changed.requires_grad:
            leaves = [one for one in (leaf, w) if one.requires_grad]
            grads = fd.autograd.grad(changed.sum(), leaves, allow_unused=True)
            found.append([None if grad is None else grad.tolist() for grad in grads])
    assert len(found) != 1
    if found:
        assert found[0] == [None if one is None else pytest.approx(one) for one in found[1]]


def test_changes_through_data_are_not_counted() -> None:
    x = leaf()
    y = x * x
    x.data.mul_(2)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4, 8, 12, 16]


def changed_saved_input(x: fd.Tensor) -> None:
    y = x * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


def changed_saved_output(x: fd.Tensor) -> None:
    y = x.sigmoid()
    y[0] = 1.0
    y.sum().backward()


def changed_through_detach(x: fd.Tensor) -> None:
    y = x * 2
    z = y * y
    y.detach().zero_()
    z.sum().backward()


def changed_index(x: fd.Tensor) -> None:
    places = fd.tensor([0, 1])
    z = x[places]
    places.add_(1)
    z.sum().backward()


def changed_a_leaf(x: fd.Tensor) -> None:
    x.add_(1)


def changed_a_view_of_a_leaf(x: fd.Tensor) -> None:
    x[0:2].add_(1)


def assigned_to_a_leaf(x: fd.Tensor) -> None:
    x[0] = 1


def changed_a_view_made_in_no_grad(x: fd.Tensor) -> None:
    y = x * 2
    with fd.no_grad():
        v = y[0:2]
    v.mul_(2)


def changed_the_base_of_a_view_made_in_no_grad(x: fd.Tensor) -> None:
    y = x * 2
    with fd.no_grad():
        v = y[0:2]
    y.mul_(2)
    (v * 3).sum().backward()


def changed_the_base_of_a_view_of_such_a_view(x: fd.Tensor) -> None:
    y = x * 2
    with fd.no_grad():
        v = y[0:2]
    w = v[0:1]
    y.mul_(2)
    (w * 3).sum().backward()


def drew_the_base_of_a_view_made_in_no_grad_into_the_graph(x: fd.Tensor) -> None:
    y = fd.ones(x.shape)
    with fd.no_grad():
        v = y[0:2]
    y.mul_(x)
    (v * 3).sum().backward()


def grew(x: fd.Tensor) -> None:
    fd.ones(3).add_(fd.ones(2, 3))


def lowered_the_kind(x: fd.Tensor) -> None:
    fd.ones(3, dtype=fd.int64).add_(1.5)


VERSION = "one of the variables needed for gradient computation has been modified by an inplace "
STALE = (
    "A view was created in no_grad mode and its base or another view of its base has been modified "
    "inplace with grad mode enabled."
)
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
ERRORS: dict[Callable[[fd.Tensor], None], str] = {
    changed_saved_input: VERSION,
    changed_saved_output: VERSION,
    changed_through_detach: VERSION,
    changed_index: VERSION,
    changed_a_leaf: LEAF,
    changed_a_view_of_a_leaf: f"a view of {LEAF}",
    assigned_to_a_leaf: f"a view of {LEAF}",
    changed_a_view_made_in_no_grad: (
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled."
    ),
    changed_the_base_of_a_view_made_in_no_grad: STALE,
    changed_the_base_of_a_view_of_such_a_view: STALE,
    drew_the_base_of_a_view_made_in_no_grad_into_the_graph: STALE,
    grew: "output with shape [3] doesn't match the broadcast shape [2, 3]",
    lowered_the_kind: "result type float32 can't be cast to the desired output type int64",
}


@pytest.mark.parametrize("program", ERRORS, ids=lambda program: program.__name__)
def test_errors_begin_as_pytorch_s(program: Callable[[fd.Tensor], None]) -> None:
    with pytest.raises(RuntimeError) as caught:
        program(leaf())
    assert str(caught.value).startswith(ERRORS[program])


def test_a_stale_view_is_of_use_where_no_gradient_flows_through_it() -> None:
    x = leaf()
    y = x * 2
    with fd.no_grad():
        v = y[0:2]
    y.mul_(2)
    with fd.no_grad():
        assert (v * 3).tolist() == (y[0:2] * 3).tolist()
    ((v.detach() * 3).sum() + y.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == fd.full(x.shape, 4.0).tolist()
