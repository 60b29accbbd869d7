"""Learning rates of pytorch-warmup's schedules."""

import pytorch_warmup
import torch
from data import fill, random, report

model = fill(torch.nn.Linear(3, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
warmup = pytorch_warmup.UntunedLinearWarmup(optimizer)
rates = []
for _ in range(8):
    optimizer.zero_grad()
    model(random(4, 3)).square().mean().backward()
    optimizer.step()
    rates.append(optimizer.param_groups[0]["lr"])
    with warmup.dampening():
        schedule.step()
report(rates=rates, weight=model.weight)
