"""A small GPT learns to write like the docstrings of Python's standard library."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.texts import Letters, docstrings, pieces

BATCH_SIZE, LENGTH, WIDTH, HEADS, BLOCKS = 16, 64, 64, 4, 2
WRITTEN, TEMPERATURE = 300, 0.7


class Block(nn.Module):
    """A transformer block: causal attention, then a perceptron, applied to each letter's vector."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x (n, length, WIDTH) plus the outputs of attention and of the perceptron."""
        n, length, _ = x.shape
        parts = self.attend(self.before(x)).chunk(3, dim=2)
        query, key, value = (p.view(n, length, HEADS, -1).transpose(1, 2) for p in parts)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.think(self.between(x))


class Gpt(nn.Module):
    """Predicts the next letter from up to LENGTH previous ones."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def forward(self, text: Tensor) -> Tensor:
        """Return the scores of all letters for the position after each letter of `text`.

        `text` is (n, length), and the scores are (n, length, letters).
        """
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        scores: Tensor = self.head(self.last(self.blocks(x)))
        return scores


def bits_a_letter(model: Gpt, seen: Tensor, following: Tensor) -> Tensor:
    """Return the mean loss of the model on the next letters, in bits."""
    return F.cross_entropy(model(seen).flatten(0, 1), following.flatten()) / math.log(2)


@torch.no_grad()
def write(model: Gpt, begun: Tensor, n: int) -> Tensor:
    """Return n letters that continue the text `begun`; each is sampled from the model's scores."""
    text = begun
    for _ in range(n):
        scores = model(text[None, -LENGTH:])[0, -1]
        text = torch.cat([text, torch.multinomial((scores / TEMPERATURE).softmax(0), 1)])
    return text[len(begun) :]


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on nine tenths of the text, write some text, and report the loss on the last tenth."""
    demo = Demo("gpt", __doc__, arguments, steps=250)
    letters = Letters(docstrings())
    text = letters.encode(docstrings())
    split = len(text) * 9 // 10
    model = Gpt(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=demo.last_step, pct_start=0.1
    )
    for _ in demo.steps():
        loss = bits_a_letter(model, *pieces(text[:split], LENGTH, BATCH_SIZE))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        demo.record(bits_a_letter=loss)
    with torch.no_grad():
        bits = bits_a_letter(model, *pieces(text[split:], LENGTH, 128)).item()
    begun = "Return "
    print(f"{begun}{letters.decode(write(model, letters.encode(begun), WRITTEN))} ...\n")
    return demo.finish("bits a letter of held-out text", bits, at_most=4.3)


if __name__ == "__main__":
    sys.exit(main())
