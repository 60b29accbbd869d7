"""Jobs over four processes, as PyTorch's users write them: each maker returns a step.

Both libraries run the same source: `import torch` is PyTorch in one group of processes, and
fastdist in the other. A maker runs on w0 and sets up the job over w1 to w3. It returns a function
that does one step and returns the step's loss. Weights and data come from NumPy, so both libraries
compute the same numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.distributed.autograd as dist_autograd
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

from .same_numbers import draw

Step = Callable[[], float]


def labels(n: int, classes: int, seed: int = 9) -> Any:
    """Return n random classes."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, classes, n))


def mlp(*sizes: int, seed: int = 0, last: bool = True) -> Any:
    """Return linear layers with ReLU between them; `last` omits the ReLU after the last layer."""
    layers: list[Any] = []
    for place, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = nn.Linear(inputs, outputs)
        with torch.no_grad():
            weight = draw(outputs, inputs, seed=seed + place, scale=inputs**-0.5)
            linear.weight.copy_(weight)
            linear.bias.zero_()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if last else layers))


class Part(nn.Module):
    """Layers of a model on the worker that owns them."""

    def __init__(self, *sizes: int, seed: int = 0, last: bool = True) -> None:
        super().__init__()
        self.layers = mlp(*sizes, seed=seed, last=last)

    def forward(self, x: Any) -> Any:
        """Return the layers' result for x."""
        return self.layers(x)

    def forward_of(self, reference: Any) -> Any:
        """Return the layers' result for the value of a reference."""
        return self.layers(reference.to_here())

    def parameter_rrefs(self) -> list[Any]:
        """Return references to the parameters."""
        return [rpc.RRef(parameter) for parameter in self.parameters()]


def parameters_of(*parts: Any) -> list[Any]:
    """Return references to the parameters of parts on other workers."""
    return [rref for part in parts for rref in part.rpc_sync().parameter_rrefs()]


def trained(loss_of: Callable[[], Any], optimizer: Any) -> Step:
    """Return a function that makes one step: a forward and a backward pass in a context, and the
    optimizer's step.
    """

    def step() -> float:
        with dist_autograd.context() as context_id:
            loss = loss_of()
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        return float(loss.item())

    return step


def split_model(sizes: tuple[int, ...], cut: int, batch: int, **settings: float) -> Step:
    """Train a perceptron whose layers are split over two workers, as in PyTorch's tutorials."""
    first = rpc.remote("w1", Part, sizes[: cut + 1], {"last": False})
    second = rpc.remote("w2", Part, sizes[cut:], {"seed": 5})
    optimizer = DistributedOptimizer(optim.SGD, parameters_of(first, second), **settings)
    x, y = draw(batch, sizes[0], seed=8), labels(batch, sizes[-1])

    def loss_of() -> Any:
        hidden = first.rpc_sync().forward(x)
        return F.cross_entropy(second.rpc_sync().forward(hidden), y)

    return trained(loss_of, optimizer)


def demo() -> Step:
    """Train the model of `fastdist demo`."""
    return split_model((64, 64, 64, 10), 2, 32, lr=0.1)


def model_parallel() -> Step:
    """Train a larger split model, with momentum."""
    return split_model((256, 512, 512, 10), 1, 64, lr=0.02, momentum=0.9)


def pipeline(parts: int) -> Callable[[], Step]:
    """Train two pipeline stages with `parts` micro-batches, which are passed as references."""

    def make() -> Step:
        first = rpc.remote("w1", Part, (128, 512, 256), {"last": False})
        second = rpc.remote("w2", Part, (256, 512, 10), {"seed": 5})
        optimizer = DistributedOptimizer(optim.SGD, parameters_of(first, second), lr=0.05)
        x, y = draw(256, 128, seed=8), labels(256, 10)

        def loss_of() -> Any:
            out = []
            for part in x.chunk(parts):
                between = first.remote().forward_of(rpc.RRef(part))
                out.append(second.rpc_async().forward_of(between))
            return F.cross_entropy(torch.cat([each.wait() for each in out]), y)

        return trained(loss_of, optimizer)

    return make


# ---- parameter servers --------------------------------------------------------------------------


def loss_at(server: Any, x: Any, y: Any) -> Any:
    """Return a trainer's loss with the server's model, summed over the trainer's batch."""
    return F.cross_entropy(server.rpc_sync().forward(x), y, reduction="sum")


def parameter_server() -> Step:
    """Train a model on w3 that two trainers call, each with half of the batch."""
    server = rpc.remote("w3", Part, (128, 256, 10))
    optimizer = DistributedOptimizer(optim.SGD, parameters_of(server), lr=0.05)
    x, y = draw(64, 128, seed=8), labels(64, 10)

    def loss_of() -> Any:
        futures = [
            rpc.rpc_async(trainer, loss_at, (server, *half))
            for trainer, half in zip(("w1", "w2"), zip(x.chunk(2), y.chunk(2)))
        ]
        return (futures[0].wait() + futures[1].wait()) / 64

    return trained(loss_of, optimizer)


class BatchServer:
    """A server that makes a step when both trainers' gradients have arrived, then answers both."""

    def __init__(self) -> None:
        self.model = mlp(128, 256, 10)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.lock = threading.Lock()
        self.future: Any = torch.futures.Future()
        self.came = 0

    def get_model(self) -> Any:
        """Return the model, which RPC copies to the caller."""
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update(server: Any, gradients: list[Any]) -> Any:
        """Accumulate gradients; the answer is the model after the step with all gradients."""
        self = server.local_value()
        with self.lock:
            self.came += 1
            for parameter, gradient in zip(self.model.parameters(), gradients):
                if parameter.grad is None:
                    parameter.grad = gradient
                else:
                    parameter.grad += gradient
            future = self.future
            if self.came == 2:
                self.came = 0
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.future = torch.futures.Future()
                future.set_result(self.model)
        return future


_trainers: dict[str, Any] = {}


def update_once(server: Any, x: Any, y: Any) -> float:
    """Compute a trainer's gradients, send them, and store the model from the server's answer."""
    if "model" not in _trainers:
        _trainers["model"] = server.rpc_sync().get_model()
    model = _trainers["model"]
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    _trainers["model"] = rpc.rpc_sync(server.owner(), BatchServer.update, (server, gradients))
    return float(loss.item())


def batch_parameter_server() -> Step:
    """Train with a server on w3 that collects gradients in batches, with async_execution."""
    server = rpc.remote("w3", BatchServer)
    halves = list(zip(draw(64, 128, seed=8).chunk(2), labels(64, 10).chunk(2)))

    def step() -> float:
        futures = [
            rpc.rpc_async(trainer, update_once, (server, *half))
            for trainer, half in zip(("w1", "w2"), halves)
        ]
        return float(sum(future.wait() for future in futures))

    return step


class Table(nn.Module):
    """An embedding table on a worker."""

    def __init__(self, rows: int, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 16, sparse=sparse)
        with torch.no_grad():
            self.table.weight.copy_(draw(rows, 16, seed=1))

    def forward(self, rows: Any) -> Any:
        """Return the rows at the given indices."""
        return self.table(rows)

    def parameter_rrefs(self) -> list[Any]:
        """Return a list with a reference to the table."""
        return [rpc.RRef(self.table.weight)]


def embedding(sparse: bool) -> Callable[[], Step]:
    """Train a table of 20,000 rows on w1, and a model of one layer on w0."""

    def make() -> Step:
        table = rpc.remote("w1", Table, (20_000, sparse))
        head = mlp(16 * 8, 10)
        mine = [rpc.RRef(parameter) for parameter in head.parameters()]
        optimizer = DistributedOptimizer(optim.SGD, [*parameters_of(table), *mine], lr=0.05)
        rows, y = labels(64 * 8, 20_000, seed=3).reshape(64, 8), labels(64, 10)

        def loss_of() -> Any:
            return F.cross_entropy(head(table.rpc_sync().forward(rows).flatten(1)), y)

        return trained(loss_of, optimizer)

    return make


# ---- others -------------------------------------------------------------------------------------


def split_learning() -> Step:
    """Train a model whose first and last layers are on w0, and whose middle is on w1 (U shape)."""
    first, last = mlp(128, 128, last=False), mlp(128, 10, seed=5)
    middle = rpc.remote("w1", Part, (128, 256, 128), {"seed": 3, "last": False})
    ends = [rpc.RRef(parameter) for end in (first, last) for parameter in end.parameters()]
    optimizer = DistributedOptimizer(optim.Adam, [*ends, *parameters_of(middle)], lr=1e-3)
    x, y = draw(64, 128, seed=8), labels(64, 10)

    def loss_of() -> Any:
        return F.cross_entropy(last(middle.rpc_sync().forward(first(x))), y)

    return trained(loss_of, optimizer)


def tensor_parallel() -> Step:
    """Train a layer whose outputs are divided among three workers, one third on each."""
    workers = ("w1", "w2", "w3")
    thirds = [
        rpc.remote(worker, Part, (256, 128), {"seed": n, "last": False})
        for n, worker in enumerate(workers)
    ]
    last = mlp(3 * 128, 10, seed=7)
    mine = [rpc.RRef(parameter) for parameter in last.parameters()]
    optimizer = DistributedOptimizer(optim.SGD, [*parameters_of(*thirds), *mine], lr=0.05)
    x, y = draw(64, 256, seed=8), labels(64, 10)

    def loss_of() -> Any:
        futures = [third.rpc_async().forward(x) for third in thirds]
        return F.cross_entropy(last(torch.cat([each.wait() for each in futures], dim=1)), y)

    return trained(loss_of, optimizer)


ACTORS, TICKS, GAMES = ("w1", "w2", "w3"), 16, 8


def act(policy: Any, number: int) -> tuple[Any, Any, Any]:
    """Play some games in which actions change the state; return states, actions and rewards."""
    push, noise = draw(2, 8, seed=2), draw(TICKS, GAMES, 2, seed=number)
    state, seen = draw(GAMES, 8, seed=number + 100), []
    with torch.no_grad():
        for tick in range(TICKS):
            action = (policy(state) + noise[tick]).argmax(1)
            state = torch.tanh(0.9 * state + push[action])
            seen.append((state, action, state.sum(1)))
    states, actions, rewards = (torch.stack(each) for each in zip(*seen))
    return states, actions, rewards


def impala() -> Step:
    """Train a policy on w0, with games that actors on other workers play with the policy."""
    policy, critic = mlp(8, 32, 2), mlp(8, 32, 1, seed=4)
    optimizer = optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-3)
    played = [0]

    def step() -> float:
        played[0] += 1
        futures = [
            rpc.rpc_async(actor, act, (policy, 10 * played[0] + n))
            for n, actor in enumerate(ACTORS)
        ]
        states, actions, rewards = (
            torch.cat(each, dim=1) for each in zip(*(future.wait() for future in futures))
        )
        value, scores = critic(states)[..., 0], torch.log_softmax(policy(states), dim=-1)
        chosen = scores.gather(-1, actions[..., None])[..., 0]
        better = rewards - value
        loss = better.square().mean() - (chosen * better.detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


@cache
def shard(number: int) -> tuple[Any, Any]:
    """Return a worker's part of the data."""
    return draw(256, 64, seed=number), labels(256, 2, seed=number).float()


def shard_loss(weights: Any, number: int) -> Any:
    """Return the logistic regression loss of a worker's part of the data."""
    x, y = shard(number)
    loss = F.binary_cross_entropy_with_logits(x @ weights, y)
    return loss + 0.005 * weights.square().sum()


def shard_gradient(weights: Any, number: int) -> Any:
    """Return the gradient of shard_loss."""
    weights = weights.detach().requires_grad_()
    return torch.autograd.grad(shard_loss(weights, number), weights)[0]


def shard_hvp(weights: Any, vector: Any, number: int) -> Any:
    """Return the product of shard_loss's Hessian and a vector."""
    weights = weights.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(shard_loss(weights, number), weights, create_graph=True)
    return torch.autograd.grad(gradient @ vector, weights)[0]


def newton_cg() -> Step:
    """Take Newton steps; conjugate gradients with ten Hessian products solve for each step."""

    def over_all(function: Callable[..., Any], *args: Any) -> Any:
        futures = [
            rpc.rpc_async(worker, function, (*args, n))
            for n, worker in enumerate(("w1", "w2", "w3"))
        ]
        return sum(future.wait() for future in futures) / len(futures)

    def step() -> float:
        weights = torch.zeros(64)
        residual = -over_all(shard_gradient, weights)
        direction, solution = residual, torch.zeros(64)
        square = residual @ residual
        for _ in range(10):
            product = over_all(shard_hvp, weights, direction)
            length = square / (direction @ product)
            solution = solution + length * direction
            residual = residual - length * product
            smaller = residual @ residual
            direction = residual + (smaller / square) * direction
            square = smaller
        return float(over_all(shard_gradient, solution).norm().item())

    return step


MAKERS: dict[str, Callable[[], Step]] = {
    "demo": demo,
    "model-parallel MLP": model_parallel,
    "pipeline, 1 micro-batch": pipeline(1),
    "pipeline, 4 micro-batches": pipeline(4),
    "pipeline, 16 micro-batches": pipeline(16),
    "parameter server, 2 trainers": parameter_server,
    "batch-updating parameter server": batch_parameter_server,
    "embedding on a server, dense": embedding(sparse=False),
    "embedding on a server, sparse": embedding(sparse=True),
    "split learning": split_learning,
    "tensor-parallel linear": tensor_parallel,
    "IMPALA-like actors and learner": impala,
    "Newton-CG, 10 products": newton_cg,
}
