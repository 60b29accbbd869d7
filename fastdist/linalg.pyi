# The functions of fastdist.linalg. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from .core.device import Device
from .core.dtypes import DType
from .random_numbers.generator import Generator
from .core.memory_format import MemoryFormat, MemoryLayout
from .ops import return_types
from .tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number
from .tensor.methods import Operand, Scalar, Sizes
from .tensor.layout import Size
from .tensor.tensor import Tensor

def cholesky(input: Tensor, *, upper: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the lower triangle L of which L @ L.mH is input, or the upper one U of U.mH @ U.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if input is not positive-definite
    """
def cholesky_ex(input: Tensor, *, upper: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_cholesky_ex:
    """Return (L, info): of a matrix that is not positive-definite L is NaN, and info the order of
    the leading minor that shows it.
    """
def cond(input: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Return the condition number: the norm of input times that of its inverse; for None and 2 the
    largest singular value over the smallest, for -2 the other way round.

    Shape   (..., m, n) -> (...); square but for those three
    """
def cross(input: Tensor, other: Tensor, *, dim: builtins.int = -1, out: Tensor | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim; other axes broadcast."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the determinant.

    Shape   (..., n, n) -> (...)
    """
def diagonal(A: Tensor, *, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """Return a view of the diagonals of matrices along dim1 and dim2."""
def eig(input: Tensor, *, out: Any = None) -> return_types.linalg_eig:
    """Return (eigenvalues, eigenvectors) of square matrices, in no particular order: vectors are
    columns of length 1.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Dtype   float32 -> complex64, float64 -> complex128; complex -> the same
    Raises  LinAlgError if they are not found, such as of NaN
    Note    a vector's phase is LAPACK's choice; gradients must not depend on it
    """
def eigh(input: Tensor, UPLO: str = 'L', *, out: Any = None) -> return_types.linalg_eigh:
    """Return (eigenvalues, eigenvectors) of symmetric matrices, or Hermitian complex ones, of which
    the lower ("L") or the upper ("U") triangle is read: values ascending, vectors as columns.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Raises  LinAlgError if they are not found, such as of NaN
    Note    a vector's sign, or phase, is LAPACK's choice; gradients must not depend on it
    """
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of square matrices, in no particular order; see eig.

    Raises  LinAlgError if they are not found, such as of NaN
    """
def eigvalsh(input: Tensor, UPLO: str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of symmetric matrices, ascending; see eigh.

    Raises  LinAlgError if they are not found, such as of NaN
    """
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first columns of the product of reflections I - tau[i] * v[i] @ v[i].H; v[i] is
    column i of input below the diagonal, with a 1 on it.

    Shape   (..., m, n), (..., k) -> (..., m, n), k <= n <= m
    """
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if A is singular
    Note    linalg.solve(A, B) is faster and closer than inv(A) @ B
    """
def inv_ex(A: Tensor, *, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_inv_ex:
    """Return (inverse, info): where A is singular the inverse is NaN, and info the number of the
    first pivot that is 0.
    """
def ldl_factor(A: Tensor, *, hermitian: builtins.bool = False, out: Any = None) -> return_types.linalg_ldl_factor:
    """Return (LD, pivots) of A = L @ D @ L.mT, or of a complex A = L @ D @ L.mH if hermitian: L,
    less its diagonal of ones, with the blocks of D, and LAPACK's pivots. The lower triangle of A
    is read.

    Shape   (..., n, n) -> (..., n, n), (..., n) of int32
    Raises  RuntimeError if there is a pivot that is 0
    Note    it has no derivative, as in PyTorch
    """
def ldl_factor_ex(A: Tensor, *, hermitian: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_ldl_factor_ex:
    """Return (LD, pivots, info) as ldl_factor; info is the number of the first pivot that is 0, or
    0.
    """
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the X of A @ X = B by what ldl_factor returns of A.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    Raises  RuntimeError for pivots that ldl_factor does not return; on a device, which is not
            waited for, the result is NaN then
    """
def lstsq(input: Tensor, b: Tensor, rcond: builtins.float | None = None, *, driver: str | None = None, out: Any = None) -> return_types.linalg_lstsq:
    """Return (solution, residuals, rank, singular_values): the shortest X by which input @ X is
    nearest to b, and the squared distances.

    Shape   (..., m, n), (..., m, k) -> (..., n, k), (..., k) or empty, (...), (..., min(m, n)) or
            empty; b may be a vector, or a batch of them
    Note    every driver goes by singular values; they differ in what they tell besides, as in
            PyTorch: "gelsy" (the default) no residuals, "gels" no rank, "gelsd" and "gelss" all.
            Residuals are there for m > n and full rank
    """
def lu(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> return_types.linalg_lu:
    """Return (P, L, U) of A = P @ L @ U: a permutation, a lower triangle with ones on its diagonal,
    and an upper one.

    Shape   (..., m, n) -> (..., m, m), (..., m, k), (..., k, n) for k = min(m, n)
    """
def lu_factor(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> return_types.linalg_lu_factor:
    """Return (LU, pivots): L, less its diagonal of ones, and U of A = P @ L @ U in one matrix, and
    the row, from 1, with which each was swapped.

    Shape   (..., m, n) -> (..., m, n), (..., min(m, n)) of int32
    Raises  RuntimeError if there is a pivot that is 0
    """
def lu_factor_ex(A: Tensor, *, pivot: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_lu_factor_ex:
    """Return (LU, pivots, info); info is the number of the first pivot that is 0, or 0."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: builtins.bool = True, adjoint: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the X of A @ X = B (of X @ A = B, or of A.mH) by what lu_factor returns of A.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    """
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the matrix product; see matmul."""
def matrix_exp(input: Tensor) -> Tensor:
    """Return the sum of input**k / k! over all k.

    Shape   (..., n, n) -> (..., n, n)
    Source  Higham 2005, "The scaling and squaring method for the matrix exponential revisited"
    """
def matrix_norm(input: Tensor, ord: Any = 'fro', dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the norm of matrices along two axes: "fro", "nuc", or 1, 2, inf and, for the smallest
    instead of the largest, -1, -2, -inf.

    Shape   (..., m, n) -> (...)
    """
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return input times itself, n times; for n < 0 that of its inverse.

    Shape   (..., k, k) -> (..., k, k)
    Raises  LinAlgError for n < 0 if input is singular
    """
def matrix_rank(input: Tensor, tol: Any = None, hermitian: builtins.bool = False, *, atol: Scalar | None = None, rtol: Scalar | None = None, out: Tensor | None = None) -> Tensor:
    """Return how many singular values are above the larger of atol and rtol times the largest.

    Shape   (..., m, n) -> (...) of int64
    Note    defaults are those of linalg.pinv; tol is NumPy's word for atol
    """
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices, in the order that takes the fewest multiplications; the first
    and the last may be vectors.
    """
def norm(input: Tensor, ord: Any = None, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the vector norm of order 2 without ord; with one, the norm of matrices along two
    axes, of vectors along one; see matrix_norm and vector_norm.

    Args:
        input: A tensor of vectors or matrices.
        ord: The order: None, a number, inf, -inf, "fro" or "nuc".
        dim: The axis of vectors, or the two of matrices; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in.

    Example:
        >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
def pinv(input: Tensor, rcond: Any = None, hermitian: builtins.bool = False, *, atol: Scalar | None = None, rtol: Scalar | None = None, out: Tensor | None = None) -> Tensor:
    """Return the pseudoinverse; singular values not above the larger of atol (0) and rtol (the
    dtype's epsilon times the longer side; 0 with an atol) times the largest count as 0.

    Shape   (..., m, n) -> (..., n, m)
    Note    of a hermitian input the lower triangle is read; rcond is NumPy's word for rtol
    """
def qr(A: Tensor, mode: str = 'reduced', *, out: Any = None) -> return_types.linalg_qr:
    """Return (Q, R) of A = Q @ R: orthonormal columns and an upper triangle.

    Shape   (..., m, n) -> (..., m, k), (..., k, n) for k = min(m, n), or m for mode "complete"; Q
            is empty for mode "r"
    """
def slogdet(A: Tensor, *, out: Any = None) -> return_types.linalg_slogdet:
    """Return (sign, logabsdet): of a singular matrix 0 and -inf.

    Shape   (..., n, n) -> (...), (...)
    """
def solve(A: Tensor, B: Tensor, *, left: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    """Return the X of A @ X = B, or of X @ A = B.

    Shape   (..., n, n), (..., n, k) -> (..., n, k), batch axes broadcast; (..., n, n), (n) or
            (..., n) of A's batch -> (..., n)
    Raises  LinAlgError if A is singular
    """
def solve_ex(A: Tensor, B: Tensor, *, left: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_solve_ex:
    """Return (X, info): where A is singular X is NaN and info the number of a pivot that is 0."""
def solve_triangular(A: Tensor, B: Tensor, *, upper: builtins.bool, left: builtins.bool = True, unitriangular: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the X of A @ X = B, or of X @ A = B, for a triangle A; the rest of it is not read.

    Shape   (..., n, n), (..., n, k) -> (..., n, k); batch axes broadcast
    Note    a diagonal with a 0 gives inf and NaN, and no error
    """
def svd(A: Tensor, full_matrices: builtins.bool = True, *, driver: str | None = None, out: Any = None) -> return_types.linalg_svd:
    """Return (U, S, Vh) of A = U @ diag(S) @ Vh, singular values descending.

    Shape   (..., m, n) -> (..., m, m), (..., k), (..., n, n) for k = min(m, n);
            (..., m, k), (..., k), (..., k, n) of full_matrices=False
    Raises  LinAlgError if they are not found, such as of NaN
    Note    signs of vectors are LAPACK's choice; gradients must not depend on them

    Args:
        A: A matrix, or a batch of them.
        full_matrices: Whether U and Vh are square.
        driver: Ignored.

    Example:
        >>> torch.linalg.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return the singular values, descending.

    Shape   (..., m, n) -> (..., min(m, n))
    Raises  LinAlgError if they are not found, such as of NaN
    """
def tensorinv(input: Tensor, ind: builtins.int = 2, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of input seen as a matrix whose rows are its first ind axes.

    Raises  LinAlgError if that is singular
    """
def tensorsolve(input: Tensor, other: Tensor, dims: Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the X of tensordot(input, X, X.ndim) = other; dims are axes of input to be its
    last.

    Raises  LinAlgError if input, seen as a matrix, is singular
    """
def vander(x: Tensor, *, N: builtins.int | None = None) -> Tensor:
    """Return the powers of each element, from x**0 on, N of them, as many as x has unless told.

    Shape   (..., n) -> (..., n, N)
    """
def vecdot(x: Tensor, y: Tensor, *, dim: builtins.int = -1, out: Tensor | None = None) -> Tensor:
    """Return the sum of conj(x) * y along dim; other axes broadcast."""
def vector_norm(input: Tensor, ord: builtins.float = 2, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return (sum of |x|**ord)**(1/ord) over dim, by default all axes; ord inf is the largest |x|,
    -inf the smallest, 0 the count of nonzero ones.

    Note    at 0 the gradient of a euclidean norm is 0; second derivatives there are those of
            functions that are smooth in the square of the norm, and NaN for other functions.
            Forward mode knows them for n**2, n.square() and functions of these, unless a gradient
            is recorded with create_graph

    Args:
        input: The tensor.
        ord: The order.
        dim: The axis or axes; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in.

    Example:
        >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]), ord=1)
        tensor(7.)
    """
from .core.errors import LinAlgError as LinAlgError
