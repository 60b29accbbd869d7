"""The names that raise an error when used, by module: see refused.py.

A row is the module below `fastdist.`, the reason, and the names. Names that begin with a capital
letter are classes, with their static and class methods in parentheses; all others are functions.
"""

from __future__ import annotations

from typing import Final

from .refusal_words import NO_COLLECTIVES, NO_GRAPHS

_COLLECTIVES: Final = {
    "distributed._composable": "checkpoint contract fully_shard replicate",
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
    "distributed.algorithms.ddp_comm_hooks.ddp_zero_hook": """
        hook_with_zero_step hook_with_zero_step_interleaved
    """,
    "distributed.algorithms.ddp_comm_hooks.quantization_hooks": """
        quantization_perchannel_hook quantization_pertensor_hook
    """,
    "distributed.distributed_c10d": """
        ProcessGroupMPI ProcessGroupNCCL Reducer Logger BuiltinCommHookType
        breakpoint record_comm shrink_group _create_process_group_wrapper
        _new_process_group_helper _object_to_tensor _tensor_to_object
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
        _alloc_storage _free_storage
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
_GRAPHS: Final = {
    "_inductor": "aot_compile list_mode_options list_options",
    "_inductor.cpu_vec_isa": "pick_vec_isa valid_vec_isa_list",
    "_inductor.runtime": "",
    "_inductor.runtime.cache_dir_utils": "cache_dir",
    "_inductor.utils": "run_and_get_code",
    "_subclasses": "FakeTensor FakeTensorMode",
    "_subclasses.functional_tensor": "FunctionalTensor FunctionalTensorMode",
    "_subclasses.meta_utils": "MetaConverter",
    "export": """
        AdditionalInputs CustomDecompTable Dim(AUTO DYNAMIC STATIC) ExportBackwardSignature
        ExportGraphSignature ExportedProgram ModuleCallEntry ModuleCallSignature ShapesCollection
        UnflattenedModule default_decompositions dims draft_export export export_for_training load
        register_dataclass save unflatten
    """,
    "export._trace": "_export",
    "export.decomp_utils": "CustomDecompTable",
    "export.dynamic_shapes": "Dim dims",
    "export.unflatten": "UnflattenedModule unflatten",
    "fx": "replace_pattern",
    "fx._pytree": "register_pytree_flatten_spec tree_flatten_spec",
    "fx.experimental.optimization": "fuse optimize_for_inference",
    "fx.operator_schemas": "get_signature_for_torch_op normalize_function normalize_module",
    "fx.passes": "",
    "fx.passes.infra": "",
    "fx.passes.infra.pass_base": "PassBase PassResult",
    "fx.passes.split_module": "split_module",
    "onnx": "ExportableModule InputObserver ONNXProgram",
    **{
        f"onnx.symbolic_opset{version}": "cat dropout masked_fill select softmax squeeze unsqueeze"
        for version in range(7, 21)
    },
}
_NO_QUANTIZATION: Final = "quantized tensors are not supported: compute in float16 or float32"
_QUANTIZATION: Final = {
    "ao": "",
    "ao.nn": "",
    "ao.nn.intrinsic": """
        BNReLU2d BNReLU3d ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d
        ConvReLU1d ConvReLU2d ConvReLU3d LinearBn1d LinearReLU
    """,
    "ao.nn.qat": "Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear",
    "ao.nn.quantized": """
        BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d DeQuantize Dropout ELU Embedding EmbeddingBag
        FXFloatFunctional FloatFunctional GroupNorm Hardswish InstanceNorm2d LayerNorm LeakyReLU
        Linear QFunctional Quantize ReLU6 Sigmoid Softmax
    """,
    "ao.nn.quantized.dynamic": "GRU LSTM Linear",
    "ao.pruning": "BaseSparsifier WeightNormSparsifier",
    "ao.quantization": """
        DeQuantStub FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FixedQParamsObserver
        FusedMovingAvgObsFakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver
        MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase PerChannelMinMaxObserver
        PlaceholderObserver QConfig QConfigDynamic QConfigMapping QuantStub QuantType QuantWrapper
        RecordingObserver ReuseInputObserver UniformQuantizationObserverBase add_quant_dequant
        convert default_debug_observer default_dynamic_quant_observer default_eval_fn
        default_fake_quant default_histogram_observer default_observer
        default_per_channel_weight_fake_quant default_per_channel_weight_observer
        default_placeholder_observer default_weight_fake_quant default_weight_observer
        disable_fake_quant disable_observer enable_fake_quant enable_observer fuse_conv_bn
        fuse_conv_bn_relu fuse_linear_bn fuse_modules fuse_modules_qat get_default_qat_qconfig
        get_default_qat_qconfig_mapping get_default_qconfig get_default_qconfig_mapping
        get_fuser_method get_observer_state_dict load_observer_state_dict no_observer_set prepare
        prepare_qat propagate_qconfig_ quantize quantize_dynamic quantize_qat swap_module
    """,
    "ao.quantization.fake_quantize": "FakeQuantize FakeQuantizeBase FusedMovingAvgObsFakeQuantize",
    "ao.quantization.fx": "",
    "ao.quantization.fx._decomposed": "dequantize_per_channel quantize_per_channel",
    "ao.quantization.observer": """
        HistogramObserver MinMaxObserver MovingAverageMinMaxObserver ObserverBase
        PerChannelMinMaxObserver PlaceholderObserver default_observer default_weight_observer
    """,
    "ao.quantization.qconfig": "QConfig get_default_qat_qconfig get_default_qconfig",
    "ao.quantization.qconfig_mapping": "QConfigMapping get_default_qconfig_mapping",
    "ao.quantization.quantize_fx": "convert_fx fuse_fx prepare_fx prepare_qat_fx",
    "ao.quantization.stubs": "DeQuantStub QuantStub QuantWrapper",
}
_NO_NESTED: Final = (
    "nested tensors are not supported: pad_sequence() and a mask, or a list of tensors"
)
_NO_MASKED: Final = "masked tensors are not supported: where() and masked_fill() take a mask"
_NO_PIPES: Final = "ready-made pipes are not here: write a Dataset or an IterDataPipe of your own"
_MORE: Final = {
    module: (words, names)
    for words, rows in {
        _NO_NESTED: {
            "nested": """
                as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged
                to_padded_tensor
            """,
            "nested._internal": "",
            "nested._internal.nested_tensor": "NestedTensor jagged_from_list",
        },
        _NO_MASKED: {
            "masked": "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor",
            "masked.maskedtensor": "MaskedTensor",
        },
        _NO_PIPES: {
            "utils.data.datapipes": "",
            "utils.data.datapipes.datapipe": """
                _IterDataPipeSerializationWrapper _MapDataPipeSerializationWrapper
            """,
            "utils.data.datapipes.map": "Batcher Concater Mapper SequenceWrapper Shuffler Zipper",
            "utils.data.datapipes.utils": "",
            "utils.data.datapipes.utils.common": "StreamWrapper",
            "utils.data.graph_settings": """
                apply_random_seed apply_sharding apply_shuffle_seed apply_shuffle_settings
                get_all_graph_pipes
            """,
        },
        NO_GRAPHS: {
            "utils.mobile_optimizer": "optimize_for_mobile",
            "_functorch.aot_autograd": """
                aot_export_joint_simple aot_export_module aot_function aot_module
                aot_module_simplified make_boxed_func
            """,
            "_functorch.partitioners": "default_partition min_cut_rematerialization_partition",
            "_C._cpu": "",
            "_C._autograd": "_supported_activities",
            "_C._profiler": "_ExperimentalConfig _EventType",
            "_decomp": "core_aten_decompositions get_decompositions register_decomposition",
            "_export": "aot_compile capture_pre_autograd_graph",
            "_guards": "TracingContext detect_fake_mode",
            "_prims_common": "check is_contiguous_for_memory_format",
            "_dynamo.compiled_autograd": "",
            "_dynamo.convert_frame": "",
            "_dynamo.testing": "CompileCounter",
            "_dynamo.trace_rules": "",
            "_dynamo.types": "",
            "_dynamo.variables": "",
            "_inductor.async_compile": "AsyncCompile",
            "_inductor.codegen": "",
            "_inductor.constant_folding": "constant_fold",
            "_inductor.cpp_builder": "get_cpp_compiler",
            "_inductor.custom_graph_pass": "CustomGraphPass get_hash_for_files",
            "_inductor.decomposition": "select_decomp_table",
            "_inductor.exc": "CppCompileError",
            "_inductor.freezing_utils": "maybe_set_is_frozen_param",
            "_inductor.fx_passes": "",
            "_inductor.ir": "IRNode TensorBox",
            "_inductor.kernel": "",
            "_inductor.lowering": "lowerings register_lowering",
            "_inductor.pattern_matcher": """
                Arg CallFunction KeywordArg Match PatternMatcherPass register_graph_pattern
                stable_topological_sort
            """,
            "_inductor.runtime.compile_tasks": "",
            "_inductor.runtime.hints": "DeviceProperties",
            "_inductor.select_algorithm": """
                ExternKernelChoice TritonTemplate autotune_select_algorithm
            """,
            "_inductor.sizevars": "SizeVarAllocator",
            "_inductor.virtualized": "",
            "fx.passes.infra.pass_manager": "PassManager",
            "fx.passes.utils": "",
            "fx.passes.utils.matcher_utils": "InternalMatch SubgraphMatcher",
            "fx.passes.utils.source_matcher_utils": "get_source_partitions",
            "fx.subgraph_rewriter": "Match replace_pattern replace_pattern_with_filters",
            "fx.traceback": "annotate get_current_meta preserve_node_meta",
            "nn.attention.experimental": "",
        },
        _NO_QUANTIZATION: {
            "ao.ns": "",
            "ao.ns.fx": "",
            "ao.ns.fx.utils": "compute_sqnr",
            "ao.quantization.backend_config": "BackendConfig BackendPatternConfig DTypeConfig",
            "ao.quantization.fx.custom_config": "ConvertCustomConfig PrepareCustomConfig",
            "ao.quantization.fx.graph_module": "ObservedGraphModule",
            "ao.quantization.fx.utils": "get_new_attr_name_with_prefix",
            "ao.quantization.utils": "get_combined_dict",
        },
        "pad the sequences and use scaled_dot_product_attention with a mask": {
            "nn.attention.varlen": "varlen_attn",
        },
        "vmap(grad(...)) gives gradients of each sample": {
            "nn.utils._per_sample_grad": "call_for_per_sample_grads",
        },
    }.items()
    for module, names in rows.items()
}
_NO_SHARDS: Final = "a job saves and loads its state with distributed.checkpoint.save() and load()"
_SHARDS: Final = {
    "distributed.checkpoint._consolidate_hf_safetensors": "consolidate_safetensors_files",
    "distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "distributed.checkpoint.optimizer": "load_sharded_optimizer_state_dict",
    "distributed.checkpoint.api": "CheckpointException",
    "distributed.checkpoint.default_planner": """
        DefaultLoadPlanner DefaultSavePlanner _EmptyStateDictLoadPlanner
        create_default_local_load_plan create_default_local_save_plan
    """,
    "distributed.checkpoint.planner": """
        LoadItemType LoadPlan LoadPlanner ReadItem SavePlan SavePlanner WriteItem WriteItemType
    """,
    "distributed.checkpoint.state_dict_loader": "_load_state_dict load load_state_dict",
    "distributed.checkpoint.state_dict_saver": "async_save save save_state_dict",
    "distributed.checkpoint.storage": "StorageReader StorageWriter WriteResult",
}
ROWS: Final = {
    **_MORE,
    **{module: (NO_COLLECTIVES, names) for module, names in _COLLECTIVES.items()},
    **{module: (_NO_AGENT, names) for module, names in _LAUNCHER.items()},
    **{module: (_NO_SHARDS, names) for module, names in _SHARDS.items()},
    **{module: (NO_GRAPHS, names) for module, names in _GRAPHS.items()},
    **{module: (_NO_QUANTIZATION, names) for module, names in _QUANTIZATION.items()},
}
