"""Random numbers: a seed and a position in its stream decide every one, on every device.

`philox.py` computes the stream, `generator.py` holds a seed and how much of its stream is used,
`rejection.py` draws gamma, Poisson and binomial numbers. PyTorch's module of these names is
`fastdist.random`. `torch.random` needs tensors and devices, which lie above this package, so the
two are separate modules.
"""
