"""Linear algebra: products, einsum, factorizations, eigenvalues, solvers, matrix norms."""
