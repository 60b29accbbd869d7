"""Batch norm and group norm of small tensors."""

from __future__ import annotations

from ..nn import batch_norm
from ..rows import small_columns, small_groups
from .call_facts import CallFacts, Run, gradients, small


@small("nn.channel_norms.groups")
def _group_norm(facts: CallFacts) -> Run | None:
    return small_groups.group_norm(facts)


@gradients("nn.channel_norms.groups")
def _group_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return small_groups.group_norm_gradient(facts)


@small("nn.channel_norms.by_known")
def _by_known(facts: CallFacts) -> Run | None:
    return small_groups.by_known(facts)


@gradients("nn.channel_norms.by_known")
def _by_known_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    return small_groups.by_known_gradient(facts)


@small("nn.batch_norm.channels")
def _batch_norm(facts: CallFacts) -> Run | None:
    if small_columns.suits_columns(facts):
        return small_columns.batch_norm(facts)
    return batch_norm.channels_maker(facts)


@gradients("nn.batch_norm.channels")
def _batch_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    if small_columns.suits_columns(facts):
        return small_columns.batch_norm_gradient(facts)
    return batch_norm.gradients_maker(facts)
