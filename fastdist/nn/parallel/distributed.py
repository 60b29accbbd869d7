"""DistributedDataParallel: one model in several processes, which average their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ...core.caller_warning import warn_caller
from ...core.device import CPU
from ...core.missing import show_public
from ...graph.modes import no_grad, tls
from ...tensor.tensor import Tensor
from ..lazy import LazyModuleMixin
from ..module import Module
from ..parameter import UninitializedBuffer, UninitializedParameter

_MB = 1024 * 1024
_IGNORED = "_ddp_params_and_buffers_to_ignore"


class DistributedDataParallel(Module):
    """Runs a module in each process of a group, on the process's own inputs, and averages the
    gradients.

    All processes construct this module, call it and call backward together. After backward each
    `.grad` is the mean of the gradients of all processes, and is bitwise equal in all processes.
    Gradients are reduced in buckets while backward still computes other gradients.

    Raises  RuntimeError if the processes' models differ (on all processes), if no parameter
            requires a gradient, or if a parameter is uninitialized; ValueError if device_ids are
            not valid

    Args:
        module: The model; its parameters and buffers get the values of rank 0.
        device_ids: None, or a list with the one GPU of this process.
        output_device: The device of the outputs; device_ids[0] if None.
        dim: The axis along which inputs would be split over several devices; has no effect here.
        broadcast_buffers: Whether to copy the buffers of rank 0 before each forward in training;
            True if None.
        init_sync: Whether the constructor compares the processes' models, and copies rank 0's
            parameters and buffers.
        process_group: The group; the default group if None.
        bucket_cap_mb: The size of a bucket of gradients in MiB; 25 by default.
        find_unused_parameters: Whether some parameters may get no gradient in a backward pass.
        check_reduction: Ignored.
        gradient_as_bucket_view: Whether each `.grad` is a view of its bucket, which saves a copy
            of all gradients.
        static_graph: Whether the graph is the same in each iteration. If so, a parameter may be
            used in several checkpointed parts of the model.
        delay_all_reduce_named_params: Not supported: must be None.
        param_to_hook_all_reduce: Not supported: must be None.
        mixed_precision: Not supported: must be None; use amp.autocast.
        device_mesh: A mesh of one axis, instead of process_group; None: process_group.
        skip_all_reduce_unused_params: Ignored: unused parameters only take space in a bucket.
        bucket_cap_mb_list: Not supported: must be None.
        batched_grad_copy: Ignored.
        forward_sync_buffers: The new name of broadcast_buffers, which counts if this is None.

    Threads: only one thread at a time may use the module.

    Example:
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> model(torch.ones(3, 2)).sum().backward()
        >>> model.module.bias.grad
        tensor([3.])
        >>> dist.destroy_process_group()

    Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel
        Training"
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
            bucket_cap_mb_list=bucket_cap_mb_list,
        )
        if check_reduction:
            warn_caller(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. "
                "Please avoid using it.",
                FutureWarning,
            )
        if forward_sync_buffers is not None:
            broadcast_buffers = forward_sync_buffers
        self.device_mesh = device_mesh
        self.process_group = _group_of(process_group, device_mesh)
        self.module, self.dim = module, dim
        self.parameters_to_ignore = set(getattr(module, _IGNORED, ()))
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MB)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        _require_trainable(module, self.parameters_to_ignore)
        self.device_ids = _checked_devices(module, device_ids, output_device)
        self.output_device = output_device if output_device is not None else (
            self.device_ids[0] if self.device_ids else None
        )  # fmt: skip
        self._join_config: Any = None
        self._divides_by_world, self._buffer_root = True, 0
        if init_sync:
            self._sync_model()
        self._make_reducer()

    def _named_parameters(self) -> list[tuple[str, Tensor]]:
        return [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        ]

    def _named_buffers(self) -> list[tuple[str, Tensor]]:
        return [
            (name, buffer)
            for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]

    def _sync_model(self) -> None:
        from ...distributed.data_parallel.same_model import broadcast_tensors, require_same_model

        named = [
            pair for pair in self.module.named_parameters()
            if pair[0] not in self.parameters_to_ignore
        ]  # fmt: skip
        buffers = self._named_buffers()
        require_same_model(self.process_group, named)
        require_same_model(self.process_group, buffers, "buffers")
        broadcast_tensors(self.process_group, [one.detach() for _, one in (*named, *buffers)])

    def _make_reducer(self) -> None:
        from ...distributed.data_parallel.reducer import Reducer

        named = self._named_parameters()
        sparse_names = {
            f"{prefix}{'.' if prefix else ''}{name}"
            for prefix, module in self.module.named_modules()
            if getattr(module, "sparse", False) is True
            for name, _ in module.named_parameters(recurse=False)
        }
        self.reducer = Reducer(
            named,
            self.process_group,
            cap_bytes=self.bucket_bytes_cap,
            finds_unused=self.find_unused_parameters and not self.static_graph,
            is_static=self.static_graph,
            as_views=self.gradient_as_bucket_view,
            sparse=frozenset(i for i, (name, _) in enumerate(named) if name in sparse_names),
        )
        self.logger = None

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the outputs of the module for this process's inputs."""
        reducer, syncs = self.reducer, tls.grad and self.require_backward_grad_sync
        if syncs:
            reducer.times.mark("forward")
            reducer.require_finished()
        if self._join_config is not None:
            self._note_forward(syncs)
        if syncs:
            reducer.rebuild()
        if self.will_sync_module_buffers():
            self._sync_buffers(self._buffer_root)
        if self.device_ids:
            from .scatter_gather import scatter_kwargs

            moved, named = scatter_kwargs(inputs, kwargs, self.device_ids, dim=self.dim)
            inputs, kwargs = (moved[0], named[0]) if moved else (inputs, kwargs)
        outputs = self.module(*inputs, **kwargs)
        if syncs:
            reducer.times.mark("forward_end")
            reducer.prepare(outputs)
        elif tls.grad:
            reducer.stay_local()
        return outputs

    def will_sync_module_buffers(self) -> bool:
        """Return whether a forward call, if made now, would begin by copying rank 0's buffers."""
        return bool(
            self.broadcast_buffers
            and self.training
            and self.require_backward_grad_sync
            and self.process_group.size() > 1
            and any(True for _ in self._named_buffers())
        )

    def _sync_buffers(self, root: int = 0) -> None:
        from ...distributed.data_parallel.same_model import broadcast_tensors

        with no_grad():
            buffers = [one.detach() for _, one in self._named_buffers()]
            broadcast_tensors(self.process_group, buffers, root)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do not reduce gradients of forward and backward passes inside the `with` block.

        The next backward pass after the block reduces all gradients that have accumulated.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[[object, Any], Any]) -> None:
        """Reduce each bucket of gradients with a function instead of the default all-reduce.

        Raises  TypeError or ValueError if the hook does not have this signature; RuntimeError if
                there already is a hook, or a backward pass has run

        Args:
            state: Passed to the hook.
            hook: Called with (state, GradBucket) when the bucket's gradients have been computed. It
                must return a Future of a tensor with the reduced gradients, which the hook itself
                must divide by the size of the group.
        """
        self.reducer.set_hook(state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        from ...distributed.algorithms.ddp_comm_hooks import default_hooks

        name = str(getattr(comm_hook_type, "name", comm_hook_type)).lower()
        hooks = {"allreduce": "allreduce_hook", "fp16_compress": "fp16_compress_hook"}
        if name not in hooks:
            raise ValueError(f"there is no built-in communication hook {comm_hook_type!r}")
        self.reducer.set_hook(self.process_group, getattr(default_hooks, hooks[name]))

    def _set_static_graph(self) -> None:
        self.reducer.set_static()
        self.static_graph = True

    def _update_process_group(self, new_process_group: Any) -> None:
        """Reduce over another group from now on, such as a new group after a member was lost."""
        self.process_group = self.reducer.group = new_process_group

    def _remove_autograd_hooks(self) -> None:
        self.reducer.remove_hooks()

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """Measure times in one of every sample_rate iterations, after the first 10."""
        if sample_rate < 1:
            raise ValueError(
                "DDP runtime logging sample rate should be equal or greater than 1, got "
                f"{sample_rate}"
            )
        self.reducer.times.sample_rate = sample_rate

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return statistics of the reductions: sizes in bytes and times in nanoseconds."""
        from ...distributed.data_parallel.logging_data import logging_data

        return logging_data(self)

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """Return a context manager in which processes may have different numbers of inputs.

        Args:
            divide_by_initial_world_size: Whether to divide gradients by the group's size. If False,
                they are divided by the number of processes that still have inputs.
            enable: Whether the context manager has any effect.
            throw_on_early_termination: Whether all processes raise an error when one process runs
                out of inputs.
        """
        if not enable:
            return nullcontext()
        from ...distributed.algorithms.join import Join

        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> Any:
        """Return the JoinHook that Join calls after this process has run out of inputs."""
        from ...distributed.algorithms.join import DataParallelJoinHook

        return DataParallelJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of the tensors that Join sends."""
        return CPU

    @property
    def join_process_group(self) -> Any:
        """The process group over which Join counts active processes."""
        return self.process_group

    def _note_forward(self, syncs: bool) -> None:
        from ...distributed.algorithms.join import note_forward

        note_forward(self, syncs)

    def __getstate__(self) -> dict[str, Any]:
        from ...distributed.process_group.world import default_group

        if self.process_group is not default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. That is, when you have called init_process_group and have not "
                "passed process_group argument to DDP constructor"
            )
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "logger", "device_mesh", "_join_config"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from ...distributed.process_group.world import default_group

        super().__setstate__(state)
        self.process_group = default_group()
        self.device_mesh = self._join_config = None
        self.__dict__.setdefault("require_forward_param_sync", True)
        self.__dict__.setdefault("require_backward_grad_sync", True)
        self._make_reducer()

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Any
    ) -> None:
        setattr(module, _IGNORED, params_and_buffers_to_ignore)


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"DistributedDataParallel: {name} is not supported; leave it out"
            )


def _group_of(process_group: Any, device_mesh: Any) -> Any:
    from ...distributed.process_group.world import default_group, group_of, is_outside

    if process_group is not None and device_mesh is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh is not None:
        if device_mesh.ndim != 1:
            raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
        return device_mesh.get_group(mesh_dim=0)
    if process_group is None:
        return default_group()
    if is_outside(process_group):
        raise ValueError("Invalid process group specified: this process is not in that group")
    return group_of(process_group)


def _require_trainable(module: Module, ignored: set[str]) -> None:
    named = [pair for pair in module.named_parameters() if pair[0] not in ignored]
    lazy = (UninitializedParameter, UninitializedBuffer)
    if any(isinstance(one, lazy) for _, one in (*named, *module.named_buffers())) or any(
        isinstance(one, LazyModuleMixin) and one.has_uninitialized_params()
        for one in module.modules()
    ):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
    if not any(one.requires_grad for _, one in named):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient."
        )


def _checked_devices(
    module: Module, device_ids: Sequence[Any] | None, output_device: Any
) -> list[Any] | None:
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    devices = {one.device for one in module.parameters()}
    if len({one.type for one in devices}) > 1:
        raise ValueError(
            "DistributedDataParallel's input module must be on the same type of devices, but input "
            f"module parameters locate in {sorted({one.type for one in devices})}."
        )
    if not device_ids and output_device is None:
        return None
    if len(devices) > 1 or CPU in devices:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
            f"{device_ids}, output_device {output_device}, and module parameters {devices}."
        )
    return list(device_ids) if device_ids else None


show_public(__name__)
