"""Index, stack and map over tensors in a tensordict, and run a module that reads it."""

import torch
from data import fill, random, report
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

given = TensorDict({"x": random(6, 4), "inner": {"y": random(6, 2, seed=2)}}, [6])
model = TensorDictModule(fill(torch.nn.Linear(4, 2)), in_keys=["x"], out_keys=["z"])
model(given)
mapped = torch.vmap(lambda one: one["inner", "y"].sum() + one["z"].sum())(given)
stacked = torch.stack([given[:2], given[2:4]])
report(z=given["z"], mapped=mapped, stacked=stacked["inner", "y"], sizes=list(stacked.batch_size))
