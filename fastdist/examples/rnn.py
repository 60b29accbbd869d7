"""A recurrent model over two workers: its embeddings on a server, its LSTM with the trainer.

    fastdist run -n 2 -m fastdist.examples.rnn

    trainer                                  server
    letters -------------------------------> Embedding
    LSTM <---------------------------------- embeddings
    hidden states -------------------------> Linear
    loss <---------------------------------- scores of the next letters

Embeddings of words are the large part of such models, so they stay on the server. One optimiser
steps all three parts, each on its worker. In float64 the losses equal those of one process, except
for rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist.distributed.autograd as dist_autograd
import fastdist.nn.functional as F
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.distributed.nn import RemoteModule
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.examples.demo import Demo
from fastdist.examples.job import take_part
from fastdist.examples.texts import Letters, pieces, zen

NAME, STEPS = "rnn", 150
WORKERS = ("trainer", "server")
BATCH_SIZE, LENGTH, LETTER, HIDDEN = 8, 32, 24, 48


def table(letters: int) -> nn.Embedding:
    """Return the first part: an embedding of the letters."""
    return nn.Embedding(letters, LETTER).double()


def head(letters: int) -> nn.Linear:
    """Return the last part: a linear layer to scores of all letters."""
    return nn.Linear(HIDDEN, letters).double()


class Model(nn.Module):
    """Predicts the next letter; its parts may be local or remote modules."""

    def __init__(self, first: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.first, self.last = first, last
        self.lstm = nn.LSTM(LETTER, HIDDEN, batch_first=True).double()

    def loss(self, seen: Tensor, following: Tensor) -> Tensor:
        """Return the mean cross-entropy of the following letters."""
        remembered, _ = self.lstm(self.first(seen))
        return F.cross_entropy(self.last(remembered).flatten(0, 1), following.flatten())


def train(demo: Demo) -> int:
    """Lead the job as the trainer."""
    letters = Letters(zen())
    text = letters.encode(zen())
    first, last = (RemoteModule("server", part, (len(letters),)) for part in (table, head))
    model, alone = Model(first, last), Model(table(len(letters)), head(len(letters)))
    for ours, theirs in ((alone.first, first), (alone.last, last)):
        theirs.get_module_rref().rpc_sync().load_state_dict(ours.state_dict())
    alone.lstm.load_state_dict(model.lstm.state_dict())

    local = [rpc.RRef(parameter) for parameter in model.lstm.parameters()]
    parameters = [*first.remote_parameters(), *local, *last.remote_parameters()]
    optimizer = DistributedOptimizer(optim.Adam, parameters, lr=0.01)
    one_process = optim.Adam(alone.parameters(), lr=0.01)
    furthest = 0.0
    for _ in demo.steps():
        seen, following = pieces(text, LENGTH, BATCH_SIZE)
        with dist_autograd.context() as context_id:
            loss = model.loss(seen, following)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)

        one_process.zero_grad()
        expected = alone.loss(seen, following)
        expected.backward()
        one_process.step()
        furthest = max(furthest, abs(loss.item() - expected.item()))
        demo.record(loss=loss)
    return demo.finish("furthest loss from one process", furthest, at_most=1e-8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), train)


if __name__ == "__main__":
    sys.exit(main())
