"""Settings of PyTorch's compiler: programs may set them, and they have no effect."""

from __future__ import annotations

from ..core.settings_patch import patch_of

cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
disable = True
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_file_name: str | None = None
optimize_ddp = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False

patch = patch_of(__name__)
