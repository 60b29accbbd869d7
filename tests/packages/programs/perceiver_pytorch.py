"""A step of a Perceiver of perceiver-pytorch."""

import torch
from data import fill, random, report
from perceiver_pytorch import Perceiver

model = fill(
    Perceiver(
        num_freq_bands=3,
        depth=2,
        max_freq=4.0,
        input_channels=2,
        input_axis=2,
        num_latents=4,
        latent_dim=8,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=4,
        latent_dim_head=4,
        num_classes=5,
    )
)
out = model(random(2, 6, 6, 2))
torch.nn.functional.cross_entropy(out, torch.tensor([1, 3])).backward()
report(out=out, grads=[p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None])
