"""A small convolutional network learns to read handwritten digits."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import as_images, load_digits

BATCH_SIZE = 64


class Cnn(nn.Module):
    """Two blocks of convolution, normalisation and pooling, then two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(self.block(1, 16), self.block(16, 32))  # 8x8, 4x4, 2x2
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * 2 * 2, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 10),
        )

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Sequential:
        """Return a 3 x 3 convolution with normalisation, and pooling that halves the image."""
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, 10) scores of (n, 1, 8, 8) images."""
        scores: Tensor = self.head(self.features(images))
        return scores


def shifted(images: Tensor) -> Tensor:
    """Return images shifted by up to one pixel in each direction, as data augmentation."""
    up, left = torch.randint(0, 3, (2,)).tolist()
    return F.pad(images, (1, 1, 1, 1))[:, :, up : up + 8, left : left + 8]


def accuracy(model: Cnn, images: Tensor, labels: Tensor) -> float:
    """Return the fraction of images that are classified correctly."""
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean()
    model.train()
    return right.item()


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and report the accuracy on held-out digits."""
    demo = Demo("cnn", __doc__, arguments, steps=300)
    digits = load_digits(demo.seed)
    images, labels = as_images(digits.training)
    model = Cnn()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        rows = torch.randint(0, len(images), (BATCH_SIZE,))
        loss = F.cross_entropy(model(shifted(images[rows])), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        demo.record(loss=loss)
    right = accuracy(model, *as_images(digits.held_out))
    return demo.finish("accuracy on held-out digits", right, at_least=0.93)


if __name__ == "__main__":
    sys.exit(main())
