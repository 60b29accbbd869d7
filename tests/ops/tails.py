"""Functions of one number x whose derivatives must stay accurate in the tails.

Each case has two pieces of source code. The first uses `L` (the library), `F` (its nn.functional),
`D` (its distributions) and `t` (makes a tensor). The second uses mpmath, named `m`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_ROW = "L.stack([x, x * 0])"
_BOTH = "L.stack([x, x * 0 + 1, x * -0.5])"
# log(1 + exp(x)) and log(1 + exp(-x)).
_SOFT = "m.log1p(m.exp(x))"
_SOFT_BACK = "m.log1p(m.exp(-x))"
_FIRST = f"-{_SOFT_BACK}"
_MIXED = f"m.mpf(0.75) * {_SOFT} + m.mpf(0.25) * {_SOFT_BACK}"
_BCE = "F.binary_cross_entropy_with_logits"
_SIGMOID = "1 / (1 + m.exp(-x))"
_CHANCE = "(m.erfc(-x / m.sqrt(2)) / 2)"
_OF_THREE = "m.log(m.exp(x) + m.exp(1) + m.exp(-x / 2))"

# By name: (the source for the library, the source for mpmath).
CASES: Final[dict[str, tuple[str, str]]] = {
    "sigmoid": ("L.sigmoid(x)", _SIGMOID),
    "tanh": ("L.tanh(x)", "m.tanh(x)"),
    "glu": ("F.glu(L.stack([x * 0 + 1, x]), 0)[0]", _SIGMOID),
    "glu of both halves": ("F.glu(L.stack([x, x]), 0)[0]", f"x * {_SIGMOID}"),
    "silu": ("F.silu(x)", f"x * {_SIGMOID}"),
    "mish": ("F.mish(x)", f"x * m.tanh({_SOFT})"),
    "tanhshrink": ("F.tanhshrink(x)", "x - m.tanh(x)"),
    "expm1": ("L.expm1(x)", "m.expm1(x)"),
    "sigmoid_": ("(x * 1).sigmoid_()", _SIGMOID),
    "tanh_": ("(x * 1).tanh_()", "m.tanh(x)"),
    "expm1_": ("(x * 1).expm1_()", "m.expm1(x)"),
    "gelu": ("F.gelu(x)", f"x * {_CHANCE}"),
    "gelu by tanh": (
        "F.gelu(x, approximate='tanh')",
        "x / (1 + m.exp(-2 * m.sqrt(2 / m.pi) * (x + m.mpf(0.044715) * x**3)))",
    ),
    "ndtr": ("L.special.ndtr(x)", _CHANCE),
    "log_ndtr": (
        "L.special.log_ndtr(x)",
        f"m.log1p(-m.erfc(x / m.sqrt(2)) / 2) if x > 0 else m.log({_CHANCE})",
    ),
    "erfc": ("L.erfc(x)", "m.erfc(x)"),
    "erfcx": ("L.special.erfcx(x)", "m.exp(x * x) * m.erfc(x)"),
    "elu": ("F.elu(x, 3.0)", "x if x > 0 else 3 * m.expm1(x)"),
    "selu": (
        "F.selu(x)",
        "m.mpf(1.0507009873554805) * (x if x > 0 else m.mpf(1.6732632423543772) * m.expm1(x))",
    ),
    "celu": ("F.celu(x, 2.0)", "x if x > 0 else 2 * m.expm1(x / 2)"),
    "logsigmoid": ("F.logsigmoid(x)", f"-{_SOFT_BACK}"),
    "softplus": ("F.softplus(x, 1.0, 1e3)", _SOFT),
    "softplus of beta": ("F.softplus(x, 0.5, 1e3)", "2 * m.log1p(m.exp(x / 2))"),
    "soft_margin_loss": ("F.soft_margin_loss(x.reshape(1), t([1.0]))", _SOFT_BACK),
    "soft_margin_loss of -1": ("F.soft_margin_loss(x.reshape(1), t([-1.0]))", _SOFT),
    "multilabel_soft_margin_loss": (
        "F.multilabel_soft_margin_loss(x.reshape(1, 1), t([[0.25]]))", _MIXED
    ),
    "bce of 0": (f"{_BCE}(x, t(0.0))", _SOFT),
    "bce of 1": (f"{_BCE}(x, t(1.0))", _SOFT_BACK),
    "bce of 1/4": (f"{_BCE}(x, t(0.25))", _MIXED),
    "bce with a weight": (f"{_BCE}(x, t(1.0), weight=t(3.0))", f"3 * {_SOFT_BACK}"),
    "bce with pos_weight": (
        f"{_BCE}(x, t(0.25), pos_weight=t(3.0))",
        f"m.mpf(0.75) * {_SOFT} + m.mpf(0.75) * {_SOFT_BACK}",
    ),
    "logaddexp": ("L.logaddexp(x, x * 0)", _SOFT),
    "logaddexp2": ("L.logaddexp2(x * 0, x)", "m.log(1 + m.mpf(2) ** x) / m.log(2)"),
    "logsumexp": (f"L.logsumexp({_ROW}, 0)", _SOFT),
    "logsumexp of three": (f"L.logsumexp({_BOTH}, 0)", _OF_THREE),
    "logsumexp of two axes": (
        f"L.logsumexp({_ROW}.reshape(1, 2, 1).expand(1, 2, 2), (1, 2))[0]",
        f"{_SOFT} + m.log(2)",
    ),
    "logcumsumexp": (f"L.logcumsumexp({_ROW}, 0)[1]", _SOFT),
    "logcumsumexp, second": ("L.logcumsumexp(L.stack([x * 0, x]), 0)[1]", _SOFT),
    "logcumsumexp of three": (f"L.logcumsumexp({_BOTH}, 0)[2]", _OF_THREE),
    "logcumsumexp, added": (f"L.logcumsumexp({_ROW}, 0).sum()", f"{_SOFT} + x"),
    "softmin": (f"F.softmin({_ROW}, 0)[1]", _SIGMOID),
    "softmax, first": (f"L.softmax({_ROW}, 0)[0]", _SIGMOID),
    "softmax, second": (f"L.softmax({_ROW}, 0)[1]", "1 / (1 + m.exp(x))"),
    "log_softmax, first": (f"L.log_softmax({_ROW}, 0)[0]", f"-{_SOFT_BACK}"),
    "log_softmax, second": (f"L.log_softmax({_ROW}, 0)[1]", f"-{_SOFT}"),
    "log_softmax of three": (f"L.log_softmax({_BOTH}, 0)[0]", f"x - {_OF_THREE}"),
    "cross_entropy": (f"F.cross_entropy({_ROW}[None], L.tensor([0]))", _SOFT_BACK),
    "cross_entropy, second": (f"F.cross_entropy({_ROW}[None], L.tensor([1]))", _SOFT),
    "cross_entropy with weights": (
        f"F.cross_entropy({_ROW}[None], L.tensor([0]), t([2.0, 3.0]), reduction='sum')",
        f"2 * {_SOFT_BACK}",
    ),
    "cross_entropy, smoothed": (
        f"F.cross_entropy({_ROW}[None], L.tensor([0]), label_smoothing=0.5)",
        f"m.mpf(0.75) * {_SOFT_BACK} + m.mpf(0.25) * {_SOFT}",
    ),
    "cross_entropy of probabilities": (
        f"F.cross_entropy({_ROW}[None], t([[0.25, 0.75]]))",
        f"m.mpf(0.25) * {_SOFT_BACK} + m.mpf(0.75) * {_SOFT}",
    ),
    "cross_entropy of one probability": (
        f"F.cross_entropy({_ROW}[None], t([[1.0, 0.0]]))", _SOFT_BACK
    ),
    "log_prob of Categorical": (f"D.Categorical(logits={_ROW}).log_prob(L.tensor(0))", _FIRST),
    "log_prob of Multinomial": (
        f"D.Multinomial(3, logits={_ROW}).log_prob(t([3.0, 0.0]))", f"3 * {_FIRST}"
    ),
    "entropy of Bernoulli": (
        "D.Bernoulli(logits=x).entropy()",
        f"{_SOFT_BACK} / (1 + m.exp(-x)) + {_SOFT} / (1 + m.exp(x))",
    ),
    "variance of Bernoulli": (
        "D.Bernoulli(logits=x).variance", "1 / ((1 + m.exp(-x)) * (1 + m.exp(x)))"
    ),
    "log_prob of Geometric": (
        "D.Geometric(logits=x).log_prob(t(3.0))", f"{_FIRST} - 3 * {_SOFT}"
    ),
    "log_prob of no failure": ("D.Geometric(logits=x).log_prob(t(0.0))", _FIRST),
    "log_prob of NegativeBinomial": (
        "D.NegativeBinomial(t(3.0), logits=x).log_prob(t(0.0))", f"-3 * {_SOFT}"
    ),
    "log_prob of Binomial": ("D.Binomial(t(3.0), logits=x).log_prob(t(3.0))", f"3 * {_FIRST}"),
    "log_prob of ContinuousBernoulli": (
        "D.ContinuousBernoulli(logits=x).log_prob(t(0.25))",
        f"m.log(x / m.tanh(x / 2)) - m.mpf(0.75) * {_SOFT} - m.mpf(0.25) * {_SOFT_BACK}",
    ),
    "cdf of ContinuousBernoulli": (
        "D.ContinuousBernoulli(logits=x).cdf(t(0.25))", "m.expm1(x / 4) / m.expm1(x)"
    ),
    "icdf of ContinuousBernoulli": (
        "D.ContinuousBernoulli(logits=x).icdf(t(0.25))", "m.log1p(m.expm1(x) / 4) / x"
    ),
    "log_prob of RelaxedBernoulli": (
        "D.RelaxedBernoulli(t(0.5), logits=x).log_prob(t(0.5))",
        f"m.log(2) - {_SOFT} - {_SOFT_BACK}",
    ),
    "log_prob of RelaxedOneHotCategorical": (
        f"D.RelaxedOneHotCategorical(t(0.5), logits={_ROW}).log_prob(t([0.5, 0.5]))",
        f"m.log(2) - {_SOFT} - {_SOFT_BACK}",
    ),
    "slope of SigmoidTransform": (
        "D.SigmoidTransform().log_abs_det_jacobian(x, x)", f"-{_SOFT} - {_SOFT_BACK}"
    ),
    "slope of TanhTransform": (
        "D.TanhTransform().log_abs_det_jacobian(x, x)",
        "2 * (m.log(2) - x - m.log1p(m.exp(-2 * x)))",
    ),
    "SoftplusTransform": ("D.SoftplusTransform()(x)", _SOFT),
    "slope of SoftplusTransform": ("D.SoftplusTransform().log_abs_det_jacobian(x, x)", _FIRST),
    "cdf of Normal": ("D.Normal(t(0.0), t(1.0)).cdf(x)", _CHANCE),
    "cdf of Laplace": (
        "D.Laplace(t(0.0), t(1.0)).cdf(x)", "m.exp(x) / 2 if x < 0 else 1 - m.exp(-x) / 2"
    ),
    "cdf of Cauchy": (
        "D.Cauchy(t(0.0), t(1.0)).cdf(x)",
        "(-m.atan(1 / x) if x < 0 else m.pi - m.atan(1 / x)) / m.pi",
    ),
    "cdf of HalfNormal": ("D.HalfNormal(t(1.0)).cdf(abs(x))", "m.erf(abs(x) / m.sqrt(2))"),
}  # fmt: skip
# Binary fractions, so that mpmath gets exactly the same numbers.
POINTS: Final = tuple(
    sign * x
    for x in (0.125, 0.75, 2.0, 5.5, 9.0, 13.0, 19.0, 30.0, 36.5, 38.0, 60.0, 128.0, 350.0, 700.0)
    for sign in (1, -1)
)


def ours(name: str, library: Any, functional: Any, dtype: Any) -> Callable[[Any], Any]:
    """Return the function of a case, for tensors of a dtype."""
    names = {
        "L": library,
        "F": functional,
        "D": library.distributions,
        "t": lambda v: library.tensor(v, dtype=dtype),
    }
    return eval(f"lambda x: {CASES[name][0]}", names)  # type: ignore[no-any-return]
