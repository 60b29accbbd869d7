"""Device meshes: coordinates, slices, groups along axes, and axes that are flattened into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.distributed import device_mesh
from fastdist.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh
from tests.distributed.process_group.thread_members import run_members

AXES = ("pp", "dp", "tp")


def test_a_grid_has_a_group_for_each_row_along_each_axis() -> None:
    def member(rank: int) -> None:
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=AXES)
        grid = np.arange(8).reshape(2, 2, 2)
        place = tuple(int(part) for part in np.argwhere(grid == rank)[0])
        assert repr(mesh) == "DeviceMesh((pp=2, dp=2, tp=2), 'cpu', stride=(4, 2, 1))"
        assert mesh.get_coordinate() == place and mesh.shape == (2, 2, 2) and mesh.ndim == 3
        assert mesh.size() == 8 and mesh.size(1) == 2 and mesh.get_rank() == rank
        assert mesh.mesh.tolist() == grid.tolist() and mesh.mesh.dtype is fd.int32
        for axis, name in enumerate(AXES):
            row = np.moveaxis(grid, axis, -1)[tuple(p for i, p in enumerate(place) if i != axis)]
            ranks = dist.get_process_group_ranks(mesh.get_group(name))
            assert ranks == row.tolist() == mesh[name].mesh.tolist()
            assert mesh.get_group(axis) is mesh.get_all_groups()[axis] is mesh[name].get_group()
            assert mesh.get_local_rank(name) == mesh[name].get_local_rank() == place[axis]
        two = mesh["dp", "tp"]
        assert two.mesh.tolist() == grid[place[0]].tolist() and two.get_coordinate() == place[1:]
        assert repr(mesh["dp"]) == "DeviceMesh((dp=2), 'cpu', stride=(2,))"
        x = fd.ones(1)
        dist.all_reduce(x, group=two["tp"].get_group())
        assert x.item() == 2.0
        flat = two._flatten("both")
        assert flat.size() == 4 and mesh["both"] == flat and flat.mesh_dim_names == ("both",)
        ranks = dist.get_process_group_ranks(flat.get_group())
        assert ranks == mesh["both"].mesh.tolist() == grid[place[0]].ravel().tolist()
        assert mesh["pp", "both"].mesh.tolist() == grid.reshape(2, 4).tolist()
        whole = mesh._flatten()
        assert whole.mesh_dim_names == ("pp_dp_tp",) and whole.get_group() is dist.group.WORLD
        again = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=AXES)
        assert again == mesh and hash(again) == hash(mesh) and mesh != mesh["dp"]

    run_members(8, member)


def test_a_mesh_of_all_uses_the_default_group_and_others_know_their_outsiders() -> None:
    def member(rank: int) -> None:
        mesh = init_device_mesh("cpu", (3,))
        assert mesh.get_group() is dist.group.WORLD and mesh.get_local_rank() == rank
        assert repr(mesh) == "DeviceMesh((3,), 'cpu', stride=(1,))"
        with mesh as entered:
            assert entered is mesh
        part = DeviceMesh("cpu", fd.tensor([2, 0]))
        if rank == 1:
            assert part.get_coordinate() is None
            with pytest.raises(RuntimeError, match="this process is not in it"):
                part.get_group()
        else:
            assert part.get_coordinate() == (int(rank == 0),)
            made = DeviceMesh.from_group(part.get_group(), "cpu", mesh_dim_names=("x",))
            assert made["x"].mesh.tolist() == [2, 0] and made.get_group() is part.get_group()

    run_members(3, member)


def test_wrong_meshes_and_names_are_refused() -> None:
    def member(rank: int) -> None:
        mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
        bare: Any = init_device_mesh("cpu", (1, 1))
        world: Any = dist.group.WORLD
        for kind, words, call in (
            (KeyError, r"Invalid mesh_dim_names \('x',\) specified", lambda: mesh["x"]),
            (KeyError, "ascending order", lambda: mesh["b", "a"]),
            (RuntimeError, "overlapping dim_names", lambda: mesh["a", "a"]),
            (KeyError, "Mesh dimension 'z' does not exist", lambda: mesh.get_group("z")),
            (RuntimeError, "`mesh_dim` needs to be specified", mesh.get_group),
            (RuntimeError, "`mesh_dim` needs to be specified", mesh.get_local_rank),
            (RuntimeError, "Cannot slice a DeviceMesh without", lambda: bare["a"]),
            (RuntimeError, "Cannot flatten a DeviceMesh without", bare._flatten),
            (ValueError, "name of another axis", lambda: mesh["b"]._flatten("a")),
            (RuntimeError, "must be unique", lambda: init_device_mesh(
                "cpu", (1, 1), mesh_dim_names=("a", "a"))),
            (RuntimeError, "should have same length", lambda: init_device_mesh(
                "cpu", (1, 1), mesh_dim_names=("a",))),
            (RuntimeError, "not be bigger than default world size 1", lambda: init_device_mesh(
                "cpu", (3,))),
            (RuntimeError, "Device type with index", lambda: init_device_mesh("cpu:0", (1,))),
            (ValueError, "duplicate values", lambda: DeviceMesh("cpu", [0, 0])),
            (ValueError, "ranks are 0 to 0", lambda: DeviceMesh("cpu", [3])),
            (ValueError, "expected ranks along", lambda: DeviceMesh("cpu", [0.5])),
            (TypeError, "`mesh` is missing", lambda: DeviceMesh("cpu")),
            (ValueError, "at least one ProcessGroup", lambda: DeviceMesh.from_group([], "cpu")),
            (ValueError, "Must pass mesh", lambda: DeviceMesh.from_group([world] * 2, "cpu")),
            (ValueError, "Invalid mesh", lambda: DeviceMesh.from_group(world, "cpu", [1])),
            (ValueError, "Must pass mesh_dim_names", lambda: DeviceMesh.from_group(
                [world] * 2, "cpu", [[0]])),
            (ValueError, "ndim equal", lambda: DeviceMesh.from_group(
                [world] * 2, "cpu", [0], mesh_dim_names=("a", "b"))),
        ):  # fmt: skip
            with pytest.raises(kind, match=words):
                call()
        both = DeviceMesh.from_group([world] * 2, "cpu", [[0]], mesh_dim_names=("a", "b"))
        assert both["b"].get_group() is world

    run_members(1, member)


def made_groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Any, str, bool]]:
    """Replace new_group by a recorder of its arguments, in a simulated job of 12 ranks."""
    asked: list[tuple[list[int], Any, str, bool]] = []

    def new_group(ranks: list[int], *, backend: Any, group_desc: str, sort_ranks: bool) -> Any:
        asked.append((ranks, backend, group_desc, sort_ranks))
        group = dist.ProcessGroup(0, len(ranks))
        return group if 0 in ranks else dist.GroupMember.NON_GROUP_MEMBER

    monkeypatch.setattr(device_mesh, "is_initialized", lambda: True)
    monkeypatch.setattr(device_mesh, "get_world_size", lambda: 12)
    monkeypatch.setattr(device_mesh, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(device_mesh, "default_group", lambda: "default")
    monkeypatch.setattr(device_mesh, "new_group", new_group)
    return asked


def test_groups_are_made_by_rows_of_the_grid_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made_groups(monkeypatch)
    mesh = init_device_mesh(
        "cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"), backend_override={"c": "x", 0: "y"}
    )
    expected = [([one, one + 6], "y", "mesh_a", False) for one in range(6)]
    expected += [
        ([0, 2, 4], None, "mesh_b", False), ([1, 3, 5], None, "mesh_b", False),
        ([6, 8, 10], None, "mesh_b", False), ([7, 9, 11], None, "mesh_b", False),
    ]  # fmt: skip
    expected += [([one, one + 1], "x", "mesh_c", False) for one in range(0, 12, 2)]
    assert asked == expected
    asked.clear()
    both = mesh["a", "c"]._flatten("ac", "z")
    assert asked == [
        ([one, one + 1, one + 6, one + 7], "z", "mesh_a_c", False) for one in (0, 2, 4)
    ]
    assert both.mesh.tolist() == [0, 1, 6, 7] and both.size() == 4
    assert repr(both) == "DeviceMesh((ac=4), 'cpu', stride=(1,))"
    asked.clear()
    assert mesh["a", "c"]._flatten("again").get_group() is both.get_group() and asked == []
    assert mesh._flatten().get_group() == "default" and asked == []
    # The mesh has all ranks, but in another order than the default group; so a new group is made.
    turned = DeviceMesh("cpu", np.arange(12).reshape(3, 4).T, mesh_dim_names=("a", "b"))
    asked.clear()
    flat = turned._flatten()
    assert [ranks for ranks, *_ in asked] == [[*np.arange(12).reshape(3, 4).T.ravel()]]
    assert flat.mesh.tolist() == asked[0][0] and turned.shape == (4, 3)
    assert repr(DeviceMesh("cpu", [[0, 1]])) == "DeviceMesh((1, 2), 'cpu', stride=(2, 1))"


def test_a_backend_for_all_is_asked_for_although_the_default_group_has_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = made_groups(monkeypatch)
    assert init_device_mesh("cpu", (12,)).get_group() == "default" and asked == []
    init_device_mesh("cpu", (12,), backend_override={0: "x"})
    assert asked == [([*range(12)], "x", "mesh_0", False)]
    asked.clear()
    # A mesh that lacks some ranks never uses the default group, even if it has only one axis.
    DeviceMesh("cpu", [0, 1, 2])
    assert asked == [([0, 1, 2], None, "mesh_0", False)]


def test_places_and_slices_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    made_groups(monkeypatch)
    mesh = init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"))
    assert mesh["a", "b", "c"] is mesh
    two = mesh["b", "c"]
    assert two["b"] == mesh["b"] and two["b"].get_group() is mesh.get_group("b")
    assert two.shape == (3, 2) and two.size(0) == 3 and two.size() == 6
    assert repr(two) == "DeviceMesh((b=3, c=2), 'cpu', stride=(2, 1))"
    flat = two._flatten("bc")
    assert mesh.get_group("bc") is flat.get_group() and mesh["a", "bc"].shape == (2, 6)
    with pytest.raises(KeyError, match=r"Valid mesh_dim_names are \['b', 'c'\]"):
        two["bc"]
    with pytest.raises(RuntimeError, match="overlapping dim_names"):
        mesh["b", "bc"]
    for rank, place in ((7, (1, 0, 1)), (11, (1, 2, 1))):
        monkeypatch.setattr(device_mesh, "get_rank", lambda group=None, rank=rank: rank)
        assert mesh.get_coordinate() == place and two.get_coordinate() == place[1:]
        assert two.mesh.tolist() == [[6, 7], [8, 9], [10, 11]]
        assert flat.get_coordinate() == (rank - 6,) and mesh.get_rank() == rank
    part = DeviceMesh("cpu", [[0, 1], [2, 3]], _init_backend=False)
    assert part.get_coordinate() is None and part.mesh.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="process groups not initialized"):
        part.get_group(0)
    assert part != mesh and part != 3 and part == DeviceMesh("cpu", [[0, 1], [2, 3]])
    for other in (
        DeviceMesh("cuda", [[0, 1], [2, 3]]), DeviceMesh("cpu", [[0, 1], [3, 2]]),
        DeviceMesh("cpu", [0, 1, 2, 3]), DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names="ab"),
    ):  # fmt: skip
        assert part != other and hash(part) != hash(other)
    for wrong in ([0, 12], [-1, 0]):
        with pytest.raises(ValueError, match="ranks are 0 to 11"):
            DeviceMesh("cpu", wrong)
    with pytest.raises(RuntimeError, match="default world size 12, but found 13 ranks"):
        DeviceMesh("cpu", [*range(13)])


def test_slices_know_the_whole_mesh_and_all_slices_of_their_kind() -> None:
    def member(rank: int) -> None:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        part = mesh["tp"]
        assert mesh._get_root_mesh() is mesh and part._get_root_mesh() == mesh
        assert _mesh_resources.get_root_mesh(part) == mesh
        found = _mesh_resources._get_all_submeshes(mesh, "dp")
        assert [one.mesh.tolist() for one in found] == [[0, 2], [1, 3]]
        own = found[rank % 2]
        assert own.get_group() is mesh.get_group("dp") and own.mesh_dim_names == ("dp",)
        with pytest.raises(RuntimeError, match="process groups not initialized!"):
            found[1 - rank % 2].get_group()
        with pytest.raises(KeyError, match="'pp' does not exist"):
            mesh._get_all_submeshes("pp")
        with mesh, part:
            assert _mesh_resources.get_current_mesh() is part
        with pytest.raises(RuntimeError, match="No device mesh is currently active!"):
            _mesh_resources.get_current_mesh()

    run_members(4, member)
