"""Train with Accelerate: prepared model, optimizer and loader, clipped gradients."""

import torch
from accelerate import Accelerator
from data import fill, random, report

accelerator = Accelerator(cpu=True)
model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(random(12, 4), random(12, 1, seed=2))
loader = torch.utils.data.DataLoader(data, batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, weight=accelerator.unwrap_model(model)[0].weight)
