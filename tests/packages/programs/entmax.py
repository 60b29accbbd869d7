"""Sparse softmax functions of entmax and their gradients."""

import entmax
from data import random, report

x = random(4, 7).requires_grad_()
out = entmax.entmax15(x) + entmax.sparsemax(x) + entmax.entmax_bisect(x, alpha=1.3)
(out * random(4, 7, seed=2)).sum().backward()
report(out=out, grad=x.grad)
