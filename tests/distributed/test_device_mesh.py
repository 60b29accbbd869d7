"""Meshes of processes: places, slices, groups along axes, and flattened axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
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
