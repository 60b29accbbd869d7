"""An FT-Transformer of rtdl_revisiting_models on numbers and categories."""

import torch
from data import fill, random, report
from rtdl_revisiting_models import FTTransformer

options = FTTransformer.get_default_kwargs(n_blocks=1)
model = fill(FTTransformer(n_cont_features=3, cat_cardinalities=[4, 5], d_out=2, **options)).eval()
out = model(random(4, 3), torch.tensor([[0, 1], [3, 4], [2, 2], [1, 0]]))
out.square().mean().backward()
report(out=out, grads=[p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None])
