"""Random numbers: each number depends only on a seed and a position in the stream, on all devices.

`philox.py` computes the stream. `generator.py` has Generator: a seed and the used length of the
seed's stream. `rejection.py` draws gamma, Poisson and binomial numbers. The public module with
PyTorch's names is `fastdist.random`. It is outside this package because it needs tensors and
devices, which are in a higher layer.
"""
