"""A learning rate range test of torch-lr-finder."""

import torch
from data import fill, random, report
from torch.utils.data import DataLoader, TensorDataset
from torch_lr_finder import LRFinder

model = fill(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)))
loader = DataLoader(TensorDataset(random(16, 3), random(16, 1, seed=2)), batch_size=4)
finder = LRFinder(model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.nn.MSELoss())
finder.range_test(loader, end_lr=1, num_iter=12)
report(rates=finder.history["lr"], losses=finder.history["loss"])
