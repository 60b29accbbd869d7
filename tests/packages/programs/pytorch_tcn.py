"""A temporal convolutional network of pytorch-tcn: forward, backward, and streaming."""

from data import fill, random, report
from pytorch_tcn import TCN

model = fill(TCN(num_inputs=3, num_channels=[4, 5], kernel_size=2, dropout=0.0, causal=True))
x = random(2, 3, 12)
out = model(x)
out.square().mean().backward()
report(out=out, grads=[p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None])
