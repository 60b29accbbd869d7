"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..ops.create.creation import empty
from ..ops.nn.multihead_attention import added_mask, in_turn
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .linear import Linear
from .module import Module


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention: a Linear under PyTorch's class name."""


class MultiheadAttention(Module):
    """Attention with num_heads heads. Each head uses embed_dim / num_heads features of the
    projected queries, keys and values. The results of the heads are concatenated and projected.

    Shape   (n, batch, embed_dim), (m, batch, kdim), (m, batch, vdim) -> (n, batch, embed_dim) and
            weights (batch, n, m). With batch_first, inputs and output have the batch as first axis.
            The batch axis is optional
    Source  Vaswani et al. 2017, "Attention Is All You Need"
    Raises  ValueError if embed_dim or num_heads is not positive; AssertionError if embed_dim is not
            divisible by num_heads or, in a call, if the last axis of an input has a wrong length

    Args:
        embed_dim: The length of each query and each result.
        num_heads: The number of heads, a divisor of embed_dim.
        dropout: The probability with which an attention weight is dropped in training.
        bias: Whether the projections add a bias.
        add_bias_kv: Whether to append a learned key and a learned value.
        add_zero_attn: Whether to append a key and a value of zeros.
        kdim: The length of each key; embed_dim if None.
        vdim: The length of each value; embed_dim if None.
        batch_first: Whether the batch is the first axis instead of the second.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of the parameters; the default dtype if None.

    Example:
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.zeros(1, 5, 8)
        >>> output, weights = layer(x, x, x)
        >>> output.shape, weights.shape
        (fastdist.Size([1, 5, 8]), fastdist.Size([1, 5, 5]))
    """

    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads: {embed_dim} by {num_heads}"
            )
        is_same = self._qkv_same_embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if is_same else None,
            "q_proj_weight": None if is_same else (embed_dim, embed_dim),
            "k_proj_weight": None if is_same else (embed_dim, self.kdim),
            "v_proj_weight": None if is_same else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, shape in shapes.items():
            self._register(name, shape, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        for name in ("bias_k", "bias_v"):
            self._register(name, (1, 1, embed_dim) if add_bias_kv else None, device, dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _register(
        self, name: str, shape: tuple[int, ...] | None, device: Any, dtype: DType | None
    ) -> None:
        made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
        self.register_parameter(name, made)

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            assert self.out_proj.bias is not None
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output, and the weights if need_weights is set (else None).

        In a bool key_padding_mask, True masks a key for all queries. In a bool attn_mask, True
        masks a key for one query.
        """
        padding = added_mask(
            key_padding_mask, "key_padding_mask", query.dtype, attn_mask, "attn_mask"
        )
        mask = added_mask(attn_mask, "attn_mask", query.dtype)
        turns = self.batch_first and query.dim() == 3
        if turns:
            query, key, value = in_turn(query, key, value, _turned)
        found, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=padding,
            need_weights=need_weights,
            attn_mask=mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (found.transpose(0, 1) if turns else found), weights


def _turned(one: Any) -> Any:
    return one.transpose(0, 1) if one.dim() == 3 else one
