"""Rearrange, reduce and contract with einops, and differentiate through it."""

from data import random, report
from einops import einsum, rearrange, reduce, repeat

x = random(2, 3, 4).requires_grad_()
y = reduce(rearrange(x, "b (h w) c -> b c h w", h=1), "b c h w -> b c", "max")
z = einsum(y, repeat(random(4), "c -> k c", k=5), "b c, k c -> b k")
z.sum().backward()
report(z=z, grad=x.grad)
