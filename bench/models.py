"""Training steps of whole models against PyTorch's: forward, loss, backward and optimiser.

Both libraries run the same source with the same initial weights on the same data. A model that
needs layers which fastdist does not have is left out, with a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

Build = Callable[[Any], tuple[Any, Any]]


class Model(NamedTuple):
    """A builder of a model and its data, the ratio to reach, and the layers that it needs."""

    build: Build
    target: float
    layers: tuple[str, ...] = ()


def run(rounds: int) -> list[Row]:
    """Compare one step of each model that can be built."""
    import fastdist

    torch = peer_torch()
    return compare(list(cases(fastdist, torch)), rounds)


def cases(fastdist: Any, torch: Any) -> Iterator[Case]:
    """Yield a case for each model; print which models are left out."""
    for name, model in MODELS.items():
        lacking = [layer for layer in model.layers if not hasattr(fastdist.nn, layer)]
        if lacking:
            print(f"{name} is left out: fastdist.nn has no {', '.join(lacking)}")
            continue
        ours, network = step(fastdist, model.build)
        peer = None
        if torch:
            peer, twin = step(torch, model.build)
            share_weights(network, twin, torch)
        yield Case(name, ours, peer, model.target)


def step(library: Any, build: Build) -> tuple[Stopwatch, Any]:
    """Return the stopwatch of one training step, and the model."""
    train, network = training(library, build)
    return stopwatch(train), network


def training(library: Any, build: Build, device: str = "cpu") -> tuple[Callable[[], None], Any]:
    """Return one training step on a device, and the model."""
    network, data = build(library)
    network.to(device)
    inputs, target = [tensor.to(device) for tensor in data]
    optimizer = library.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    cross_entropy = library.nn.functional.cross_entropy

    def train() -> None:
        optimizer.zero_grad()
        scores = network(inputs)
        cross_entropy(scores.reshape(-1, scores.shape[-1]), target).backward()
        optimizer.step()

    return train, network


def share_weights(ours: Any, theirs: Any, torch: Any) -> None:
    """Copy our parameters and buffers to the peer's model."""
    state = ours.state_dict()
    values = {name: torch.from_numpy(t.cpu().numpy().copy()) for name, t in state.items()}
    theirs.load_state_dict(values)


def numbers(library: Any, *shape: int) -> Any:
    """Return random float32 numbers."""
    import numpy as np

    return library.tensor(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def classes(library: Any, most: int, *shape: int) -> Any:
    """Return random integers from 0 to most - 1."""
    import numpy as np

    return library.tensor(np.random.default_rng(1).integers(0, most, shape))


def mlp(width: int, rows: int = 64) -> Build:
    """Return a builder of an MLP with three linear layers of this width, and of its data."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        network = nn.Sequential(
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )
        return network, (numbers(library, rows, width), classes(library, 10, rows))

    return build


def gpt(width: int, *, heads: int = 4, blocks: int = 2, texts: int = 8, length: int = 32) -> Build:
    """Return a builder of a transformer and of texts of `length` tokens."""

    def build(library: Any) -> tuple[Any, Any]:
        nn, functional = library.nn, library.nn.functional

        class Block(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
                self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                parts = self.attend(self.before(x)).split(width, dim=2)
                by_head = (texts, length, heads, width // heads)
                split = [part.view(*by_head).transpose(1, 2) for part in parts]
                y = functional.scaled_dot_product_attention(*split, is_causal=True)
                x = x + self.project(y.transpose(1, 2).reshape(texts, length, width))
                return x + self.narrow(functional.gelu(self.widen(self.between(x))))

        class Gpt(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.letters, self.places = nn.Embedding(64, width), nn.Embedding(length, width)
                self.blocks = nn.Sequential(*[Block() for _ in range(blocks)])
                self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 64)

            def forward(self, letters: Any) -> Any:
                places = library.arange(length, device=letters.device)
                x = self.letters(letters) + self.places(places)
                return self.head(self.last(self.blocks(x)))

        return Gpt(), (classes(library, 64, texts, length), classes(library, 64, texts * length))

    return build


def char_lstm(library: Any) -> tuple[Any, Any]:
    """Return an LSTM of width 128, and 32 texts of 64 letters."""
    nn = library.nn

    class CharLstm(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.head = nn.Embedding(64, 64), nn.Linear(128, 64)
            self.lstm = nn.LSTM(64, 128, batch_first=True)

        def forward(self, letters: Any) -> Any:
            return self.head(self.lstm(self.letters(letters))[0])

    return CharLstm(), (classes(library, 64, 32, 64), classes(library, 64, 32 * 64))


def small_cnn(library: Any) -> tuple[Any, Any]:
    """Return a CNN of two pooled convolutions and two linear layers, and 64 images of 28 x 28."""
    import fastdist

    nn = library.nn

    def half(channels: int) -> Any:
        if hasattr(fastdist.nn, "MaxPool2d"):
            return nn.MaxPool2d(2)
        return nn.Conv2d(channels, channels, 2, stride=2)

    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        half(16),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        half(32),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    return network, (numbers(library, 64, 1, 28, 28), classes(library, 10, 64))


def resnet18(library: Any, images: int = 16, side: int = 64, width: int = 64) -> tuple[Any, Any]:
    """Return a ResNet-18 with 10 classes, and images of side x side.

    width is the number of channels of the first layers; ResNet-18 has 64.
    """
    nn = library.nn

    def normed(inputs: int, outputs: int, kernel: int, stride: int) -> list[Any]:
        padding = kernel // 2
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        return [convolution, nn.BatchNorm2d(outputs)]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            first = normed(inputs, outputs, 3, stride)
            self.main = nn.Sequential(*first, nn.ReLU(), *normed(outputs, outputs, 3, 1))
            same = inputs == outputs
            self.side = nn.Sequential(*([] if same else normed(inputs, outputs, 1, stride)))

        def forward(self, x: Any) -> Any:
            return (self.main(x) + self.side(x)).relu()

    blocks = []
    for times, more, stride in ((1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2)):
        inputs, outputs = times * width, more * width
        blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
    network = nn.Sequential(
        *normed(3, width, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )
    return network, (numbers(library, images, 3, side, side), classes(library, 10, images))


MODELS = {
    "MLP 64": Model(mlp(64), 0.8),
    "MLP 512": Model(mlp(512), 0.8),
    "GPT d 64": Model(gpt(64), 1.0),
    "GPT d 256": Model(gpt(256), 1.0),
    "char-LSTM": Model(char_lstm, 1.0, ("LSTM",)),
    "small CNN": Model(small_cnn, 1.3, ("Conv2d",)),
    "ResNet-18, 64 x 64": Model(
        resnet18, 1.5, ("Conv2d", "BatchNorm2d", "MaxPool2d", "AdaptiveAvgPool2d")
    ),
}
