"""Other libraries that accept fastdist's tensors, or read its files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import fastdist


@pytest.mark.interop("jax")
@pytest.mark.filterwarnings("ignore")
def test_jax_shares_memory_with_tensors() -> None:
    import jax

    x = fastdist.arange(6.0).reshape(2, 3)
    assert jax.numpy.asarray(x).tolist() == x.tolist()
    assert jax.dlpack.from_dlpack(x).tolist() == x.tolist()
    assert fastdist.from_dlpack(jax.numpy.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.interop("einops")
def test_einops_rearranges_tensors_and_gradients_flow() -> None:
    import einops

    x = fastdist.arange(24.0).reshape(2, 3, 4).requires_grad_()
    y = einops.rearrange(x, "a b c -> (c a) b")
    wanted = einops.rearrange(x.detach().numpy(), "a b c -> (c a) b")
    assert isinstance(y, fastdist.Tensor) and y.tolist() == wanted.tolist()
    (einops.reduce(y, "n b -> b", "mean") * 2).sum().backward()
    assert x.grad is not None and x.grad[0, 0, 0].item() == pytest.approx(0.25)
    assert einops.repeat(x, "a b c -> a b c 2").shape == (2, 3, 4, 2)
    np.testing.assert_allclose(
        einops.einsum(x, x, "a b c, a d c -> b d").detach().numpy(),
        np.einsum("abc,adc->bd", x.detach().numpy(), x.detach().numpy()),
    )


@pytest.mark.interop("pandas")
def test_pandas_takes_tensors_for_columns() -> None:
    import pandas

    frame = pandas.DataFrame({"x": fastdist.arange(3.0), "n": fastdist.tensor([1, 2, 3])})
    assert frame["x"].tolist() == [0.0, 1.0, 2.0] and frame["n"].dtype == np.int64
    assert fastdist.tensor(frame["x"].to_numpy()).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.interop("matplotlib")
@pytest.mark.filterwarnings("ignore")
def test_matplotlib_draws_tensors() -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    (line,) = axes.plot(fastdist.arange(3.0), fastdist.arange(3.0) ** 2)
    axes.imshow(fastdist.rand(4, 4))
    axes.hist(fastdist.rand(10))
    figure.savefig(io.BytesIO())
    assert list(line.get_ydata()) == [0.0, 1.0, 4.0]
    pyplot.close(figure)


@pytest.mark.interop("sklearn")
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_fits_tensors() -> None:
    from sklearn.linear_model import LinearRegression

    x = fastdist.arange(6.0).reshape(6, 1)
    model: Any = LinearRegression().fit(x, x[:, 0] * 2 + 1)
    assert model.coef_[0] == pytest.approx(2.0) and model.intercept_ == pytest.approx(1.0)
    assert model.predict(fastdist.tensor([[10.0]]))[0] == pytest.approx(21.0)
