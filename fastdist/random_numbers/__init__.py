"""Random numbers: each number depends only on a seed and a position in the stream, on all devices.

`philox.py` computes the stream. `generator.py` has Generator: a seed and the used length of its
stream. `rejection.py` draws gamma, Poisson and binomial numbers. PyTorch's module of these names is
`fastdist.random`: it needs tensors and devices, which are in a layer above this package.
"""
