"""Second gradients of small arrays, by the names of the kernels of the first gradients."""

from __future__ import annotations

from ..rows import small_slopes
from .call_facts import CallFacts, Run, gradients, small


@small("nn.softmax.softmax_slope")
def _softmax(facts: CallFacts) -> Run:
    return small_slopes.softmax(facts, "small_softmax_gradient_wide")


@gradients("nn.softmax.softmax_slope")
def _softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.softmax_gradient(facts, "small_softmax_second")


@small("nn.softmax.log_softmax_slope")
def _log_softmax(facts: CallFacts) -> Run:
    return small_slopes.softmax(facts, "small_log_softmax_gradient_wide")


@gradients("nn.softmax.log_softmax_slope")
def _log_softmax_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.softmax_gradient(facts, "small_log_softmax_second")


@small("nn.cross_entropy.slope")
def _cross_entropy(facts: CallFacts) -> Run:
    return small_slopes.cross_entropy(facts)


@gradients("nn.cross_entropy.slope")
def _cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.cross_entropy_gradient(facts)


@small("nn.norm_slopes.layer_norm")
def _layer_norm(facts: CallFacts) -> Run:
    return small_slopes.layer_norm(facts)


@gradients("nn.norm_slopes.layer_norm")
def _layer_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.norm_gradient(facts, "small_norm_second")


@small("nn.norm_slopes.rms_norm")
def _rms_norm(facts: CallFacts) -> Run:
    return small_slopes.rms_norm(facts)


@gradients("nn.norm_slopes.rms_norm")
def _rms_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.norm_gradient(facts, "small_rms_second")


@small("nn.norm_slopes.group_norm")
def _group_norm(facts: CallFacts) -> Run:
    return small_slopes.group_norm(facts)


@gradients("nn.norm_slopes.group_norm")
def _group_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.group_norm_gradient(facts)


@small("nn.norm_slopes.batch_norm")
def _batch_norm(facts: CallFacts) -> Run:
    return small_slopes.batch_norm(facts)


@gradients("nn.norm_slopes.batch_norm")
def _batch_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.batch_norm_gradient(facts)


@small("reduce.row_slopes.var")
def _var(facts: CallFacts) -> Run:
    return small_slopes.reduction(facts, "small_var_gradient")


@gradients("reduce.row_slopes.var")
def _var_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.reduction_gradient(facts, "small_var_second")


@small("reduce.row_slopes.logsumexp")
def _logsumexp(facts: CallFacts) -> Run:
    return small_slopes.reduction(facts, "small_logsumexp_slope")


@gradients("reduce.row_slopes.logsumexp")
def _logsumexp_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.reduction_gradient(facts, "small_logsumexp_second")


@small("reduce.row_slopes.norm")
def _norm(facts: CallFacts) -> Run:
    return small_slopes.reduction(facts, "small_norm_gradient")


@gradients("reduce.row_slopes.norm")
def _norm_gradient(facts: CallFacts) -> tuple[Run | None, ...]:
    return small_slopes.reduction_gradient(facts, "small_euclidean_second")
