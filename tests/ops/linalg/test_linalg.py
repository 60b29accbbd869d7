"""Linear algebra that the sample table does not cover: errors, degenerate and random matrices."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import linalg as LA
from tests.ops.differences import jvp, vjp

ZERO = fd.zeros(3, 3)
ONE = fd.eye(3)
PAIR = fd.stack([ONE, -ONE])
LOST = math.nan
NAN = fd.full((3, 3), float("nan"))
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: LA.cholesky(-ONE),
        (
            r"linalg\.cholesky: The factorization could not be completed because the input is not "
            r"positive-definite \(the leading minor of order 1 is not positive-definite\)\."
        ),
    ),
    (lambda: LA.cholesky(PAIR), r"linalg\.cholesky: \(Batch element 1\): The factorization"),
    (lambda: LA.cholesky(fd.tensor([[1.0, 2.0], [2.0, 1.0]])), "minor of order 2 is"),
    (lambda: LA.cholesky(NAN), "is not positive-definite"),
    (lambda: LA.cholesky_ex(-ONE, check_errors=True), r"linalg\.cholesky_ex: The factorization"),
    (
        lambda: LA.inv(ZERO),
        (
            r"linalg\.inv: The diagonal element 1 is zero, the inversion could not be completed "
            r"because the input matrix is singular\."
        ),
    ),
    (lambda: fd.ones(2, 2).inverse(), r"linalg\.inv: The diagonal element 2 is zero"),
    (lambda: LA.inv(fd.stack([ONE, ZERO])), r"linalg\.inv: \(Batch element 1\): The diagonal"),
    (lambda: LA.solve(ZERO, ONE), r"torch\.linalg\.solve: The solver failed because the input"),
    (lambda: LA.tensorinv(ZERO, 1), "inv: The diagonal element 1 is zero"),
    (lambda: LA.matrix_power(ZERO, -1), r"linalg\.inv: The diagonal element 1 is zero"),
    (lambda: fd.cholesky_inverse(ZERO), "cholesky_inverse: The diagonal element 1 is zero"),
    (lambda: LA.eigh(NAN), r"linalg\.eigh: The algorithm failed to converge because the input"),
    (lambda: LA.eigvalsh(NAN), r"linalg\.eigh: The algorithm failed to converge"),
    (lambda: LA.svd(NAN), r"linalg\.svd: The algorithm failed to converge because the input"),
    (lambda: LA.svdvals(NAN / 0.0), "contained non-finite values"),
    (lambda: LA.pinv(NAN), "contained non-finite values"),
    (lambda: LA.lu_factor(ZERO), r"torch\.linalg\.lu_factor: U\[1,1\] is zero and using it on"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_a_matrix_that_cannot_be_computed_is_refused_in_pytorch_s_words(
    call: Callable[[], Any], words: str
) -> None:
    with pytest.raises(LA.LinAlgError, match=words):
        call()


def test_linalg_error_is_a_runtime_error_as_in_pytorch() -> None:
    assert issubclass(LA.LinAlgError, RuntimeError)


PIVOTS = [fd.tensor([wrong, 2, 3], dtype=fd.int32) for wrong in (0, -3, 4)]
SHAPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: LA.det(fd.ones(3)), "must have at least 2 dimensions"),
    (lambda: LA.det(fd.ones(3, 2)), "A must be batches of square matrices, but they are 3 by 2"),
    (lambda: LA.det(ONE.long()), "Expected a floating point or complex tensor as input. Got Long"),
    (lambda: LA.cholesky(ONE.half()), "\"cholesky_cpu\" not implemented for 'Half'"),
    (lambda: LA.solve(ONE, fd.ones(4)), r"Incompatible shapes of A and B for the equation AX = B"),
    (lambda: LA.solve(ONE, fd.ones(3, 4), left=False), r"for the equation XA = B \(3x3 and 3x4\)"),
    (lambda: LA.solve(ONE, ONE.double()), "found A of type Float and B of type Double"),
    (lambda: LA.qr(ONE, "full"), "qr received unrecognized mode 'full' but expected one of"),
    (lambda: LA.eigh(ONE, "X"), "Expected UPLO argument to be 'L' or 'U', but got X"),
    (lambda: LA.svd(ONE, driver="gesvd"), "keyword argument `driver=` is only supported on CUDA"),
    (lambda: LA.lu(ONE, pivot=False), "LU without pivoting is not implemented on the CPU"),
    (lambda: LA.lu_solve(ONE, fd.ones(3).long(), ONE), r"should be a Tensor of scalar type torch"),
    (lambda: LA.lu_solve(ONE, fd.ones(2).int(), ONE), "Number of pivots per batch should be same"),
    (lambda: LA.lu_solve(ONE, PIVOTS[0], ONE), "must all be greater or equal to 1, got 0 for 3"),
    (lambda: LA.lu_solve(ONE, PIVOTS[1], ONE, adjoint=True), "greater or equal to 1, got -3 for 3"),
    (
        lambda: LA.lu_solve(ONE, PIVOTS[2], ONE, left=False),
        r"or equal to LU.size\(-2\), got 4 for 3",
    ),
    (lambda: ONE.lu_solve(ONE, PIVOTS[2]), r"smaller or equal to LU.size\(-2\), got 4 for 3 rows"),
    (lambda: fd.lu_unpack(ONE, PIVOTS[0]), r"between 1 and LU.size\(-2\) inclusive, got 0 for 3"),
    (lambda: fd.lu_unpack(ONE, PIVOTS[1]), r"between 1 and LU.size\(-2\) inclusive, got -3 for 3"),
    (lambda: fd.lu_unpack(ONE, PIVOTS[2]), r"between 1 and LU.size\(-2\) inclusive, got 4 for 3"),
    (
        lambda: fd.vmap(lambda pivots: LA.lu_solve(ONE, pivots, ONE))(fd.stack(PIVOTS)),
        "must all be greater or equal to 1, got -3",
    ),
    (lambda: LA.lstsq(ONE, ONE, driver="x"), "parameter `driver` should be one of"),
    (lambda: LA.lstsq(ONE, fd.ones(4, 1)), r"input.size\(-2\) should match other.size\(-2\)"),
    (lambda: LA.lstsq(ONE, fd.ones(2, 3, 1)), "must be greater or equal to other.dim"),
    (lambda: LA.cond(ONE, 5), "got an invalid norm type: 5"),
    (lambda: LA.cond(fd.ones(2, 3), 1), "A must be batches of square matrices"),
    (lambda: LA.matrix_norm(ONE, 3), r"linalg.matrix_norm: Order 3 not supported"),
    (lambda: LA.matrix_norm(ONE, "fro", (0, 0)), r"dims must be different. Got \(0, 0\)"),
    (lambda: LA.matrix_norm(ONE, "fro", (0,)), "dim must be a 2-tuple. Got 0"),
    (lambda: LA.norm(fd.ones(2, 2, 2), "fro"), "the input must be 1D or 2D. Got 3D"),
    (lambda: LA.multi_dot([ONE]), "expected at least 2 tensors but got 1"),
    (lambda: LA.multi_dot([ONE, fd.ones(2, 2)]), "tensors 0 and 1 with shapes"),
    (lambda: LA.tensorinv(ONE, 0), "Expected a strictly positive integer for 'ind', but got 0"),
    (lambda: LA.tensorsolve(fd.ones(2, 3), fd.ones(2)), "Expected self to satisfy the requirement"),
    (lambda: LA.vander(fd.ones(3), N=1), "N must be greater than 1"),
    (lambda: LA.cross(fd.ones(3), fd.ones(2)), "must have length 3. Got 3 and 2"),
    (lambda: LA.householder_product(fd.ones(2, 3), fd.ones(2)), "must be greater than or equal to"),
    (lambda: fd.cholesky_solve(fd.ones(4, 2), ONE), "each A matrix is 3 by 3 but each b matrix is"),
    (lambda: fd.svd_lowrank(fd.ones(3)), "must have at least 2 dimensions"),
    (lambda: fd.pca_lowrank(ONE, 4), "must be non-negative integer and not greater than"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("call", "words"), SHAPES)
def test_what_does_not_fit_is_refused_in_pytorch_s_words(
    call: Callable[[], Any], words: str
) -> None:
    with pytest.raises((RuntimeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_a_removed_function_says_what_took_its_place(name: str) -> None:
    with pytest.raises(RuntimeError, match="is now removed; use linalg"):
        getattr(fd, name)(ONE, ONE)


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.complex64, fd.complex128])
def test_eigenvalues_of_any_square_matrix_are_complex(dtype: fd.dtype) -> None:
    turn = fd.tensor([[0.0, -2.0], [2.0, 0.0]], dtype=dtype)
    values, vectors = LA.eig(turn)
    assert values.dtype is vectors.dtype is dtype.to_complex()
    assert sorted(values.imag.tolist()) == pytest.approx([-2.0, 2.0])
    assert fd.allclose(turn.to(values.dtype) @ vectors, vectors * values, atol=1e-5)
    assert fd.allclose(LA.eigvals(turn), values) and type(LA.eig(ONE)).__name__ == "linalg_eig"


def test_a_real_matrix_has_a_real_gradient_of_its_eigenvalues() -> None:
    leaf = fd.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=fd.float64, requires_grad=True)
    (LA.eigvals(leaf).abs() ** 2).sum().backward()
    # |z|**2 of a conjugate pair is the determinant, and the sum over both is twice the determinant.
    assert leaf.grad.dtype is fd.float64
    np.testing.assert_allclose(leaf.grad, [[1.0, -6.0], [4.0, 2.0]], rtol=1e-9)


def test_eigenvectors_whose_phase_counts_and_matrices_of_nan_are_refused() -> None:
    leaf = fd.tensor([[1.0, -2.0], [3.0, 0.5]], requires_grad=True)
    with pytest.raises(RuntimeError, match="linalg_eig_backward: The eigenvectors in the complex"):
        LA.eig(leaf).eigenvectors.imag.sum().backward()
    for refused in (LA.eig, LA.eigvals):
        with pytest.raises(LA.LinAlgError, match="should not contain infs or NaNs"):
            refused(NAN)


def test_info_tells_of_each_matrix_and_the_others_are_as_alone() -> None:
    found, info = LA.inv_ex(fd.stack([2 * ONE, ZERO, ONE]))
    assert info.tolist() == [0, 1, 0] and info.dtype is fd.int32
    assert fd.equal(found[0], ONE / 2) and fd.equal(found[2], ONE) and found[1].isnan().all()


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.complex64])
def test_a_matrix_that_is_not_finite_loses_no_nan(dtype: Any) -> None:
    # Elimination gives NaN for these matrices. OpenBLAS gives finite factors or a zero pivot.
    rows = [
        [[LOST, 1, 2], [1, 1, 2], [0, 1, 1]],
        [[0, 0, 1], [1, 1, 1], [1, LOST, 1]],
        [[math.inf, 1, 0], [math.inf, 1, 0], [0, 0, 1]],
    ]
    lost = fd.tensor(rows, dtype=dtype)
    given = fd.cat([lost, fd.eye(3, dtype=dtype)[None], fd.zeros(1, 3, 3, dtype=dtype)])
    is_nan = fd.tensor([True, True, True, False, False])
    assert LA.det(given).isnan().equal(is_nan)
    sign, size = LA.slogdet(given)
    assert size.isnan().equal(is_nan) and size[4] == -math.inf and sign[3:].tolist() == [1, 0]
    lost_sign = sign[:3].isnan() if dtype.is_complex else sign[:3] == 0
    assert lost_sign.all()
    fit, is_lost = given[[0, 2, 3]], fd.tensor([True, True, False])
    assert LA.inv(fit).isnan().any(-1).any(-1).equal(is_lost)
    assert LA.solve(fit, fd.ones(3, 1, dtype=dtype)).isnan().any(-2)[:, 0].equal(is_lost)
    assert LA.lu_factor(fit)[0].isnan().any(-1).any(-1).equal(is_lost)
    # If a zero pivot comes before the first NaN, `info` reports the pivot, as in LAPACK.
    for found in (LA.inv_ex(given), LA.lu_factor_ex(given), LA.solve_ex(given, given[3])):
        assert found.info.tolist() == [0, 2, 0, 0, 1]


def test_what_infinities_give_is_what_the_steps_of_elimination_give() -> None:
    given = fd.tensor([[[math.inf, 1.0], [1.0, 1.0]], [[1.0, math.inf], [1.0, 1.0]]])
    assert LA.det(given).tolist() == [math.inf, -math.inf]
    assert [part.tolist() for part in LA.slogdet(given)] == [[1, -1], [math.inf, math.inf]]
    assert LA.inv(given[0]).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert LA.solve(given[0], fd.ones(2)).tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="diagonal element 1 is zero"):
        LA.inv(fd.tensor([[0.0, 0.0], [0.0, math.nan]]))


def test_a_nan_in_one_matrix_leaves_the_factors_of_the_others() -> None:
    factor, info = LA.cholesky_ex(fd.stack([NAN, 4 * ONE]))
    assert info.tolist() == [1, 0] and fd.equal(factor[1], 2 * ONE)


def test_solve_ex_tells_the_pivot_that_is_zero() -> None:
    singular = fd.tensor([[1.0, 2.0], [2.0, 4.0]])
    result, info = LA.solve_ex(fd.stack([fd.eye(2), singular]), fd.ones(2, 1))
    assert info.tolist() == [0, 2] and result[1].isnan().all()


def test_one_triangle_alone_is_read() -> None:
    below = fd.tensor([[2.0, 9.0], [1.0, 3.0]])
    whole = fd.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert fd.equal(LA.cholesky(below), LA.cholesky(whole))
    assert fd.equal(LA.eigvalsh(below), LA.eigvalsh(whole))
    assert fd.equal(LA.eigvalsh(below.mT, "U"), LA.eigvalsh(whole))


def test_values_that_meet_have_gradients_but_their_vectors_have_none() -> None:
    one = fd.eye(3, dtype=fd.float64).requires_grad_()
    for values in (LA.eigvalsh(one), LA.svdvals(one), LA.eigh(one)[0], LA.svd(one)[1]):
        (gradient,) = fd.autograd.grad(values.sum(), one)
        assert fd.allclose(gradient, fd.eye(3, dtype=fd.float64))
    (gradient,) = fd.autograd.grad(LA.eigh(one).eigenvectors.sum(), one)
    assert not gradient.isfinite().all()


@pytest.mark.parametrize("rank", [2, 3])
def test_a_singular_determinant_has_the_cofactors_for_gradient(rank: int) -> None:
    random = np.random.default_rng(rank)
    matrix = np.rint(random.normal(size=(4, rank)) * 3) @ np.rint(random.normal(size=(rank, 4)) * 3)
    matrix[3] = 0.0
    expected = np.empty((4, 4))
    for i, j in np.ndindex(4, 4):
        minor = np.delete(np.delete(matrix, i, 0), j, 1)
        expected[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    (found,) = vjp(fd.det, [matrix], np.array(1.0))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(matrix).max() ** 3)
    tangent = jvp(fd.det, [matrix], [np.ones((4, 4))])
    np.testing.assert_allclose(tangent, expected.sum(), atol=1e-6)


def test_a_batch_may_hold_singular_matrices_beside_others() -> None:
    pair = fd.stack([2 * ONE, fd.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]])]).requires_grad_()
    (gradient,) = fd.autograd.grad(pair.det().sum(), pair)
    assert fd.allclose(gradient[0], 4 * ONE) and fd.allclose(gradient[1].diag(), ONE[2])


def test_logarithms_of_determinants_tell_their_signs() -> None:
    assert fd.slogdet(-ONE) == (-1.0, 0.0)
    assert fd.slogdet(ZERO) == (0.0, -np.inf)
    assert fd.logdet(ZERO).item() == -np.inf and fd.logdet(-ONE).isnan()


def test_qr_says_where_it_has_no_gradient() -> None:
    tall = fd.ones(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"The derivative of linalg\.qr depends on Q, which is"):
        LA.qr(tall, "r").R.sum().backward()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows"):
        LA.qr(tall, "complete").Q.sum().backward()


def test_full_singular_vectors_are_orthonormal_and_the_first_have_gradients() -> None:
    wide = fd.randn(2, 3, 5, dtype=fd.float64, requires_grad=True)
    full, short = LA.svd(wide), LA.svd(wide, full_matrices=False)
    assert full.Vh.shape == (2, 5, 5)
    assert fd.allclose(full.Vh @ full.Vh.mT, fd.eye(5, dtype=fd.float64).expand(2, 5, 5))
    found = [
        fd.autograd.grad(parts.Vh[:, :3].square()[:, 0].sum(), wide)[0] for parts in (full, short)
    ]
    assert fd.allclose(*found)


def test_singular_vectors_are_not_made_where_nobody_differentiates() -> None:
    matrix = fd.randn(4, 3, requires_grad=True)
    assert LA.svdvals(matrix).grad_fn is not None
    with fd.no_grad():
        assert LA.svdvals(matrix).grad_fn is None
    assert fd.allclose(LA.svdvals(matrix), LA.svdvals(matrix.detach()))


def test_ranks_go_by_the_larger_of_two_tolerances() -> None:
    matrix = fd.diag(fd.tensor([4.0, 2.0, 1.0, 1e-9]))
    assert LA.matrix_rank(matrix) == 3
    assert LA.matrix_rank(matrix, atol=1.5) == 2 and LA.matrix_rank(matrix, rtol=0.6) == 1
    assert LA.matrix_rank(matrix, atol=1e-12) == 4
    both = fd.stack([matrix, matrix])
    assert LA.matrix_rank(both, atol=fd.tensor([1.5, 0.5])).tolist() == [2, 3]
    assert LA.pinv(both, rtol=fd.tensor([0.6, 0.0]))[0].count_nonzero() == 1


@pytest.mark.parametrize(
    ("driver", "told"),
    [(None, (False, True, False)), ("gelsy", (False, True, False)), ("gels", (True, False, False)),
     ("gelsd", (True, True, True)), ("gelss", (True, True, True))],
)  # fmt: skip
def test_each_driver_of_lstsq_tells_what_pytorch_s_does(
    driver: str | None, told: tuple[bool, ...]
) -> None:
    found = LA.lstsq(fd.eye(4, 2), fd.ones(4, 1), driver=driver)
    assert fd.equal(found.solution, fd.ones(2, 1))
    assert tuple(part.numel() > 0 for part in found[1:]) == told


def test_low_rank_approximations_find_what_is_of_low_rank() -> None:
    fd.manual_seed(0)
    for m, n in ((20, 12), (12, 20)):
        matrix = fd.randn(m, 4, dtype=fd.float64) @ fd.randn(4, n, dtype=fd.float64)
        u, values, v = fd.svd_lowrank(matrix, 5)
        assert u.shape == (m, 5) and v.shape == (n, 5)
        assert fd.allclose(u @ values.diag() @ v.mT, matrix)
        u, values, v = fd.pca_lowrank(matrix, 5)
        assert fd.allclose(u @ values.diag() @ v.mT, matrix - matrix.mean(0))


@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 1e3])
def test_the_exponential_of_a_turn_is_the_turn(size: float) -> None:
    turn = fd.tensor([[0.0, -size], [size, 0.0]], dtype=fd.float64)
    expected = [[np.cos(size), -np.sin(size)], [np.sin(size), np.cos(size)]]
    np.testing.assert_allclose(LA.matrix_exp(turn).numpy(), expected, atol=1e-14 * max(size, 10))


def test_the_exponential_of_what_is_not_finite_is_nan() -> None:
    assert LA.matrix_exp(NAN).isnan().all() and LA.matrix_exp(ONE / 0.0).isnan().any()


def test_results_are_written_into_out() -> None:
    q, r = fd.empty(0), fd.empty(0)
    found = LA.qr(fd.ones(3, 2), out=(q, r))
    assert found.Q is q and fd.allclose(q @ r, fd.ones(3, 2))


@pytest.mark.parametrize("name", sorted(LA.__all__))
def test_functions_are_pickled_by_the_names_that_users_type(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(LA, name))) is getattr(LA, name)


def test_singular_triangles_give_infinities_and_no_error() -> None:
    assert not LA.solve_triangular(ZERO, fd.ones(3, 1), upper=True).isfinite().any()


def test_tensors_have_pytorch_s_methods() -> None:
    matrix = fd.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert fd.allclose(matrix.inverse() @ matrix, fd.eye(2), atol=1e-6)
    assert matrix.det().item() == pytest.approx(5.0) and matrix.logdet().exp().item() == (
        pytest.approx(5.0)
    )
    assert fd.allclose(matrix.cholesky() @ matrix.cholesky().mT, matrix)
    assert fd.allclose(matrix.matrix_power(2), matrix @ matrix)
    assert fd.allclose(matrix.pinverse(), matrix.inverse(), atol=1e-6)
    assert fd.allclose(fd.norm(matrix, "nuc"), matrix.svd().S.sum())


@pytest.mark.parametrize("dtype", [fd.float64, fd.complex128])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("name", ["cholesky_solve", "cholesky_inverse"])
def test_gradients_by_a_factor_are_those_of_all_its_changes(
    name: str, upper: bool, dtype: Any
) -> None:
    """The gradient is that of the factor's product, which also has entries outside the triangle."""
    rng = np.random.default_rng(1)
    triangle = np.tril(rng.standard_normal((2, 3, 3)), -1) + 2 * np.eye(3)
    right = fd.tensor(rng.standard_normal((2, 3, 2))).to(dtype)
    if dtype.is_complex:
        triangle = triangle + 1j * np.tril(rng.standard_normal((2, 3, 3)), -1)
    start = fd.tensor(triangle.swapaxes(-1, -2) if upper else triangle, dtype=dtype)
    found = []
    for by_product in (False, True):
        factor = start.clone().requires_grad_()
        product = factor.mH @ factor if upper else factor @ factor.mH
        if name == "cholesky_inverse":
            value = LA.inv(product) if by_product else fd.cholesky_inverse(factor, upper)
        else:
            solved = LA.solve(product, right)
            value = solved if by_product else fd.cholesky_solve(right, factor, upper)
        (first,) = fd.autograd.grad(value[..., 0].abs().sum(), factor, create_graph=True)
        (second,) = fd.autograd.grad(first.abs().square().sum(), factor)
        found.append((value.detach(), first.detach(), second))
    assert (found[0][1].triu(1).abs() > 1e-3).any() and (found[0][1].tril(-1).abs() > 1e-3).any()
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.resolve_conj().numpy(), other.resolve_conj().numpy(), 1e-8)


@pytest.mark.parametrize("upper", [False, True])
def test_elements_that_a_solution_does_not_read_change_no_gradient(upper: bool) -> None:
    start = fd.tensor([[2.0, 0.5], [0.5, 3.0]])
    given, cleared = start.clone(), start.triu() if upper else start.tril()
    gradients = []
    for factor in (given.requires_grad_(), cleared.requires_grad_()):
        fd.cholesky_solve(fd.ones(2, 1), factor, upper).sum().backward()
        gradients.append(factor.grad.tolist())
    assert gradients[0] == gradients[1]


@pytest.mark.parametrize("name", ["float64", "complex128"])
@pytest.mark.parametrize("upper", ["L", "U"])
def test_the_gradient_of_eigenvectors_is_symmetric_though_one_triangle_is_read(
    name: str, upper: str
) -> None:
    # `expected` is PyTorch's result for the real matrix.
    matrix = fd.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], dtype=getattr(fd, name))
    if name == "complex128":
        phases = fd.polar(fd.ones(3).double(), fd.tensor([0.3, 1.1, -2.0]).double())
        matrix = phases[:, None] * matrix * phases.conj()
    leaf = matrix.clone().requires_grad_()
    LA.eigh(leaf, upper).eigenvectors.abs().square()[0, 0].backward()
    expected = [[-0.0332, 0.0481, -0.0556], [0.0481, -0.0149, -0.0074], [-0.0556, -0.0074, 0.0481]]
    found = leaf.grad
    if name == "complex128":
        found = phases.conj()[:, None] * found * phases
        assert found.imag.abs().max() < 1e-12
    np.testing.assert_allclose(found.real.numpy(), expected, atol=1e-4)


def test_a_loss_that_depends_on_the_phases_of_eigenvectors_is_refused() -> None:
    leaf = fd.tensor([[2.0, 1j], [-1j, 1.0]], requires_grad=True)
    vectors = LA.eigh(leaf).eigenvectors
    with pytest.raises(RuntimeError, match="linalg_eigh_backward: The eigenvectors in the complex"):
        (vectors[0, 0] * (1 + 2j)).imag.backward()


def test_a_power_of_0_has_a_gradient_of_0() -> None:
    leaf = fd.full((2, 2), 3.0, requires_grad=True)
    LA.matrix_power(leaf, 0).sum().backward()
    assert leaf.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_vander_of_one_number_is_a_matrix_of_one_row() -> None:
    assert LA.vander(fd.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]


def test_lu_writes_into_out() -> None:
    out = (fd.empty(3, 3), fd.empty(3, dtype=fd.int32))
    with_out, plain = fd.lu(PAIR[1], out=out), fd.lu(PAIR[1])
    assert with_out[0] is out[0] and with_out[1] is out[1]
    assert out[0].equal(plain[0]) and out[1].equal(plain[1])


@pytest.mark.parametrize("norm", [0.5, 3.0, 30.0])
def test_matrix_exp_loses_little_in_single_precision(norm: float) -> None:
    A = fd.linspace(-1.0, 1.0, 25, dtype=fd.float64).reshape(5, 5).cos()
    A = (A * (norm / A.abs().sum(-1).amax())).float()
    exact = LA.matrix_exp(A.double())
    assert ((LA.matrix_exp(A) - exact).abs().amax() / exact.abs().amax()).item() < 3e-6


def test_triangular_solve_and_slice_scatter_write_into_out() -> None:
    triangle, right = fd.tensor([[2.0, 1.0], [0.0, 4.0]]), fd.tensor([[4.0], [8.0]])
    out = (fd.empty(2, 1), fd.empty(2, 2))
    assert fd.triangular_solve(right, triangle, out=out)[0] is out[0]
    assert out[0].tolist() == [[1.0], [2.0]] and out[1].equal(triangle)
    into = fd.empty(2, 2)
    assert fd.slice_scatter(triangle, right, 1, 1, 2, out=into) is into
    assert into.tolist() == [[2.0, 4.0], [0.0, 8.0]]


def test_ormqr_takes_reflections_of_a_wide_matrix() -> None:
    wide = fd.linspace(-1.0, 1.0, 10, dtype=fd.float64).reshape(2, 5).cos()
    other = fd.linspace(0.0, 1.0, 6, dtype=fd.float64).reshape(2, 3)
    compact, scales = fd.geqrf(wide)
    Q, R = LA.qr(wide)
    assert compact.triu().allclose(R)
    assert fd.ormqr(compact, scales, other).allclose(Q @ other)
    assert fd.ormqr(compact, scales, other, transpose=True).allclose(Q.mT @ other)


def test_lstsq_of_complex_matrices_tells_real_numbers_besides() -> None:
    matrix, right = (fd.ones(3, 2) + fd.eye(3, 2)) * (1 + 1j), fd.ones(3, 1) * 1j
    for driver in ("gelsy", "gels", "gelsd"):
        found = LA.lstsq(matrix, right, driver=driver)
        dtypes = [found.solution.dtype, found.residuals.dtype, found.singular_values.dtype]
        assert dtypes == [fd.complex64, fd.float32, fd.float32]


def test_lstsq_and_tensordot_write_into_out() -> None:
    matrix, right = fd.tensor([[2.0, 0.0], [0.0, 4.0]]), fd.tensor([[2.0], [8.0]])
    out = (fd.empty(0), fd.empty(0), fd.empty(0, dtype=fd.int64), fd.empty(0))
    assert LA.lstsq(matrix, right, out=out)[0] is out[0]
    assert out[0].allclose(fd.tensor([[1.0], [2.0]])) and out[2].item() == 2
    into = fd.empty(2, 1)
    assert fd.tensordot(matrix, right, 1, out=into) is into
    assert into.tolist() == [[4.0], [32.0]]


def test_lu_unpack_does_not_look_at_pivots_that_it_is_not_asked_for() -> None:
    permuted, lower, upper = fd.lu_unpack(ONE, PIVOTS[0], unpack_pivots=False)
    assert permuted.numel() == 0 and (lower @ upper).allclose(ONE)
