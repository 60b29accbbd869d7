"""Likelihoods of a neural spline flow of zuko, and its inverse."""

import zuko
from data import fill, random, report

flow = fill(zuko.flows.NSF(2, 1, transforms=2, hidden_features=(8,)))
x, context = random(6, 2).tanh(), random(6, 1, seed=2)
likelihood = flow(context).log_prob(x)
likelihood.mean().backward()
transform = flow(context).transform
report(
    likelihood=likelihood,
    back=transform.inv(transform(x)),
    grads=[p.grad.abs().sum().item() for p in flow.parameters()],
)
