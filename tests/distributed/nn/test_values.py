"""Values of collectives that return their results, against NumPy, and their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.distributed._functional_collectives as functional_collectives
import fastdist.distributed.nn.functional as F
from fastdist import distributed as dist
from fastdist.core.errors import ShapeError
from fastdist.distributed.distributed_c10d import ReduceOp, _make_nccl_premul_sum
from fastdist.distributed.nn import collective
from tests.distributed.process_group.thread_members import run_members

SIZE, ROOT = 2, 1
Array = np.ndarray[Any, Any]


def inputs() -> Array:
    """Return the inputs of both members, of shape (4, 3): more rows than members."""
    return np.random.default_rng(5).uniform(0.5, 2.0, (SIZE, 4, 3))


def empty(*shape: int) -> fd.Tensor:
    return fd.empty(shape, dtype=fd.float64)


def halves(x: Any) -> Any:
    """Return the rows for each member."""
    return x.reshape(SIZE, 2, 3)


# A collective, and a function that computes the collective's result on rank r from all inputs.
VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Array, int], Any]]] = {
    "sum": (F.all_reduce, lambda a, r: a.sum(0)),
    "mean": (lambda x: F.all_reduce(x, ReduceOp.AVG), lambda a, r: a.mean(0)),
    "largest": (lambda x: F.all_reduce(x, ReduceOp.MAX), lambda a, r: a.max(0)),
    "smallest": (lambda x: F.all_reduce(x, ReduceOp(ReduceOp.MIN)), lambda a, r: a.min(0)),
    "product": (lambda x: F.all_reduce(x, ReduceOp.PRODUCT), lambda a, r: a.prod(0)),
    "multiples": (
        lambda x: F.all_reduce(x, _make_nccl_premul_sum(dist.get_rank() + 2.0)),
        lambda a, r: 2 * a[0] + 3 * a[1],
    ),
    "reduce": (lambda x: F.reduce(x, ROOT), lambda a, r: a.sum(0) * (r == ROOT)),
    "reduce to a mean": (
        lambda x: F.reduce(x, 0, ReduceOp.AVG),
        lambda a, r: a.mean(0) * (r == 0),
    ),
    "reduce multiples": (
        lambda x: F.reduce(x, ROOT, _make_nccl_premul_sum(0.5)),
        lambda a, r: a.sum(0) / 2 * (r == ROOT),
    ),
    "broadcast": (lambda x: F.broadcast(x, ROOT), lambda a, r: a[ROOT]),
    "all_gather": (lambda x: fd.stack(F.all_gather(x)), lambda a, r: a),
    "gather": (lambda x: fd.stack(F.gather(x)), lambda a, r: a * (r == 0)),
    "gather at another": (lambda x: fd.stack(F.gather(x, ROOT)), lambda a, r: a * (r == ROOT)),
    "scatter": (lambda x: F.scatter([*halves(x)]), lambda a, r: halves(a[0])[r]),
    "scatter from another": (
        lambda x: F.scatter([*halves(x)], ROOT),
        lambda a, r: halves(a[ROOT])[r],
    ),
    "reduce_scatter": (
        lambda x: F.reduce_scatter(empty(2, 3), [*halves(x)]),
        lambda a, r: halves(a.sum(0))[r],
    ),
    "reduce_scatter, mean": (
        lambda x: F.reduce_scatter(empty(2, 3), [*halves(x)], ReduceOp.AVG),
        lambda a, r: halves(a.mean(0))[r],
    ),
    "reduce_scatter, largest": (
        lambda x: F.reduce_scatter(empty(2, 3), [*halves(x)], ReduceOp.MAX),
        lambda a, r: halves(a.max(0))[r],
    ),
    "reduce_scatter, multiples": (
        lambda x: F.reduce_scatter(empty(2, 3), [*halves(x)], _make_nccl_premul_sum(3.0)),
        lambda a, r: 3 * halves(a.sum(0))[r],
    ),
    "all_to_all_single": (
        lambda x: F.all_to_all_single(empty(4, 3), x),
        lambda a, r: np.concatenate([halves(one)[r] for one in a]),
    ),
    "all_to_all_single, uneven": (
        lambda x: F.all_to_all_single(
            empty(*((2, 3) if dist.get_rank() else (6, 3))),
            x,
            [1, 1] if dist.get_rank() else [3, 3],
            [3, 1],
        ),
        lambda a, r: np.concatenate([one[3:] if r else one[:3] for one in a]),
    ),
    "all_to_all": (
        lambda x: fd.cat([one.reshape(-1) for one in F.all_to_all(
            [empty(2), empty(1, 2)] if dist.get_rank() else [empty(3, 1), empty(3)],
            [x[0], x[1, :2]],
        )]),
        lambda a, r: np.concatenate([one[1, :2] if r else one[0] for one in a]),
    ),
    "all_gather_single": (
        lambda x: functional_collectives.all_gather_single(x, 1, "0"),
        lambda a, r: np.concatenate([*a], 1),
    ),
    "all_gather_into_tensor_coalesced": (
        lambda x: functional_collectives.all_gather_into_tensor_coalesced([x, x * 2], None)[1],
        lambda a, r: 2 * np.concatenate([*a]),
    ),
    "all_reduce_coalesced": (
        lambda x: functional_collectives.all_reduce_coalesced([x, x * 2], "max", None)[1],
        lambda a, r: 2 * a.max(0),
    ),
    "broadcast of names": (
        lambda x: functional_collectives.broadcast(x, ROOT, "0"), lambda a, r: a[ROOT],
    ),
    **{
        f"reduce_scatter_single along {dim}": (
            lambda x, dim=dim, axis=axis: functional_collectives.reduce_scatter_single(
                x.reshape(4, 3, 1).repeat(1, 1, 2).movedim(0, axis), "avg", dim, None
            ),
            lambda a, r, axis=axis: np.moveaxis(
                halves(a.mean(0))[r][:, :, None].repeat(2, 2), 0, axis
            ),
        )
        for dim, axis in ((0, 0), (1, 1), (2, 2), (-1, 2), (-2, 1), (-3, 0))
    },
    "reduce_scatter_tensor_coalesced": (
        lambda x: functional_collectives.reduce_scatter_tensor_coalesced(
            [x, x.T.contiguous()], "sum", [0, 1], None
        )[1],
        lambda a, r: halves(a.sum(0))[r].T,
    ),
    "functional all_to_all_single": (
        lambda x: functional_collectives.all_to_all_single(x, None, None, None),
        lambda a, r: np.concatenate([halves(one)[r] for one in a]),
    ),
    "functional all_to_all_single, uneven": (
        lambda x: functional_collectives.all_to_all_single(
            x, [1, 1] if dist.get_rank() else [3, 3], [3, 1], None
        ),
        lambda a, r: np.concatenate([one[3:] if r else one[:3] for one in a]),
    ),
    "functional all_to_all_single, of the sizes sent": (
        lambda x: functional_collectives.all_to_all_single(x, None, [2, 2], None),
        lambda a, r: np.concatenate([halves(one)[r] for one in a]),
    ),
    "permute_tensor": (
        lambda x: functional_collectives.permute_tensor(x, [1, 0], None), lambda a, r: a[1 - r],
    ),
    "permute_tensor to itself": (
        lambda x: functional_collectives.permute_tensor(x, [0, 1], None), lambda a, r: a[r],
    ),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_numpy(name: str) -> None:
    function, expected = VALUES[name]
    given = inputs()

    def member(rank: int) -> Any:
        x = fd.tensor(given[rank])
        found = function(x)
        assert x.tolist() == given[rank].tolist()
        return found.tolist()

    for rank, found in enumerate(run_members(SIZE, member)):
        np.testing.assert_allclose(found, expected(given, rank), 1e-12)


def test_messages_have_tags_and_peers_of_the_default_group() -> None:
    def member(rank: int) -> list[Any]:
        pair = dist.new_group([2, 1])
        if rank == 0:
            return []
        x, other = fd.full((2, 1), float(rank)), 3 - rank
        found = []
        if rank == 1:
            for tag in (0, 4):
                sent = F.send(x + tag, other, pair, tag)
                assert sent.shape == (0,) and sent.sum().item() == 0.0
            found.append(F.recv(x, other, pair).tolist())
        else:
            found += [F.recv(x, other, pair, tag).tolist() for tag in (4, 0)]
            F.send(x * 5, other, pair)
        found.append(F.broadcast(x, 1, pair).tolist())
        found.append(F.reduce(x, 2, group=pair).tolist())
        found.append(functional_collectives.broadcast(x, 2, pair).tolist())
        return found

    none, one, two = run_members(3, member)
    assert none == []
    assert one == [[[10.0], [10.0]], [[1.0], [1.0]], [[0.0], [0.0]], [[2.0], [2.0]]]
    assert two == [
        *([[5.0], [5.0]], [[1.0], [1.0]], [[1.0], [1.0]], [[3.0], [3.0]], [[2.0], [2.0]]),
    ]


DEFAULTS = {
    "op": ReduceOp.SUM,
    "group": None,
    "dst": 0,
    "src": 0,
    "tag": 0,
    "output_split_sizes": None,
    "input_split_sizes": None,
}


def test_what_parameters_are_if_nobody_gives_them() -> None:
    for module, defaults in ((F, DEFAULTS), (functional_collectives, {"tag": ""})):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isclass(function):
                continue
            for key, parameter in inspect.signature(function).parameters.items():
                if parameter.default is not inspect.Parameter.empty:
                    assert parameter.default == defaults[key], (name, key)


SPLITS: list[tuple[Any, Any, str]] = [
    ((5, 2), None, "output has 5 rows, which 2 members cannot share evenly: give output_split_s"),
    ((4, 2), [4], r"output_split_sizes is \[4\]; expected 2 sizes that sum to 4"),
    ((4, 2), [1, 2], r"output_split_sizes is \[1, 2\]; expected 2 sizes that sum to 4"),
    ((4, 2), [5, -1], r"output_split_sizes is \[5, -1\]; expected 2 sizes that sum to 4"),
]


def test_sizes_of_splits() -> None:
    def member(rank: int) -> None:
        for shape, sizes, words in SPLITS:
            with pytest.raises(ShapeError, match=words):
                F.split_sizes("output", shape, sizes, None)
        for shape, sizes, expected in (
            ((4, 2), None, [2, 2]),
            ((4, 2), [], [2, 2]),
            ((4, 2), (4, 0), [4, 0]),
            ((0, 2), None, [0, 0]),
            ((), None, [0, 0]),
        ):
            assert F.split_sizes("output", shape, sizes, None) == expected
        for number in (1, 3):
            with pytest.raises(ShapeError, match=f"there are {number} tensors, expected one for"):
                F.reduce_scatter(fd.ones(1), [fd.ones(1)] * number)

    run_members(SIZE, member)


def test_outputs_of_another_shape_are_left_alone() -> None:
    def member(rank: int) -> None:
        x, other = fd.ones(4, 1), fd.full((4,), 7.0)
        assert F.all_to_all_single(other, x).shape == (4, 1)
        assert other.tolist() == [7.0] * 4
        out = fd.zeros(4, 1, requires_grad=True)
        with fd.no_grad():
            out.fill_(3.0)
        found = F.all_to_all_single(out, x)
        assert out.tolist() == found.tolist() == [[1.0]] * 4
        outs = [fd.zeros(2), fd.zeros(2)]
        F.all_to_all(outs, [x[:2, 0], x[2:, 0]])
        assert [one.tolist() for one in outs] == [[1.0, 1.0]] * 2

    run_members(SIZE, member)


def test_a_group_may_be_given_by_its_name_or_a_mesh() -> None:
    def member(rank: int) -> None:
        world: Any = dist.group.WORLD
        mesh = SimpleNamespace(get_group=lambda dim=None: (world, dim))
        of = functional_collectives.group_of
        assert of("0") is of(world) is world and of(None) is None
        assert of(mesh) == (world, None) and of((mesh, "tp")) == (world, "tp")
        for wrong in ((mesh,), (mesh, 1, 2), (1, 2), [0], 3):
            with pytest.raises(ValueError, match=f"group is {type(wrong).__name__}; expected a"):
                of(wrong)
        for name in ("sum", "SUM", "avg", "Max"):
            assert functional_collectives._operation(name) == getattr(ReduceOp, name.upper())
        x = fd.ones(1)
        assert functional_collectives.wait_tensor(x) is x
        with pytest.raises(ValueError, match="shorter"):
            functional_collectives.reduce_scatter_tensor_coalesced([x], "sum", [], None)

    run_members(1, member)


def test_adjoints_go_back_and_forth_and_shapes_are_those_of_parts() -> None:
    def member(rank: int) -> None:
        group: Any = dist.group.WORLD
        pairs = {
            collective.Broadcast: collective.ReducedAt,
            collective.Gather: collective.Scatter,
        }
        for kind, other in {**pairs, **{b: a for a, b in pairs.items()}}.items():
            made: Any = kind(group, 1)
            assert type(made.adjoint()) is other and made.adjoint().root == 1
        assert type(collective.AllGather(group).adjoint()) is collective.ReduceScatter
        assert type(collective.ReduceScatter(group).adjoint()) is collective.AllGather
        reduced = collective.Reduced(None, ReduceOp.SUM)
        assert reduced.adjoint() is reduced and reduced.group is group
        assert (reduced.size, reduced.rank) == (SIZE, rank)
        sent = collective.Sent(group, (3, 4), 1, 7)
        received: Any = sent.adjoint()
        assert (received.sender, received.shape, received.tag) == (1, (3, 4), 7)
        back = received.adjoint()
        assert (back.to, back.shape, back.tag) == (1, (3, 4), 7)
        swap = collective.Exchange(group, (1, 2), (3, 0)).adjoint()
        assert isinstance(swap, collective.Exchange)
        assert (swap.sent, swap.received) == ([3, 0], [1, 2])
        for how, shape, expected in (
            (reduced, (3, 4), (3, 4)),
            (collective.AllGather(group), (3, 4), (2, 3, 4)),
            (collective.ReduceScatter(group), (2, 4), (4,)),
            (swap, (3, 4), (3, 4)),
            (collective.Exchange(group, (1, 1), (3, 4)), (2, 4), (7, 4)),
            (sent, (3, 4), (0,)),
            (sent, (5, 3, 4), (0, 5)),
            (received, (0,), (3, 4)),
            (received, (0, 5), (5, 3, 4)),
        ):
            assert how.result_shape(shape) == expected
        with pytest.raises(NotImplementedError):
            collective.Collective(group).run(fd.ones(1), fd.ones(1))

    run_members(SIZE, member)
