"""Matrix products and factorisations on the CPU."""
