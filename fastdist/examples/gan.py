"""A generator learns to draw digits that a discriminator takes for real ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import as_images, load_digits
from fastdist.examples.image_grid import image_grid

BATCH_SIZE, HIDDEN, NOISE = 64, 128, 16
MEASURED_EVERY = 25


def make_generator() -> nn.Sequential:
    """Return a network from noise to 64 pixels between 0 and 1."""
    return nn.Sequential(
        nn.Linear(NOISE, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, 64),
        nn.Sigmoid(),
    )


def make_discriminator() -> nn.Sequential:
    """Return a network that maps 64 pixels to the logit of "this is a real digit"."""
    return nn.Sequential(
        nn.Linear(64, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Dropout(0.3),
        nn.Linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Dropout(0.3),
        nn.Linear(HIDDEN, 1),
    )


def loss_of(logits: Tensor, *, taken_for_real: bool) -> Tensor:
    """Return the loss of the logits if all labels are "real", or all are "drawn"."""
    target = torch.full_like(logits, 0.9 if taken_for_real else 0.0)
    return F.binary_cross_entropy_with_logits(logits, target)


def energy_distance(xs: Tensor, ys: Tensor) -> Tensor:
    """Return the energy distance of two sets of points; 0 for equal distributions.

    Source  Szekely and Rizzo 2013, "Energy statistics"
    """
    within = torch.cdist(xs, xs).mean() + torch.cdist(ys, ys).mean()
    return 2 * torch.cdist(xs, ys).mean() - within


@torch.no_grad()
def draw(generator: nn.Sequential, n: int) -> Tensor:
    """Return n drawn digits, as (n, 64) pixels."""
    generator.eval()
    images: Tensor = generator(torch.randn(n, NOISE))
    generator.train()
    return images


def main(arguments: Sequence[str] | None = None) -> int:
    """Train the two networks in turn, draw, and report the distance of drawn digits
    from real ones.
    """
    demo = Demo("gan", __doc__, arguments, steps=800)
    digits = load_digits(demo.seed)
    real = as_images(digits.training)[0].flatten(1)
    held_out = as_images(digits.held_out)[0].flatten(1)
    generator, discriminator = make_generator(), make_discriminator()
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for step in demo.steps():
        rows = torch.randint(0, len(real), (BATCH_SIZE,))
        images = generator(torch.randn(BATCH_SIZE, NOISE))
        # detach: the discriminator's loss must not change the generator.
        found_out = loss_of(discriminator(images.detach()), taken_for_real=False)
        doubt = found_out + loss_of(discriminator(real[rows]), taken_for_real=True)
        of_discriminator.zero_grad()
        doubt.backward()
        of_discriminator.step()

        fooling = loss_of(discriminator(images), taken_for_real=True)
        of_generator.zero_grad()
        fooling.backward()
        of_generator.step()
        if step % MEASURED_EVERY == 1:
            distance = energy_distance(draw(generator, len(held_out)), held_out)
            demo.record(distance=distance, generator=fooling, discriminator=doubt)
    distance = energy_distance(draw(generator, len(held_out)), held_out)
    drawn = draw(generator, 36).view(3, 12, 8, 8)
    rows_drawn = {"drawn": drawn[0], " ": drawn[1], "  ": drawn[2]}
    picture = image_grid(
        {"held-out digits": held_out[:12].view(12, 8, 8), **rows_drawn}, title="fastdist demo gan"
    )
    return demo.finish(
        "energy distance to held-out digits", distance.item(), at_most=0.4, picture=picture
    )


if __name__ == "__main__":
    sys.exit(main())
