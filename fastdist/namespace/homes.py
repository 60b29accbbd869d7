"""The names of `fastdist` that are imported at first use, and the module of each name."""

from __future__ import annotations

from .names import words

_ROOMS = {
    "_C": "DispatchKey PyTorchFileReader PyTorchFileWriter TensorType",
    "accelerator": "Event Stream get_device_module",
    "amp": "GradScaler autocast",
    "amp.autocast_mode": "get_autocast_dtype is_autocast_enabled",
    "amp.switches": """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cache_enabled
        is_autocast_cpu_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
        set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
    """,
    "backends": "has_lapack has_mkl has_openmp has_spectral",
    "compiler": "compile",
    "core.named_dtypes": """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 int1 int2 int3
        int4 int5 int6 int7 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5
        uint6 uint7
    """,
    "futures": "Future",
    "jit": "ScriptFunction ScriptModule",
    "namespace.checks": """
        _assert _assert_async _check _check_index _check_is_size _check_not_implemented
        _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with
    """,
    "namespace.control_flow": """
        SymBool SymFloat SymInt cond sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt
        sym_sum while_loop
    """,
    "namespace.vmap": "vmap",
    "namespace.typename": "get_device get_file_path is_distributed is_inference typename",
    "nn.functional": "conv_tbc celu_ rrelu_ selu_ threshold_",
    "nn.positional": """
        adaptive_max_pool1d affine_grid_generator alpha_dropout alpha_dropout_ batch_norm
        binary_cross_entropy_with_logits constant_pad_nd cosine_embedding_loss ctc_loss dropout
        dropout_ embedding embedding_bag embedding_renorm_ feature_alpha_dropout
        feature_alpha_dropout_ feature_dropout feature_dropout_ grid_sampler
        grid_sampler_2d grid_sampler_3d group_norm hinge_embedding_loss instance_norm kl_div
        margin_ranking_loss poisson_nll_loss triplet_margin_loss
    """,
    "nn.utils.parametrizations": "norm_except_dim",
    "ops.create.from_memory": """
        asarray empty_permuted empty_strided from_file frombuffer scalar_tensor
    """,
    "ops.reduce.segment_reduce": "segment_reduce",
    "ops.reduce.gradient": "gradient",
    "ops.shape.view_copies": """
        alias_copy as_strided_copy detach_copy diagonal_copy expand_copy fill indices_copy
        permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy
        transpose_copy unbind_copy unfold_copy unsqueeze_copy values_copy
        view_as_complex_copy view_as_real_copy view_copy
    """,
    "serialization": "load save",
    "signal.windows": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window
    """,
}
HOMES = {name: room for room, names in _ROOMS.items() for name in sorted(words(names))}
