"""Single names that can be imported but raise when used: (module below fastdist, reason, names).

A name whose first letter is a capital is a class; all others are functions. Modules in which all
names are refused are in refused_names.py.
"""

from __future__ import annotations

from typing import Final

from ..refusal_words import NO_GRAPHS

_NO_QUANTIZATION: Final = "quantized tensors are not supported: compute in float16 or float32"
_COO_ALONE: Final = "sparse_coo is the only sparse layout: to_sparse() makes it"
_NO_SUBCLASS_MEMORY: Final = (
    "a tensor without memory that only passes calls on is not supported: write "
    "__torch_function__ on a subclass that holds the tensor"
)
_NO_KERNEL: Final = "an internal function of PyTorch's libraries: use nn.functional's"
_NO_PIPES: Final = "ready-made pipes are not here: write a Dataset or an IterDataPipe of your own"
_NO_MEMORY_LOG: Final = "allocations are not logged: cuda.memory_stats() counts them"
ROWS: Final = (
    ("", _NO_QUANTIZATION, """
        choose_qparams_optimized dequantize empty_quantized fused_moving_avg_obs_fake_quant int_repr
        q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
        quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
        quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
        _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
        _convert_weight_to_int4pack _weight_int8pack_mm
    """),
    ("", _COO_ALONE, """
        ccol_indices_copy col_indices_copy crow_indices_copy row_indices_copy sparse_bsc_tensor
        sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor
        _cslt_compress _cslt_sparse_mm _sparse_semi_structured_apply
        _sparse_semi_structured_apply_dense _sparse_semi_structured_tile
    """),
    ("", "nested tensors are not supported: pad_sequence() and a mask, or lists of tensors", """
        _nested_compute_contiguous_strides_offsets _nested_view_from_buffer
    """),
    ("", _NO_KERNEL, """
        _scaled_grouped_mm _segment_reduce batch_norm_backward_elemt batch_norm_backward_reduce
        batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts
        batch_norm_stats batch_norm_update_stats cudnn_affine_grid_generator cudnn_batch_norm
        cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
        cudnn_convolution_transpose cudnn_grid_sampler miopen_batch_norm miopen_convolution
        miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
        miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d
        mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d
        mkldnn_rnn_layer native_batch_norm native_group_norm native_norm
        fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
    """),
    ("", NO_GRAPHS, """
        import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir
        parse_schema parse_type_comment unify_type_list
    """),
    ("_C", "part of PyTorch's C++ library, which is not here", """
        ScriptObject Tag _current_autograd_node _cuda_releasePool _dispatch_dump
        _dispatch_has_kernel_for_dispatch_key _dispatch_key_for_device _get_sdp_priority_order
        _storage_Use_Count _will_engine_execute_node _TorchDispatchModeKey
    """),
    ("", "part of PyTorch's C++ library, which is not here", "Tag"),
    ("_utils", _NO_QUANTIZATION, "_rebuild_qtensor"),
    ("autograd.graph", "saved tensors are checked by their versions; clone() before a change", """
        allow_mutation_on_saved_tensors
    """),
    ("compiler", NO_GRAPHS, """
        load_cache_artifacts load_compiled_function save_cache_artifacts
    """),
    ("cuda", _NO_MEMORY_LOG, """
        caching_allocator_disabled caching_allocator_enable change_current_allocator
        host_memory_stats host_memory_stats_as_nested_dict memory_snapshot
        reset_accumulated_host_memory_stats reset_peak_host_memory_stats
        GreenContext
    """),
    ("cuda.memory", _NO_MEMORY_LOG, "_dump_snapshot _record_memory_history _snapshot"),
    ("data", _NO_PIPES, "DataChunk"),
    ("func", NO_GRAPHS, "functionalize debug_unwrap"),
    ("fx", NO_GRAPHS, "GraphAppendingTracer"),
    ("hub", "fastdist fetches no repositories: clone it yourself", "_validate_not_a_forked_repo"),
    ("jit", NO_GRAPHS, "_recursive"),
    ("library", NO_GRAPHS, "_defs"),
    ("nn.attention", "attention runs fastdist's own kernel on each device", """
        activate_flash_attention_impl register_flash_attention_impl
    """),
    ("nn.functional", "scaled_mm takes two matrices", "scaled_grouped_mm"),
    ("serialization", "save() writes, and load() reads, all of a file", """
        set_default_mmap_options skip_data
    """),
    ("sparse", _COO_ALONE, """
        SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT
        SparseSemiStructuredTensorCUTLASS to_sparse_semi_structured
    """),
    ("utils._python_dispatch", _NO_SUBCLASS_MEMORY, "return_and_correct_aliasing"),
    ("utils.data._utils.worker", "workers of the loader are fastdist's own", """
        ManagerWatchdog _IterableDatasetStopIteration _ResumeIteration
    """),
    ("utils.data._utils.pin_memory", "the loader pins batches itself", "_pin_memory_loop"),
    ("utils.data.dataloader", "the loader shards nothing itself", "_sharding_worker_init_fn"),
    ("data.ready_pipes", "read files in an IterDataPipe of your own", """
        Demultiplexer FileLister FileOpener Forker Grouper Multiplexer Sampler StreamReader
        UnBatcher
    """),
    ("distributed.checkpoint", "distributed.checkpoint.save() and load() do it", """
        load_state_dict save_state_dict
    """),
    ("distributed.checkpoint.format_utils", "distributed.checkpoint.load() reads a job's state", """
        _EmptyStateDictLoadPlanner _load_state_dict
    """),
    ("utils", "it configures PyTorch's C++ library, which fastdist does not have", """
        ThroughputBenchmark generate_methods_for_privateuse1_backend rename_privateuse1_backend
    """),
    ("utils.benchmark", "benchmark.Timer measures in Python alone", """
        CallgrindStats Compare CopyIfCallgrind FunctionCount FunctionCounts FuzzedParameter
        FuzzedSparseTensor FuzzedTensor Fuzzer
    """),
    ("utils.checkpoint", "checkpoint() computes all of a function again: use two of them", """
        _checkpoint_without_reentrant_generator
    """),
    ("utils.data", _NO_PIPES, "DataChunk"),
    ("utils.hooks", "Module.register_full_backward_hook calls a function", "BackwardHook"),
)  # fmt: skip
