"""Ops of neural networks: activations, convolutions, pooling, normalisation, attention, losses."""
