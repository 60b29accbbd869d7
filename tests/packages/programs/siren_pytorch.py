"""A SIREN of siren-pytorch that learns an image."""

from data import fill, random, report
from siren_pytorch import SirenNet, SirenWrapper

model = SirenNet(dim_in=2, dim_hidden=8, dim_out=3, num_layers=2, w0_initial=5.0)
wrapped = SirenWrapper(fill(model), image_width=4, image_height=4)
loss = wrapped(random(1, 3, 4, 4).sigmoid())
loss.backward()
report(loss=loss, grads=[p.grad.abs().sum().item() for p in model.parameters()], image=wrapped())
