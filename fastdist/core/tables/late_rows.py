"""Implemented names that load on first use: (module below fastdist, defining module, names).

"Storage=UntypedStorage" means that `Storage` is called `UntypedStorage` in the defining module;
"_functorch=." means that `_functorch` is the defining module itself.
"""

from __future__ import annotations

from typing import Final

_NATIVE: Final = """
    _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _cast_Byte _cast_Char
    _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _disable_dynamo
    _fused_sdp_choice _has_compatible_shallow_copy_type _int_mm _log_softmax_backward_data
    _scaled_mm _shape_as_tensor _softmax_backward_data fake_quantize_per_channel_affine
    fake_quantize_per_tensor_affine native_channel_shuffle native_dropout native_layer_norm
    saddmm set_vital
"""
_TORCH_FUNCTION: Final = """
    handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic
"""
_PIPES: Final = """
    DFIterDataPipe IterDataPipe MapDataPipe argument_validation functional_datapipe
    guaranteed_datapipes_determinism non_deterministic runtime_validation
    runtime_validation_disabled
"""
ROWS: Final = (
    ("", "namespace.native_names", _NATIVE),
    ("", "", "hsmm=dsmm"),
    ("", "ops.linalg.grouped_products", "_grouped_mm=grouped_mm"),
    ("", "_C", "DispatchKeySet DisableTorchFunctionSubclass"),
    ("", "core.device", "DeviceObjType=Device"),
    ("", "core.quantization_schemes", """
        per_channel_affine per_channel_affine_float_qparams per_channel_symmetric
        per_tensor_affine per_tensor_symmetric qscheme
    """),
    ("", "tensor.typed_storage", "Storage=UntypedStorage StorageBase=UntypedStorage"),
    ("_C", "core.torch_function", "_DisableTorchDispatch=DisableTorchFunctionSubclass"),
    ("_C", "core.device", "device=Device"),
    ("_C", "core.dtypes", "dtype=DType"),
    ("_C", "_C.privates", """
        _GLIBCXX_USE_CXX11_ABI _current_graph_task_id _get_accelerator _get_cudnn_enabled
        _get_dispatch_mode _is_tracing
    """),
    ("_C", "__config__", "_show_config=show"),
    ("_C", "tensor.tensor", "TensorBase=Tensor"),
    ("accelerator", "cuda.memory", """
        max_memory_allocated max_memory_reserved memory_stats reset_accumulated_memory_stats
        reset_peak_memory_stats
    """),
    ("accelerator", "cuda", "get_device_capability get_memory_info=mem_get_info set_stream"),
    ("autograd", "autograd.privates", "_disable_profiler _profiler_enabled kineto_available"),
    ("autograd", "autograd.privates", "_is_checkpoint_valid"),
    ("autograd", "overrides", "handle_torch_function has_torch_function"),
    ("autograd.function", "autograd.privates", "InplaceFunction"),
    ("autograd.graph", "autograd.variable", "Variable"),
    ("backends.cuda", "backends.sdp_questions", """
        SDPAParams can_use_cudnn_attention can_use_efficient_attention can_use_flash_attention
    """),
    ("cpu", "cpu.capabilities", """
        _is_amx_tile_supported _is_avx2_supported _is_avx512_bf16_supported _is_avx512_supported
        _is_vnni_supported get_capabilities
    """),
    ("cuda.amp", "amp.grad_scaler", "OptState _refresh_per_optimizer_state"),
    ("data", "data.pipes", _PIPES),
    ("data.ready_pipes", "data.ready_pipes", """
        callable=. combinatorics=. combining=. filelister=. fileopener=. grouping=.
        routeddecoder=. selecting=. sharding=. streamreader=. utils=.
    """),
    ("distributions.transforms", "distributions.private_names", "_clipped_sigmoid"),
    ("hub", "utils.progress", "tqdm"),
    ("nn", "nn.private_names", "factory_kwargs"),
    ("nn", "nn._reduction", "_reduction=."),
    ("nn", "nn.grad", "grad=."),
    ("nn.attention", "backends.sdp_questions", """
        SDPAParams can_use_efficient_attention can_use_flash_attention
        current_flash_attention_impl list_flash_attention_impls restore_flash_attention_impl
    """),
    ("nn.functional", "overrides", _TORCH_FUNCTION),
    ("nn.functional", "namespace.native_names", "ScalingType SwizzleType scaled_mm"),
    ("functional", "nn.functional", "F=."),
    ("", "_C.classes", "classes=."),
    ("_utils", "utils.checkpoint_privates", "_get_device_module"),
    ("nn.functional", "nn.private_names", "_canonical_mask _mha_shape_check"),
    ("nn.utils.stateless", "nn.utils._named_member_accessor", "NamedMemberAccessor"),
    ("types", "_C", "DispatchKey"),
    ("types", "tensor.layout", "Size"),
    ("types", "tensor.tensor", "Tensor"),
    ("types", "namespace.control_flow", "SymBool SymFloat SymInt"),
    ("types", "tensor.typed_storage", "Storage=UntypedStorage"),
    ("utils", "utils.swapping", "swap_tensors"),
    ("utils", "utils._triton", "_triton=."),
    ("utils", "utils.cpp_extension", "cpp_extension=."),
    ("utils", "utils.weak", "weak=."),
    ("utils.checkpoint", "utils.checkpoint_privates", """
        DefaultDeviceType _DEFAULT_DETERMINISM_MODE _get_autocast_kwargs
        _get_device_module _infer_device_type check_backward_validity
    """),
    ("utils.data", "data.pipes", _PIPES),
)  # fmt: skip
