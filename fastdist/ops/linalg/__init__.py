"""Linear algebra: products, einsum, factorisations, eigenvalues, solvers, matrix norms."""
