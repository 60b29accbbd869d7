"""A variational autoencoder learns to draw digits from eight numbers each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import as_images, load_digits
from fastdist.examples.image_grid import image_grid

BATCH_SIZE, HIDDEN, CODE, SHOWN = 128, 128, 8, 12


class Vae(nn.Module):
    """An encoder from digits to the distribution of their codes, and a decoder that draws them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * CODE)
        )
        self.decoder = nn.Sequential(
            nn.Linear(CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 64), nn.Unflatten(1, (1, 8, 8))
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of the drawn pixels, and the mean and log-variance of the codes."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        # The reparametrization trick: the noise has no parameters, so gradients reach mean and
        # variance.
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def negative_elbo(model: Vae, images: Tensor) -> Tensor:
    """Return the negative ELBO, in nats per image: reconstruction loss plus KL divergence."""
    logits, mean, log_variance = model(images)
    pixels = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
    return (pixels + divergence) / len(images)


@torch.no_grad()
def drawn(model: Vae, images: Tensor) -> str:
    """Return a picture of digits, their reconstructions, and new digits from random codes."""
    again = model(images)[0].sigmoid()
    dreamt = model.decoder(torch.randn(len(images), CODE)).sigmoid()
    rows = {"held-out digits": images, "from their codes": again, "from random codes": dreamt}
    return image_grid({name: row[:, 0] for name, row in rows.items()}, title="fastdist demo vae")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, draw, and report the negative ELBO of held-out digits."""
    demo = Demo("vae", __doc__, arguments, steps=600)
    digits = load_digits(demo.seed)
    images, _ = as_images(digits.training)
    held_out, _ = as_images(digits.held_out)
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in demo.steps():
        rows = torch.randint(0, len(images), (BATCH_SIZE,))
        loss = negative_elbo(model, images[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        demo.record(nats_a_digit=loss)
    with torch.no_grad():
        nats = negative_elbo(model, held_out).item()
    picture = drawn(model, held_out[:SHOWN])
    return demo.finish("nats a held-out digit", nats, at_most=25.5, picture=picture)


if __name__ == "__main__":
    sys.exit(main())
