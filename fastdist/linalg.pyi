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
    """Return the lower triangular L with L @ L.mH = input, or the upper triangular U with
    U.mH @ U = input if upper is true.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if input is not positive-definite
    """
def cholesky_ex(input: Tensor, *, upper: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_cholesky_ex:
    """Return (L, info). For a matrix that is not positive-definite, L is NaN and info is the order
    of the first leading minor that is not positive-definite.
    """
def cond(input: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Return the condition number: the norm of input times the norm of its inverse. If p is None or
    2, the condition number is the largest singular value divided by the smallest; if p is -2, the
    smallest divided by the largest.

    Shape   (..., m, n) -> (...); for other values of p, the matrices must be square
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
    """Return (eigenvalues, eigenvectors) of square matrices, in no particular order. Eigenvectors
    are columns of length 1.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Dtype   float32 -> complex64, float64 -> complex128; complex -> the same
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the phase of each eigenvector; gradients must not depend on this phase
    """
def eigh(input: Tensor, UPLO: str = 'L', *, out: Any = None) -> return_types.linalg_eigh:
    """Return (eigenvalues, eigenvectors) of symmetric or Hermitian matrices. Only the lower ("L")
    or the upper ("U") triangle is read. Eigenvalues ascend; eigenvectors are columns.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the sign or phase of each vector; gradients must not depend on it
    """
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of square matrices, in no particular order; see eig.

    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
def eigvalsh(input: Tensor, UPLO: str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Return the eigenvalues of symmetric matrices, in ascending order; see eigh.

    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first n columns of the product of the reflections I - tau[i] * v[i] @ v[i].H.
    Vector v[i] equals column i of input below the diagonal; it is 1 on the diagonal and 0 above.

    Shape   (..., m, n), (..., k) -> (..., m, n), k <= n <= m
    """
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of square matrices.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if A is singular
    Note    linalg.solve(A, B) is faster and more precise than inv(A) @ B
    """
def inv_ex(A: Tensor, *, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_inv_ex:
    """Return (inverse, info). For a singular A, the inverse is NaN and info is the number of the
    first pivot that is 0.
    """
def ldl_factor(A: Tensor, *, hermitian: builtins.bool = False, out: Any = None) -> return_types.linalg_ldl_factor:
    """Return (LD, pivots) with A = L @ D @ L.mT. With hermitian=True, a complex A is L @ D @ L.mH.
    LD holds the blocks of D and, below these blocks, L without its diagonal of ones. The pivots
    have LAPACK's format. Only the lower triangle of A is read.

    Shape   (..., n, n) -> (..., n, n), (..., n) of int32
    Raises  RuntimeError if a pivot is 0
    Note    this function has no derivative, as in PyTorch
    """
def ldl_factor_ex(A: Tensor, *, hermitian: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_ldl_factor_ex:
    """Return (LD, pivots, info), with LD and pivots of ldl_factor. info is the number of the first
    zero pivot, counted from 1, or 0 if no pivot is zero.
    """
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = B, given the results of ldl_factor for A.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    Raises  RuntimeError for invalid pivots on the CPU. Pivots on a GPU are not checked, because a
            check would wait for the GPU; if they are invalid, the result is NaN
    """
def lstsq(input: Tensor, b: Tensor, rcond: builtins.float | None = None, *, driver: str | None = None, out: Any = None) -> return_types.linalg_lstsq:
    """Return (solution, residuals, rank, singular_values). The solution is the X of smallest norm
    that minimizes the distance of input @ X from b; residuals are the squared distances.

    Shape   (..., m, n), (..., m, k) -> (..., n, k), (..., k) or empty, (...), (..., min(m, n)) or
            empty; b may be a vector, or a batch of vectors
    Note    all drivers compute the solution from singular values. They differ in the other results,
            as in PyTorch: "gelsd" and "gelss" return all results, "gels" returns no rank and no
            singular values, "gelsy" (the default) no residuals and no singular values. Residuals
            are computed only for m > n and full rank
    """
def lu(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> return_types.linalg_lu:
    """Return (P, L, U) with A = P @ L @ U: a permutation matrix, a lower triangular matrix with
    ones on its diagonal, and an upper triangular matrix.

    Shape   (..., m, n) -> (..., m, m), (..., m, k), (..., k, n) for k = min(m, n)
    """
def lu_factor(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> return_types.linalg_lu_factor:
    """Return (LU, pivots) with A = P @ L @ U. LU holds L (without its diagonal of ones) and U in
    one matrix. For each row, pivots holds the number of the row with which that row was
    interchanged, counted from 1.

    Shape   (..., m, n) -> (..., m, n), (..., min(m, n)) of int32
    Raises  RuntimeError if a pivot is 0
    """
def lu_factor_ex(A: Tensor, *, pivot: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_lu_factor_ex:
    """Return (LU, pivots, info). info is the number of the first zero pivot, counted from 1, or 0
    if no pivot is zero.
    """
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: builtins.bool = True, adjoint: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = B, or with X @ A = B if `left` is false. LU and pivots are the results
    of lu_factor for A. If `adjoint` is true, A.mH replaces A in the equation.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    """
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the matrix product; an alias of matmul."""
def matrix_exp(input: Tensor) -> Tensor:
    """Return the sum of input**k / k! over all k.

    Shape   (..., n, n) -> (..., n, n)
    Source  Higham 2005, "The scaling and squaring method for the matrix exponential revisited"
    """
def matrix_norm(input: Tensor, ord: Any = 'fro', dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the norm of matrices along two axes. `ord` is "fro", "nuc", 1, 2 or inf, or -1, -2 or
    -inf, which use the smallest sum or singular value instead of the largest.

    Shape   (..., m, n) -> (...)
    """
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th power of each matrix. For n < 0 this is the power -n of the inverse matrix.

    Shape   (..., k, k) -> (..., k, k)
    Raises  LinAlgError for n < 0 if input is singular
    """
def matrix_rank(input: Tensor, tol: Any = None, hermitian: builtins.bool = False, *, atol: Scalar | None = None, rtol: Scalar | None = None, out: Tensor | None = None) -> Tensor:
    """Return the number of singular values that exceed atol and rtol times the largest of them.

    Shape   (..., m, n) -> (...) of int64
    Note    atol and rtol have the same defaults as in linalg.pinv; tol is NumPy's name for atol
    """
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Return the product of several matrices, computed in the order with the fewest
    multiplications. The first and the last tensor may be vectors.
    """
def norm(input: Tensor, ord: Any = None, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the vector norm of order 2 if ord is None. Otherwise return norms of matrices along
    two axes, or norms of vectors along one axis; see matrix_norm and vector_norm.

    Raises  RuntimeError if input is neither floating-point nor complex, or ord does not fit the
            axes; IndexError if dim is out of range

    Args:
        input: A tensor of vectors or matrices.
        ord: The order: None, a number, inf, -inf, "fro" or "nuc".
        dim: The axis of vectors, or the two axes of matrices; all axes if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
def pinv(input: Tensor, rcond: Any = None, hermitian: builtins.bool = False, *, atol: Scalar | None = None, rtol: Scalar | None = None, out: Tensor | None = None) -> Tensor:
    """Return the pseudoinverse. Singular values count as 0 if they are at most atol, or at most
    rtol times the largest singular value. By default, atol is 0, and rtol is the dtype's epsilon
    times the larger of m and n. If an atol above 0 is given, rtol is 0 by default.

    Shape   (..., m, n) -> (..., n, m)
    Note    if `hermitian` is true, only the lower triangle of input is read; rcond is NumPy's name
            for rtol
    """
def qr(A: Tensor, mode: str = 'reduced', *, out: Any = None) -> return_types.linalg_qr:
    """Return (Q, R) with A = Q @ R, where Q has orthonormal columns and R is upper triangular.

    Shape   (..., m, n) -> (..., m, k), (..., k, n), where k is min(m, n), or m for mode "complete".
            For mode "r", Q is empty
    """
def slogdet(A: Tensor, *, out: Any = None) -> return_types.linalg_slogdet:
    """Return (sign, logabsdet). For a singular matrix, the sign is 0 and logabsdet is -inf.

    Shape   (..., n, n) -> (...), (...)
    """
def solve(A: Tensor, B: Tensor, *, left: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = B, or with X @ A = B if `left` is false.

    Shape   (..., n, n), (..., n, k) -> (..., n, k), and batch axes broadcast. B may also be a
            vector (n), or a batch of vectors (..., n) with the batch axes of A: -> (..., n)
    Raises  LinAlgError if A is singular
    """
def solve_ex(A: Tensor, B: Tensor, *, left: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> return_types.linalg_solve_ex:
    """Return (X, info). For a singular A, X is NaN and info is the number of a pivot that is 0."""
def solve_triangular(A: Tensor, B: Tensor, *, upper: builtins.bool, left: builtins.bool = True, unitriangular: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = B for a triangular A, or with X @ A = B if `left` is false. The other
    triangle of A is not read.

    Shape   (..., n, n), (..., n, k) -> (..., n, k); batch axes broadcast
    Note    a 0 on the diagonal gives inf and NaN, and raises no error
    """
def svd(A: Tensor, full_matrices: builtins.bool = True, *, driver: str | None = None, out: Any = None) -> return_types.linalg_svd:
    """Return (U, S, Vh) with A = U @ diag(S) @ Vh, and singular values S in descending order.

    Shape   (..., m, n) -> (..., m, m), (..., k), (..., n, n) for k = min(m, n);
            (..., m, k), (..., k), (..., k, n) for full_matrices=False
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the signs of vectors; gradients must not depend on these signs

    Args:
        A: A matrix, or a batch of matrices.
        full_matrices: Whether U and Vh are square.
        driver: Must be None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return the singular values, in descending order.

    Shape   (..., m, n) -> (..., min(m, n))
    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
def tensorinv(input: Tensor, ind: builtins.int = 2, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of input as a matrix: the first `ind` axes of input index the matrix's
    rows, and the other axes its columns.

    Raises  LinAlgError if that matrix is singular
    """
def tensorsolve(input: Tensor, other: Tensor, dims: Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return X with tensordot(input, X, X.ndim) = other. Before that, the axes `dims` of input
    become its last axes.

    Raises  LinAlgError if input, reshaped to a square matrix, is singular
    """
def vander(x: Tensor, *, N: builtins.int | None = None) -> Tensor:
    """Return the first N powers of each element, from x**0 on; N is the length of x by default.

    Shape   (..., n) -> (..., n, N)
    """
def vecdot(x: Tensor, y: Tensor, *, dim: builtins.int = -1, out: Tensor | None = None) -> Tensor:
    """Return the sum of conj(x) * y along dim; other axes broadcast."""
def vector_norm(input: Tensor, ord: builtins.float = 2, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return (sum of |x|**ord)**(1/ord) over dim, by default over all axes. If `ord` is inf, the
    norm is the maximum of |x|; if -inf, the minimum; if 0, the number of nonzero elements.

    Note    at 0, the gradient of a Euclidean norm n is 0, and second derivatives are correct for
            functions that are smooth in n**2 and NaN for other functions. Forward mode supports
            n**2, n.square() and functions of these, unless a gradient is recorded with create_graph
    Raises  RuntimeError if input is neither floating-point nor complex; IndexError if dim is out of
            range

    Args:
        input: A floating-point or complex tensor of any shape. The result is real.
        ord: The order, any real number, inf or -inf; 2 is the Euclidean norm. Without elements, the
            norm is 0, and negative and infinite orders raise an error.
        dim: The axis or axes; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]), ord=1)
        tensor(7.)
    """
from .core.errors import LinAlgError as LinAlgError
