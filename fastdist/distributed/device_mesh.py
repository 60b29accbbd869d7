"""DeviceMesh: a grid of the processes of a job, with a group for each row along each axis."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.device import CPU
from ..core.folded_frames import folds
from ..core.missing import explain_missing
from ..tensor.tensor import Tensor, from_array
from .distributed_c10d import (
    ProcessGroup,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)
from .process_group.world import default_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Root:
    """The complete grid, and the groups along its axes; a mesh and its slices share one _Root."""

    def __init__(self, grid: NDArray[Any], names: tuple[str, ...] | None) -> None:
        self.grid, self.names = grid, names
        # Maps a tuple of axes of the grid to the group over these axes that has this process.
        self.groups: dict[tuple[int, ...], Any] = {}
        # Maps the name of a flattened slice to its axes.
        self.flattened: dict[str, tuple[int, ...]] = {}


class DeviceMesh:
    """A grid of processes with any number of axes, and one group for each row along each axis.

    All processes of the job must create the mesh with the same arguments: creating it creates
    process groups.

    Raises  RuntimeError if there are more ranks than processes, a name occurs twice, or the number
            of names is not the number of axes; ValueError if a rank occurs twice, or does not
            belong to the job

    Args:
        device_type: The device type of the program's tensors, such as "cpu" or "cuda".
        mesh: The global ranks at their positions: a tensor, an array or nested lists.
        mesh_dim_names: Names of the axes, for `mesh["dp"]`.
        backend_override: A dict from the index of an axis to the backend of its groups.

    Source: PyTorch, torch.distributed.device_mesh
    """

    @folds
    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
    ) -> None:
        grid = _grid_of(mesh)
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _require_names(names, grid.ndim)
        self.device_type = device_type
        self._root = _Root(grid, names)
        self._axes: tuple[tuple[int, ...], ...] = tuple((axis,) for axis in range(grid.ndim))
        self.mesh_dim_names = names
        if _init_backend:
            _start_default_group(grid)
            for axis in range(grid.ndim):
                backend = None if backend_override is None else backend_override.get(axis)
                self._group_over((axis,), backend)

    @property
    def _coordinate(self) -> tuple[int, ...] | None:
        """The position of this process in the complete grid; None if it is not in the grid."""
        found = np.argwhere(self._root.grid == get_rank())
        return tuple(map(int, found[0])) if len(found) else None

    @property
    def _ranks(self) -> NDArray[Any]:
        """The ranks in the slice that contains this process."""
        grid, place = self._root.grid, self._coordinate
        used = [axis for axes in self._axes for axis in axes]
        if place is None:
            place = (0,) * grid.ndim
        at = tuple(slice(None) if axis in used else place[axis] for axis in range(grid.ndim))
        shape = [prod(grid.shape[axis] for axis in axes) for axes in self._axes]
        ranks: NDArray[Any] = np.ascontiguousarray(grid[at]).reshape(shape)
        return ranks

    @property
    def mesh(self) -> Tensor:
        """The global ranks, as a tensor of int32 on the CPU."""
        return from_array(self._ranks.astype(np.int32), CPU)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes, or the length of one axis.

        Args:
            mesh_dim: The index of an axis; if None, the number of all processes is returned.
        """
        return int(self._ranks.size) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """Return this process's global rank."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this process's position along each axis; None if the mesh does not contain it."""
        if self._coordinate is None:
            return None
        found = np.argwhere(self._ranks == get_rank())
        return tuple(map(int, found[0]))

    @folds
    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this process's position along one axis.

        Raises  RuntimeError if no axis is given, and the mesh has several axes

        Args:
            mesh_dim: The index or name of an axis; needed only if the mesh has several axes.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                "needs to be specified when device_mesh.ndim > 1."
            )
        return get_rank(self.get_group(mesh_dim or 0))

    @folds
    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group that contains this process, among the groups along one axis.

        Raises  RuntimeError if no axis is given and the mesh has several axes, or this process is
                not in the mesh; KeyError if there is no axis with this name

        Args:
            mesh_dim: The index or name of the axis; may be None if the mesh has only one axis.
        """
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1. For the list of all groups "
                    "use `get_all_groups()`"
                )
            mesh_dim = 0
        axes = self._axes_of(mesh_dim)
        if axes not in self._root.groups:
            raise RuntimeError(
                "DeviceMesh process groups not initialized! The mesh has none, or this process is "
                "not in it"
            )
        found: ProcessGroup = self._root.groups[axes]
        return found

    @folds
    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups that contain this process, one for each axis."""
        return [self.get_group(axis) for axis in range(self.ndim)]

    def _axes_of(self, mesh_dim: int | str) -> tuple[int, ...]:
        if isinstance(mesh_dim, int):
            return self._axes[mesh_dim]
        if mesh_dim in (self.mesh_dim_names or ()):
            return self._axes[(self.mesh_dim_names or ()).index(mesh_dim)]
        if mesh_dim in self._root.flattened:
            return self._root.flattened[mesh_dim]
        raise KeyError(
            f"Mesh dimension {mesh_dim!r} does not exist. Available mesh dimensions are: "
            f"mesh_dim_names={self.mesh_dim_names}"
        )

    @folds
    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the slice along some axes that contains this process, such as `mesh["dp", "tp"]`.

        Raises  RuntimeError if the axes have no names, or a name is given twice; KeyError if a name
                is not the name of an axis, or the names are not in the mesh's order
        """
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self.mesh_dim_names:
            return self
        is_whole = self._axes == tuple((axis,) for axis in range(self._root.grid.ndim))
        flattened = self._root.flattened if is_whole else {}
        valid = [*self.mesh_dim_names, *flattened]
        if any(name not in valid for name in wanted):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {valid}."
            )
        axes = [self._axes_of(name) for name in wanted]
        used = [axis for one in axes for axis in one]
        if len(set(used)) != len(used):
            raise RuntimeError(f"Slicing overlapping dim_names {wanted} is not allowed.")
        if used != sorted(used):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Mesh dim indices should be in "
                "ascending order."
            )
        return self._slice(tuple(axes), wanted)

    def _slice(self, axes: tuple[tuple[int, ...], ...], names: tuple[str, ...]) -> DeviceMesh:
        made = object.__new__(DeviceMesh)
        made.device_type, made._root = self.device_type, self._root
        made._axes, made.mesh_dim_names = axes, names
        return made

    def _flatten(
        self, mesh_dim_name: str | None = None, backend_override: Any = None
    ) -> DeviceMesh:
        """Return a mesh with one axis and the same processes; all processes must call this method.

        Args:
            mesh_dim_name: The name of the new axis, by which the complete mesh can also be indexed.
                By default it consists of the names of the axes, joined by "_".
            backend_override: The backend of the new group.
        """
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        if not name:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        axes = tuple(axis for one in self._axes for axis in one)
        known = self._root.names or ()
        if name in known and axes != (known.index(name),):
            raise ValueError(f"{name!r} is the name of another axis of the mesh: {known}")
        self._group_over(axes, backend_override)
        self._root.flattened[name] = axes
        return self._slice((axes,), (name,))

    def _group_over(self, axes: tuple[int, ...], backend: Any = None) -> None:
        """Create the groups over some axes of the grid, one for each position on the other axes."""
        root = self._root
        if axes in root.groups:
            return
        grid = root.grid
        if backend is None and grid.size == get_world_size() == prod(grid.shape[a] for a in axes):
            rows = np.moveaxis(grid, axes, range(len(axes))).reshape(-1)
            if list(rows) == list(range(grid.size)):
                root.groups[axes] = default_group()
                return
        last = range(grid.ndim - len(axes), grid.ndim)
        length = prod(grid.shape[axis] for axis in axes)
        name = "_".join((root.names or tuple(map(str, range(grid.ndim))))[axis] for axis in axes)
        for row in np.moveaxis(grid, axes, last).reshape(-1, length):
            ranks = [int(rank) for rank in row]
            found = new_group(ranks, backend=backend, group_desc=f"mesh_{name}", sort_ranks=False)
            if isinstance(found, ProcessGroup):
                root.groups[axes] = found

    @staticmethod
    @folds
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Return a mesh that uses existing groups for its axes.

        Raises  ValueError if no group is given, a required argument is missing, or `mesh` does not
                fit the groups

        Args:
            group: The group of a single axis, or a list with one group per axis.
            device_type: See DeviceMesh.
            mesh: The global ranks at their positions; required for several groups.
            mesh_dim_names: Names of the axes; required for several groups.
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        ranks = list(groups[0]._ranks)
        if isinstance(group, ProcessGroup):
            mesh = ranks if mesh is None else mesh
        elif mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        elif mesh_dim_names is None:
            raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        grid = _grid_of(mesh)
        if isinstance(group, ProcessGroup) and grid.tolist() != ranks:
            raise ValueError(f"Invalid mesh {grid.tolist()} for ProcessGroup with ranks {ranks}")
        if grid.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got mesh "
                f"{grid.tolist()} and {len(groups)} ProcessGroups"
            )
        made = DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._root.groups.update({(axis,): one for axis, one in enumerate(groups)})
        return made

    def _get_root_mesh(self) -> DeviceMesh:
        """Return the complete mesh that contains this slice."""
        root = self._root
        axes = tuple((axis,) for axis in range(root.grid.ndim))
        is_whole = axes == self._axes and self.mesh_dim_names == root.names
        return self if is_whole else self._slice(axes, root.names or ())

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        """Return the index of an axis.

        Raises  KeyError if there is no axis with this name
        """
        names = self.mesh_dim_names or ()
        if mesh_dim_name not in names:
            raise KeyError(
                f"Mesh dimension {mesh_dim_name!r} does not exist. Available mesh dimensions are: "
                f"mesh_dim_names={names}"
            )
        return names.index(mesh_dim_name)

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """Return the meshes along one axis, one for each position on the other axes."""
        axis = self._get_mesh_dim_by_name(mesh_dim_name)
        ranks = self._ranks
        found = []
        for row in np.moveaxis(ranks, axis, -1).reshape(-1, ranks.shape[axis]):
            one = DeviceMesh(
                self.device_type, row, mesh_dim_names=(mesh_dim_name,), _init_backend=False
            )
            if get_rank() in row:
                one._root.groups[(0,)] = self.get_group(axis)
            found.append(one)
        return found

    def _key(self) -> tuple[Any, ...]:
        root = self._root
        return (
            self.device_type, self._axes, self.mesh_dim_names, root.grid.shape,
            tuple(root.grid.ravel().tolist()),
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        """End the block in which this mesh is the current mesh of the thread."""
        _mesh_resources.mesh_stack.pop()

    def __repr__(self) -> str:
        ranks = self._ranks
        names = self.mesh_dim_names
        lengths = [f"{name}={n}" for name, n in zip(names, ranks.shape)] if names else ranks.shape
        grid = self._root.grid
        strides = tuple(grid.strides[axes[-1]] // grid.itemsize for axes in self._axes)
        text = ", ".join(map(str, lengths)) + ("," if not names and ranks.ndim == 1 else "")
        return f"DeviceMesh(({text}), {self.device_type!r}, stride={strides})"


class _MeshEnvironment(threading.local):
    """The stack of meshes of a thread's open `with mesh:` blocks."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """Return the mesh of the innermost block.

        Raises  RuntimeError if the thread is in no `with mesh:` block
        """
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        """Return the complete mesh that contains device_mesh."""
        return device_mesh._get_root_mesh()

    def _get_all_submeshes(self, device_mesh: DeviceMesh, mesh_dim_name: str) -> list[DeviceMesh]:
        return device_mesh._get_all_submeshes(mesh_dim_name)


_mesh_resources = _MeshEnvironment()


@folds
def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Return a grid of the processes 0, 1, 2, ... of the job. All processes must call this.

    Raises  RuntimeError if the grid is larger than the job, or the names do not fit `mesh_shape`

    Args:
        device_type: The device type of the program's tensors, such as "cpu" or "cuda".
        mesh_shape: The lengths of the axes.
        mesh_dim_names: Names of the axes, for `mesh["dp"]`.
        backend_override: Maps the index or name of an axis to the backend of its groups.

    Example:
        >>> from fastdist import distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> mesh["dp"].size(), mesh.get_local_rank("tp")
        (1, 0)
        >>> dist.destroy_process_group()
    """
    names = None if mesh_dim_names is None else tuple(mesh_dim_names)
    shape = tuple(mesh_shape)
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. If you maintained a "
            "'torch.device' object, it's recommended to pass in 'device.type'."
        )
    backends = {
        (names or ()).index(key) if isinstance(key, str) else key: value
        for key, value in (backend_override or {}).items()
    }
    grid = np.arange(prod(shape)).reshape(shape)
    return DeviceMesh(device_type, grid, mesh_dim_names=names, backend_override=backends or None)


def _grid_of(mesh: Any) -> NDArray[Any]:
    if mesh is None:
        raise TypeError("DeviceMesh: `mesh` is missing: the global ranks in their places")
    array = mesh.detach().cpu().to_numpy() if isinstance(mesh, Tensor) else np.asarray(mesh)
    if array.dtype.kind not in "iu" or not array.ndim:
        raise ValueError(f"DeviceMesh: `mesh` is {mesh!r}; expected ranks along at least one axis")
    grid: NDArray[Any] = np.array(array, np.int64, order="C")
    if len(np.unique(grid)) != grid.size:
        raise ValueError(f"DeviceMesh cannot have duplicate values, but found {grid.tolist()}")
    return grid


def _require_names(names: tuple[str, ...] | None, ndim: int) -> None:
    if names is None:
        return
    if len(set(names)) != len(names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names "
            f"{names}"
        )
    if len(names) != ndim:
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
            f"{len(names)} and len(mesh_shape):{ndim}."
        )


def _start_default_group(grid: NDArray[Any]) -> None:
    if not is_initialized():
        init_process_group()
    size = get_world_size()
    if grid.size > size:
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {size}, but found {grid.size} "
            "ranks!"
        )
    if grid.size and (grid.min() < 0 or grid.max() >= size):
        raise ValueError(f"DeviceMesh: ranks are 0 to {size - 1}, got {grid.tolist()}")


explain_missing(__name__)
