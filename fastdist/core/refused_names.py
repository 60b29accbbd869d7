"""The names that refuse in use, by module: see refused.py.

A row is the module below `fastdist.`, the reason, and the names: a class begins with a capital,
with its static and class methods in parentheses; all others are functions.
"""

from __future__ import annotations

from typing import Final

from .missing import NO_COLLECTIVES

_COLLECTIVES: Final = {
    "distributed._composable": "checkpoint contract fully_shard replicate",
    "distributed._functional_collectives": """
        AsyncCollectiveTensor all_gather_single all_gather_single_autograd all_gather_tensor
        all_gather_tensor_autograd all_gather_into_tensor_coalesced all_reduce all_reduce_coalesced
        all_to_all_single all_to_all_single_autograd broadcast permute_tensor reduce_scatter_single
        reduce_scatter_single_autograd reduce_scatter_tensor reduce_scatter_tensor_autograd
        reduce_scatter_tensor_coalesced wait_tensor
    """,
    "distributed._shard": "load_with_process_group shard_module shard_parameter",
    "distributed._shard.sharded_tensor": """
        Shard ShardedTensor ShardedTensorBase ShardedTensorMetadata TensorProperties
        custom_sharded_op_impl empty full init_from_local_shards ones pre_load_state_dict_hook rand
        randn sharded_op_impl state_dict_hook zeros
    """,
    "distributed._shard.sharding_spec": """
        ChunkShardingSpec DevicePlacementSpec EnumerableShardingSpec PlacementSpec ShardMetadata
        ShardingSpec
    """,
    "distributed._state_dict_utils": """
        _broadcast_state_dict _copy_state_dict _create_cpu_state_dict _flatten_state_dict
        _gather_state_dict _offload_state_dict_to_cpu _unflatten_state_dict
    """,
    "distributed.algorithms": "Join(notify_join_context) JoinHook Joinable",
    "distributed.algorithms.ddp_comm_hooks": "DDPCommHookType register_ddp_comm_hook",
    "distributed.algorithms.ddp_comm_hooks.ddp_zero_hook": """
        hook_with_zero_step hook_with_zero_step_interleaved
    """,
    "distributed.algorithms.ddp_comm_hooks.debugging_hooks": "noop_hook",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": """
        allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook
        fp16_compress_wrapper
    """,
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": """
        PostLocalSGDState post_localSGD_hook
    """,
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": """
        PowerSGDState batched_powerSGD_hook powerSGD_hook
    """,
    "distributed.algorithms.ddp_comm_hooks.quantization_hooks": """
        quantization_perchannel_hook quantization_pertensor_hook
    """,
    "distributed.algorithms.model_averaging": "",
    "distributed.algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "distributed.algorithms.model_averaging.hierarchical_model_averager": """
        HierarchicalModelAverager
    """,
    "distributed.algorithms.model_averaging.utils": """
        average_parameters average_parameters_or_parameter_groups get_params_to_average
    """,
    "distributed.device_mesh": "DeviceMesh(from_group) init_device_mesh",
    "distributed.distributed_c10d": """
        ProcessGroup ProcessGroupGloo ProcessGroupMPI ProcessGroupNCCL P2POp Work AllToAllOptions
        AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions BroadcastOptions
        GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions Reducer GradBucket Logger
        BuiltinCommHookType all_gather all_gather_coalesced all_gather_into_tensor all_gather_object
        all_gather_single all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier
        batch_isend_irecv breakpoint broadcast broadcast_object_list destroy_process_group gather
        gather_object get_backend get_backend_config get_global_rank get_group_rank
        get_process_group_ranks get_rank get_world_size init_process_group irecv isend
        monitored_barrier new_group new_subgroups new_subgroups_by_enumeration record_comm recv
        recv_object_list reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter
        scatter_object_list send send_object_list shrink_group split_group
        _all_gather_base _broadcast_coalesced _coalescing_manager _create_process_group_wrapper
        _get_default_group _get_default_store _get_group_size _get_group_size_by_name
        _get_pg_default_device _get_process_group_name _new_process_group_helper
        _object_to_tensor _rank_not_in_group _reduce_scatter_base _resolve_process_group
        _tensor_to_object
    """,
    "distributed.fsdp": """
        FSDPModule FullyShardedDataParallel(clip_grad_norm_ flatten_sharded_optim_state_dict
        fsdp_modules full_optim_state_dict get_state_dict_type optim_state_dict
        optim_state_dict_to_load rekey_optim_state_dict scatter_full_optim_state_dict
        set_state_dict_type shard_full_optim_state_dict sharded_optim_state_dict state_dict_type
        summon_full_params) UnshardHandle fully_shard register_fsdp_forward_method share_comm_ctx
    """,
    "distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "distributed.launcher": "LaunchConfig elastic_launch launch_agent",
    "distributed.pipelining": """
        Pipe PipelineScheduleMulti PipelineScheduleSingle PipelineStage Schedule1F1B
        ScheduleDualPipeV ScheduleGPipe
        ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble ScheduleLoopedBFS
        ScheduleZBVZeroBubble SplitPoint build_stage get_schedule_class pipe_split pipeline
    """,
    "distributed.tensor": """
        DTensor(from_local) distribute_module distribute_tensor empty full ones rand randn zeros
    """,
    "distributed.tensor._dtensor_spec": "DTensorSpec TensorMeta",
    "distributed.tensor._random": "OffsetBasedRNGTracker is_rng_supported_mesh manual_seed",
    "distributed.tensor._utils": "compute_local_shape_and_global_offset compute_local_shape",
    "distributed.tensor.debug": "CommDebugMode visualize_sharding",
    "distributed.tensor.experimental": """
        context_parallel implicit_replication local_map register_sharding
    """,
    "distributed.tensor.experimental._attention": "context_parallel set_rotate_method",
    "distributed.tensor.parallel": """
        ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
        PrepareModuleOutput RowwiseParallel SequenceParallel loss_parallel parallelize_module
    """,
    "distributed.tensor.parallel.ddp": "_localize_dtensor _pre_dp_module_transform",
    "distributed.tensor.parallel.fsdp": "DTensorExtensions",
    "distributed.utils": """
        _alloc_storage _free_storage _recursive_to _sync_module_states _sync_params_and_buffers
        _to_kwargs _verify_param_shape_across_processes
    """,
}
_NO_AGENT: Final = (
    "fastdist's launcher has no agents and rendezvous handlers of PyTorch: start workers with "
    "`fastdist run` or `python -m torch.distributed.run`"
)
_LAUNCHER: Final = {
    "distributed.elastic.agent": "",
    "distributed.elastic.agent.server": """
        ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec WorkerState
    """,
    "distributed.elastic.events": "Event EventSource record",
    "distributed.elastic.metrics": "configure prof put_metric",
    "distributed.elastic.multiprocessing": """
        DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext RunProcsResult
        SignalException Std SubprocessContext start_processes
    """,
    "distributed.elastic.rendezvous": """
        RendezvousHandler RendezvousHandlerRegistry RendezvousInfo RendezvousParameters
        RendezvousStoreInfo
    """,
    "distributed.elastic.rendezvous.dynamic_rendezvous": "DynamicRendezvousHandler create_handler",
    "distributed.elastic.timer": "TimerClient TimerServer configure expires",
    "distributed.elastic.utils": "get_env_variable_or_raise get_socket_with_port",
    "distributed.elastic.utils.distributed": "get_free_port get_socket_with_port",
}
ROWS: Final = {
    **{module: (NO_COLLECTIVES, names) for module, names in _COLLECTIVES.items()},
    **{module: (_NO_AGENT, names) for module, names in _LAUNCHER.items()},
}
