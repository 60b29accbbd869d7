"""Matrix products and factorisations, on CUDA arrays."""
