"""Conjugates of complex tensors are views: a write to the base or the view changes both."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.autograd.forward_ad as fwd
from fastdist.autograd import gradcheck, gradgradcheck
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres

NUMBERS = np.array([[1 + 2j, 3 - 4j, 0.5j], [5 + 1j, -2 + 2j, 1 - 0j]])
OTHERS = np.array([[2 - 1j, 1j, 3 + 3j], [1 + 1j, -4j, 2 + 0.5j]])
MASK = np.array([[True, False, True], [False, True, False]])

Changing = Callable[..., Any]


def x_of(array: np.ndarray = NUMBERS, device: str = "cpu") -> Any:
    return fd.tensor(array, device=device)


def numbers_of(tensor: fd.Tensor) -> np.ndarray:
    return tensor.detach().cpu().resolve_conj().resolve_neg().numpy()


# In-place changes of a tensor c, by another tensor y and a mask m.
CHANGES: dict[str, Changing] = {
    "add_": lambda c, y, m: c.add_(y, alpha=2j),
    "add_ of a number": lambda c, y, m: c.add_(1j),
    "mul_": lambda c, y, m: c.mul_(y),
    "mul_ by itself": lambda c, y, m: c.mul_(c),
    "div_": lambda c, y, m: c.div_(y),
    "pow_": lambda c, y, m: c.pow_(2),
    "an operator": lambda c, y, m: c.__isub__(y),
    "exp_": lambda c, y, m: c.exp_(),
    "neg_": lambda c, y, m: c.neg_(),
    "copy_": lambda c, y, m: c.copy_(y),
    "copy_ of real numbers": lambda c, y, m: c.copy_(y.real),
    "fill_": lambda c, y, m: c.fill_(2 - 3j),
    "zero_": lambda c, y, m: c.zero_(),
    "masked_fill_": lambda c, y, m: c.masked_fill_(m, 7j),
    "index_add_": lambda c, y, m: c.index_add_(0, fd.tensor([1], device=c.device), y[:1]),
    "tril_": lambda c, y, m: c.tril_(),
    "lerp_": lambda c, y, m: c.lerp_(y, 0.25),
    "addcmul_": lambda c, y, m: c.addcmul_(y, y, value=0.5),
    "conj_physical_": lambda c, y, m: c.conj_physical_(),
    "a row": lambda c, y, m: c.__setitem__(0, y[1]),
    "a number at a place": lambda c, y, m: c.__setitem__((1, 2), 4j),
    "rows of a list": lambda c, y, m: c.__setitem__([1, 0], y),
    "places of a mask": lambda c, y, m: c.__setitem__(m, 4j),
    "a view": lambda c, y, m: c[1:].T.mul_(1j),
    "a part of several": lambda c, y, m: c.unbind(1)[2].add_(1j),
    "real": lambda c, y, m: c.real.add_(2),
    "imag": lambda c, y, m: c.imag.mul_(y.imag),
    "a place of imag": lambda c, y, m: c.imag[0].fill_(9.0),
    "real as an attribute": lambda c, y, m: setattr(c, "real", y.imag),
    "imag as an attribute": lambda c, y, m: setattr(c, "imag", y.real),
    "out": lambda c, y, m: fd.sub(y, 1j, out=c),
    "out of a product": lambda c, y, m: fd.matmul(y, y.T @ y, out=c),
    "outs": lambda c, y, m: fd.linalg.qr(y.T, out=(c.mT, fd.empty(0, dtype=c.dtype))),
    "view in place": lambda c, y, m: c.t_().copy_(y.T).t_(),
}
ON_CUDA = [name for name in CHANGES if name != "outs"]


def change_is_that_of_a_copy(name: str, device: str) -> None:
    x, y, mask = x_of(device=device), x_of(OTHERS, device), x_of(MASK, device)
    view, plain = x.conj(), x.conj_physical()
    CHANGES[name](view, y, mask)
    CHANGES[name](plain, y, mask)
    np.testing.assert_allclose(numbers_of(view), numbers_of(plain), rtol=1e-12)
    np.testing.assert_allclose(numbers_of(x), numbers_of(plain).conj(), rtol=1e-12)
    assert x._version > 0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_view_reaches_the_numbers(name: str) -> None:
    change_is_that_of_a_copy(name, "cpu")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ON_CUDA)
def test_a_change_of_the_view_reaches_the_numbers_on_cuda(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for _ in cuda_on_fibres(monkeypatch):
        change_is_that_of_a_copy(name, "cuda")


# "view in place" is left out, because a base tensor must not change its dtype in place.
@pytest.mark.parametrize("name", [name for name in CHANGES if name != "view in place"])
def test_a_change_of_the_numbers_is_seen_in_the_view(name: str) -> None:
    x, plain = x_of(), x_of()
    view, row, part = x.conj(), x.conj()[1], x.conj().imag
    CHANGES[name](x, x_of(OTHERS), x_of(MASK))
    CHANGES[name](plain, x_of(OTHERS), x_of(MASK))
    np.testing.assert_array_equal(numbers_of(view), numbers_of(plain).conj())
    np.testing.assert_array_equal(numbers_of(row), numbers_of(plain).conj()[1])
    np.testing.assert_array_equal(numbers_of(part), -numbers_of(plain).imag)


def test_operators_take_views_on_either_side() -> None:
    x, y = x_of(), x_of(OTHERS)
    here, there = NUMBERS.conj(), OTHERS
    np.testing.assert_allclose((x.conj() + y).numpy(), here + there)
    np.testing.assert_allclose((y + x.conj()).numpy(), there + here)
    np.testing.assert_allclose((y - x.conj()).numpy(), there - here)
    np.testing.assert_allclose((x.conj() / y.conj()).numpy(), here / there.conj())
    np.testing.assert_allclose((2j - x.conj()).numpy(), 2j - here)
    np.testing.assert_allclose((x.conj() ** 2).numpy(), here**2)
    np.testing.assert_allclose((there * x.conj()).numpy(), there * here)
    np.testing.assert_allclose((x.mH @ y).numpy(), here.T @ there)
    np.testing.assert_allclose((y @ x.mH).numpy(), there @ here.T)
    assert (x.conj() == x.conj_physical()).all()
    assert x.conj() != None  # noqa: E711 - an operator


def test_the_memory_is_that_of_the_numbers() -> None:
    x = x_of()
    for view in (x.conj(), fd.conj(x), x.mT.conj().mT, x.mH.mT, x.adjoint().mT, x.H.T):
        assert view.is_conj()
        assert view.data_ptr() == x.data_ptr()
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert view.stride() == x.stride()
    assert x.conj()[1, 1:].storage_offset() == 4


def test_the_view_of_a_view_is_the_numbers() -> None:
    x = x_of()
    again = x.conj().conj()
    assert not again.is_conj()
    again.mul_(2j)
    np.testing.assert_array_equal(x.numpy(), NUMBERS * 2j)


def test_real_numbers_are_their_own_conjugates() -> None:
    x = fd.ones(2, 3)
    assert x.conj() is x
    assert x.resolve_conj() is x
    assert x.conj_physical() is x
    assert not x.is_conj()


def test_only_views_are_resolved() -> None:
    x = x_of()
    view = x.conj()
    assert x.resolve_conj() is x
    assert view.resolve_neg() is view
    assert view.imag.resolve_conj().is_neg()
    for made in (view.resolve_conj(), view.imag.resolve_neg(), view.conj_physical(), view.clone()):
        assert not made.is_conj()
        assert not made.is_neg()
        made.zero_()
    np.testing.assert_array_equal(x.numpy(), NUMBERS)


@pytest.mark.parametrize(
    ("take", "stays"),
    [
        (lambda c: c[0], True), (lambda c: c.T, True), (lambda c: c.reshape(6), True),
        (lambda c: c.expand(4, 2, 3), True), (lambda c: c.unbind()[1], True),
        (lambda c: c.split(1)[0], True), (lambda c: c.diagonal(), True), (lambda c: c.data, True),
        (lambda c: c.as_strided((2,), (1,)), True), (lambda c: c.detach(), True),
        (lambda c: c.unfold(0, 1, 1), True), (lambda c: c.contiguous(), True),
        (lambda c: c.to(fd.complex128), True), (lambda c: c.cpu(), True),
        (copy.copy, True), (lambda c: c.view(3, 2).squeeze(), True),
        (lambda c: c.to(fd.complex64), False), (lambda c: c[[0]], False),
        (lambda c: c.T.contiguous(), False), (lambda c: c + 0, False), (lambda c: -c, False),
        (fd.empty_like, False), (copy.deepcopy, False),
        (lambda c: fd.stack([c]), False), (lambda c: c.real, False),
    ],
)  # fmt: skip
def test_views_keep_the_flag_and_nothing_else_does(take: Changing, stays: bool) -> None:
    assert take(x_of().conj()).is_conj() == stays


def test_the_imaginary_part_is_negated_when_it_is_read() -> None:
    part = x_of().conj().imag
    assert part.is_neg()
    assert part.conj() is part
    np.testing.assert_array_equal(numbers_of(part), -NUMBERS.imag)
    assert not part.neg().is_neg()


def test_numpy_is_given_no_view() -> None:
    with pytest.raises(RuntimeError, match=r"has conjugate bit set. Use tensor.resolve_conj\(\)"):
        x_of().conj().numpy()
    with pytest.raises(RuntimeError, match=r"has negative bit set. Use tensor.resolve_neg\(\)"):
        x_of().conj().imag.numpy()
    with pytest.raises(RuntimeError, match="conjugate bit"):
        np.asarray(x_of().conj())
    np.testing.assert_array_equal(x_of().conj().numpy(force=True), NUMBERS.conj())
    with pytest.raises(BufferError, match="resolve_conj"):
        x_of().conj().__dlpack__()


def test_other_dtypes_of_the_same_bytes_are_refused() -> None:
    for take in (fd.view_as_real, lambda c: c.view(fd.float64)):
        with pytest.raises(RuntimeError, match="conjugated view"):
            take(x_of().conj())
    with pytest.raises(RuntimeError, match="negated view"):
        x_of().conj().imag.view(fd.int64)


def test_other_memory_is_refused() -> None:
    view = x_of().conj()
    for change in (lambda: view.resize_(2), lambda: view.set_(x_of())):
        with pytest.raises(RuntimeError, match="cannot be given other memory"):
            change()


def test_memory_that_repeats_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than one element"):
        x_of()[0, :1].conj().expand(3).add_(1j)


def test_numbers_in_other_places_of_the_same_memory_are_refused() -> None:
    x = fd.ones(2, 2, dtype=fd.complex64)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.mH.copy_(x)


def test_nothing_is_written_where_a_change_is_refused() -> None:
    x = x_of()
    with pytest.raises(RuntimeError):
        fd.add(x[:1], 1, out=x.conj())
    with pytest.raises(RuntimeError):
        x.conj().add_(fd.ones(5))
    np.testing.assert_array_equal(x.numpy(), NUMBERS)


def test_a_view_prints_and_reads_as_its_numbers() -> None:
    view = fd.tensor([1 + 2j]).conj()
    assert repr(view) == "tensor([1.-2.j])"
    assert view.item() == 1 - 2j
    assert complex(view) == 1 - 2j
    assert view.tolist() == [1 - 2j]
    assert float(view.imag) == -2.0
    assert repr(type(view)) == repr(fd.Tensor)
    assert repr(fd.tensor([1j], requires_grad=True).conj()).endswith("grad_fn=<ConjBackward0>)")


def test_what_is_pickled_saved_and_copied_is_the_numbers() -> None:
    view = x_of().conj()
    file = io.BytesIO()
    fd.save([view, view.imag], file)
    file.seek(0)
    loaded, part = fd.load(file)
    twins = (pickle.loads(pickle.dumps(view)), copy.deepcopy(view), loaded, fd.nn.Parameter(view))
    for twin in twins:
        np.testing.assert_array_equal(numbers_of(twin), NUMBERS.conj())
    np.testing.assert_array_equal(numbers_of(part), -NUMBERS.imag)


def test_a_module_takes_and_hands_out_a_view() -> None:
    module = fd.nn.Module()
    module.register_buffer("kept", x_of().conj())
    module.kept.add_(1j)
    np.testing.assert_array_equal(numbers_of(module.state_dict()["kept"]), NUMBERS.conj() + 1j)


# ---- Gradients ------------------------------------------------------------------------------


def of_view_changed(x: Any) -> Any:
    y = x * 1
    view = y.conj()
    view.imag.mul_(x.real)
    view[0].add_(y[1])
    return y * view * y.imag


def of_numbers_changed(x: Any) -> Any:
    y = x * 1
    view, row = y.conj(), y.conj()[1]
    y.mul_(3j)
    y[0] = x[1]
    return y * view + row


PROGRAMS: dict[str, Changing] = {
    "product": lambda x: x.conj() * x * x.conj(),
    "views": lambda x: x.mH @ x.conj() + x.conj().imag.T @ x.conj().real,
    "parts of several": lambda x: x.conj().unbind(1)[0] * x.conj().split(1, 1)[2][:, 0],
    "view of a view": lambda x: x.conj().conj() * x.conj()[0].conj(),
    "joined": lambda x: fd.cat([x.conj(), x, x.conj() * x.conj().imag]),
    "view changed": of_view_changed,
    "numbers changed": of_numbers_changed,
    "copied into": lambda x: fd.zeros(2, 3, dtype=x.dtype).copy_(x.conj()) * x,
    "written over": lambda x: (x * 1).conj().copy_(x).add_(x),
    "index": lambda x: x.conj()[[1, 0, 1]] * x.conj()[1],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_differences(name: str) -> None:
    x = fd.tensor(NUMBERS + 0.25, requires_grad=True)
    assert gradcheck(PROGRAMS[name], (x,), check_forward_ad=True)
    assert gradgradcheck(PROGRAMS[name], (x,))


def test_the_view_stands_in_the_graph_as_one_tensor() -> None:
    x = fd.tensor(NUMBERS, requires_grad=True)
    view = x.conj()
    seen: list[Any] = []
    view.retain_grad()
    view.register_hook(lambda g: seen.append(g) or g * 2)
    ((view * 3).sum() + (view.T * view[0, 0]).sum().conj()).real.backward()
    assert len(seen) == 1
    assert view.grad_fn is view.grad_fn
    assert view.grad_fn.name() == "ConjBackward0"
    np.testing.assert_allclose(numbers_of(view.grad), 2 * numbers_of(seen[0]))
    np.testing.assert_allclose(numbers_of(x.grad), numbers_of(view.grad).conj())


def test_a_gradient_by_the_view_counts_its_views() -> None:
    x = fd.tensor(NUMBERS[:, :2], requires_grad=True)
    view = x.conj()
    (by_view,) = fd.autograd.grad((view @ view.T).sum().abs(), view, retain_graph=True)
    plain = fd.tensor(NUMBERS[:, :2].conj(), requires_grad=True)
    (by_plain,) = fd.autograd.grad((plain @ plain.T).sum().abs(), plain)
    np.testing.assert_allclose(numbers_of(by_view), numbers_of(by_plain))


def test_a_view_may_be_a_leaf_of_its_own() -> None:
    view, plain = x_of().conj().requires_grad_(), x_of(NUMBERS.conj()).requires_grad_()
    assert view.is_leaf
    assert view.grad_fn is None
    for one in (view, plain):
        (one * one.T.reshape(2, 3) * one.real).sum().abs().backward()
    np.testing.assert_allclose(numbers_of(view.grad), numbers_of(plain.grad))
    assert copy.deepcopy(view).requires_grad
    twin = copy.copy(view)
    assert twin.requires_grad and twin.is_conj() and twin.data_ptr() == view.data_ptr()
    assert not view.requires_grad_(False).requires_grad


def test_a_leaf_that_requires_grad_is_not_changed_through_its_view() -> None:
    x = fd.tensor(NUMBERS, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x.conj().mul_(2)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x.conj()[0].imag.zero_()
    with fd.no_grad():
        x.conj().mul_(2j)
    np.testing.assert_array_equal(numbers_of(x), (NUMBERS.conj() * 2j).conj())


def test_a_view_is_one_of_the_base() -> None:
    x = fd.tensor(NUMBERS, requires_grad=True)
    for view in (x.conj(), x.conj()[0], x.conj().conj(), x.conj().imag, x.conj().real):
        assert view._base is x
        assert view._is_view()
        assert not view.is_leaf


def test_what_was_saved_knows_of_a_change_through_the_view() -> None:
    x = fd.tensor(NUMBERS, requires_grad=True)
    y = x * 1
    product = y * y
    y.conj().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().abs().backward()


def test_a_function_may_return_and_save_views() -> None:
    class Conjugate(fd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x.conj())
            return x.conj()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (saved,) = ctx.saved_tensors
            assert saved.is_conj()
            return g.conj()

    x, plain = (fd.tensor(NUMBERS, requires_grad=True) for _ in range(2))
    made = Conjugate.apply(x)
    (made * x * made[0]).sum().abs().backward()
    (plain.conj() * plain * plain.conj()[0]).sum().abs().backward()
    np.testing.assert_allclose(numbers_of(x.grad), numbers_of(plain.grad))


def test_a_gradient_may_be_a_view() -> None:
    parameter = fd.nn.Parameter(x_of())
    parameter.grad = x_of(OTHERS).conj()
    (parameter * 2j).real.sum().backward()
    fd.optim.SGD([parameter], 0.5).step()
    np.testing.assert_allclose(numbers_of(parameter), NUMBERS - 0.5 * (OTHERS.conj() - 2j))
    with pytest.raises(ValueError, match="conjugated view"):
        fd.optim.SGD([x_of().conj().requires_grad_()], 0.5)


# ---- Conjugates under transforms, in forward mode and in traces -----------------------------


def test_vmap_shares_memory_as_well() -> None:
    def change(row: Any) -> Any:
        own = row.clone()
        own.conj().add_(1j)
        own.conj()[0].imag.mul_(2)
        assert own.conj().is_conj()
        return own, own.conj()

    own, view = fd.vmap(change)(x_of())
    for row, found, seen in zip(x_of(), own, view, strict=True):
        np.testing.assert_array_equal(numbers_of(found), numbers_of(change(row)[0]))
        np.testing.assert_array_equal(numbers_of(seen), numbers_of(found).conj())


def test_vmap_takes_views() -> None:
    found = fd.vmap(lambda a, b: (a * b, a.sum(), a.mul_(2)))(x_of().conj(), x_of(OTHERS))
    np.testing.assert_allclose(numbers_of(found[0]), NUMBERS.conj() * OTHERS)
    np.testing.assert_allclose(numbers_of(found[2]), NUMBERS.conj() * 2)


def test_gradients_of_each_call_are_those_alone() -> None:
    def size(a: Any) -> Any:
        return (a.conj() * a * a.conj().imag).sum().abs()

    found = fd.vmap(fd.func.grad(size))(x_of())
    for row, alone in zip(x_of(), found, strict=True):
        np.testing.assert_allclose(numbers_of(alone), numbers_of(fd.func.grad(size)(row)))


def test_a_dual_tensor_s_view_has_the_view_of_its_tangent() -> None:
    with fwd.dual_level():
        dual = fwd.make_dual(x_of(), x_of(OTHERS))
        view = dual.conj()
        np.testing.assert_array_equal(numbers_of(fwd.unpack_dual(view).tangent), OTHERS.conj())
        np.testing.assert_array_equal(
            numbers_of(fwd.unpack_dual(view[1].imag).tangent), -OTHERS.imag[1]
        )
        of_view = fwd.make_dual(x_of().conj(), x_of(OTHERS))
        np.testing.assert_array_equal(numbers_of(fwd.unpack_dual(of_view).primal), NUMBERS.conj())
        np.testing.assert_array_equal(
            numbers_of(fwd.unpack_dual(of_view.conj()).tangent), OTHERS.conj()
        )


def test_a_tangent_may_be_a_view() -> None:
    takes: list[Changing] = [
        lambda a: a.real, lambda a: a.imag, fd.view_as_real, lambda a: a.conj().imag,
        lambda a: a[1].real,
    ]  # fmt: skip
    tangent = x_of(OTHERS)
    for take in takes:
        found = fd.func.jvp(take, (x_of(),), (tangent.conj(),))[1]
        np.testing.assert_array_equal(numbers_of(found), numbers_of(take(x_of(OTHERS.conj()))))
        with fwd.dual_level():
            found = fwd.unpack_dual(take(fwd.make_dual(x_of(), tangent.mH.mT))).tangent
        np.testing.assert_array_equal(numbers_of(found), numbers_of(take(x_of(OTHERS.conj()))))


def test_a_gradient_passes_a_tangent_that_is_a_view() -> None:
    tangent = x_of(OTHERS).requires_grad_()
    found = fd.func.jvp(lambda a: a.imag, (x_of(),), (tangent.conj(),))[1]
    (grad,) = fd.autograd.grad(found.sum(), tangent)
    np.testing.assert_array_equal(numbers_of(grad), np.full((2, 3), -1j))


def test_a_change_of_a_dual_tensor_s_view_changes_its_tangent() -> None:
    with fwd.dual_level():
        y = fwd.make_dual(x_of(), x_of(OTHERS)) * 1
        view = y.conj()
        fwd.unpack_dual(view)
        view.mul_(2j)
        np.testing.assert_array_equal(numbers_of(fwd.unpack_dual(y).tangent), -2j * OTHERS)
        y.add_(fwd.make_dual(x_of(), x_of(OTHERS)))
        expected = (OTHERS * (1 - 2j)).conj()
        np.testing.assert_array_equal(numbers_of(fwd.unpack_dual(view).tangent), expected)


def test_a_trace_makes_the_view_again() -> None:
    def program(x: Any, given: Any) -> Any:
        own = x.clone()
        own.conj().mul_(given)
        own.conj()[0].imag.add_(1)
        own.conj()[1] = 2j
        return own, x.mH @ given.conj(), given[0].detach() * x.conj().data, x.conj().imag

    trace = fd.trace(program)(x_of(), x_of(OTHERS).conj())
    given = (x_of(OTHERS * 3), x_of(NUMBERS + 1j).conj())
    for found, expected in zip(trace(*given), program(*given), strict=True):
        np.testing.assert_array_equal(numbers_of(found), numbers_of(expected))
    assert not trace.constants


def test_conjugates_of_sparse_numbers_are_sparse() -> None:
    dense = x_of(NUMBERS * MASK).requires_grad_()
    found = dense.to_sparse().conj()
    assert found.is_sparse
    assert not found.is_conj()
    np.testing.assert_array_equal(numbers_of(found.to_dense()), (NUMBERS * MASK).conj())
    weighted = (found.to_dense() * x_of(OTHERS)).sum().abs()
    (grad,) = fd.autograd.grad(weighted, dense)
    (expected,) = fd.autograd.grad((dense.conj() * x_of(OTHERS)).sum().abs(), dense)
    np.testing.assert_allclose(numbers_of(grad), numbers_of(expected) * MASK)


def test_a_view_on_cuda_is_as_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Any) -> list[np.ndarray]:
        (x.mH @ x.conj() * x.conj()[:, :2].imag.T).sum().abs().backward()
        return [numbers_of(one) for one in (x.grad, x.conj(), x.conj().imag.T, x.mH[1:])]

    here = program(x_of(NUMBERS[:, :2].copy()).requires_grad_())
    for cuda in cuda_on_fibres(monkeypatch):
        assert isinstance(cuda, CudaBackend)
        there = program(x_of(NUMBERS[:, :2].copy(), "cuda").requires_grad_())
        for ours, theirs in zip(there, here, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
