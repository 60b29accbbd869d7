"""An LSTM learns the Zen of Python by heart, letter by letter, and recites it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.texts import Letters, pieces, zen

BATCH_SIZE, LENGTH, LETTER, HIDDEN = 16, 64, 32, 128
TITLE, RECITED = "The Zen of Python", 300
State = tuple[Tensor, Tensor]


class CharLstm(nn.Module):
    """Predicts the next letter from all previous ones."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, LETTER)
        self.lstm = nn.LSTM(LETTER, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, letters)

    def forward(self, text: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return scores (n, length, letters) for the next letter, and the next state."""
        seen, state = self.lstm(self.letters(text), state)
        return self.head(seen), state


@torch.no_grad()
def recite(model: CharLstm, begun: Tensor, n: int) -> Tensor:
    """Return n letters that continue a text; each is the most likely one."""
    scores, state = model(begun[None])
    said = []
    for _ in range(n):
        letter = scores[:, -1].argmax(1)
        said.append(letter)
        scores, state = model(letter[None], state)
    return torch.cat(said)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, recite the text from its title, and report how many letters were predicted."""
    demo = Demo("char-lstm", __doc__, arguments, steps=300)
    letters = Letters(zen())
    text = letters.encode(zen())
    model = CharLstm(len(letters))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        seen, following = pieces(text, LENGTH, BATCH_SIZE)
        scores, _ = model(seen)
        loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        demo.record(loss=loss)
    said = recite(model, text[: len(TITLE)], RECITED)
    print(f"{TITLE}{letters.decode(said)} ...\n")
    with torch.no_grad():
        scores, _ = model(text[None, :-1])
    right = (scores[0].argmax(1) == text[1:]).float().mean().item()
    return demo.finish("share of letters predicted", right, at_least=0.9)


if __name__ == "__main__":
    sys.exit(main())
