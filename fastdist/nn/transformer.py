"""The Transformer: encoder, decoder and their layers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

from ..core.dtypes import DType
from ..ops.create.creation import full
from ..ops.nn.multihead_attention import added_mask
from ..tensor.tensor import Tensor
from . import functional, init
from .activation import GELU, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def generate_square_subsequent_mask(
    sz: int, device: Any = None, dtype: DType | None = None
) -> Tensor:
    """Return the causal mask to add to scores: -inf above the diagonal, else 0."""
    return full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)


def _activation_of(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    found: Callable[[Tensor], Tensor] = getattr(functional, activation)
    return found


def _relu_or_gelu(activation: Callable[[Tensor], Tensor]) -> int:
    """Return PyTorch's number of an activation: 1 for ReLU, 2 for GELU, 0 for any other."""
    if activation is functional.relu or isinstance(activation, ReLU):
        return 1
    return 2 if activation is functional.gelu or isinstance(activation, GELU) else 0


def _is_causal(mask: Any, is_causal: bool | None, size: int) -> bool:
    """Return is_causal; if it is None, return whether mask equals the causal mask."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal: Any = generate_square_subsequent_mask(size, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _length(given: Tensor, batch_first: bool) -> int:
    return given.shape[1 if batch_first and given.dim() == 3 else 0]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class _Layer(Module):
    """Base of encoder and decoder layers: the feed-forward part and the residual connections."""

    # The attribute names of the attention blocks in order; the feed-forward block comes after them.
    _attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        rest: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            made = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, **rest
            )
            setattr(self, name, made)
        self.linear1 = Linear(d_model, dim_feedforward, **rest)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **rest)
        rounds = range(1, len(self._attentions) + 2)
        for i in rounds:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, **rest))
        for i in rounds:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.norm_first = norm_first
        self.activation = _activation_of(activation)
        self.activation_relu_or_gelu = _relu_or_gelu(self.activation)

    def _feed_forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return found

    def _round(self, x: Any, i: int, part: Callable[[Any], Any]) -> Any:
        """Apply block i and its residual connection; normalise the block's input or the sum."""
        norm, thinned = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        if self.norm_first:
            return x + thinned(part(norm(x)))
        return norm(x + thinned(part(x)))


class TransformerEncoderLayer(_Layer):
    """A self-attention block, then a block of two linear layers, each with a residual connection.

    Shape   (n, batch, d_model), or (batch, n, d_model) with batch_first, or (n, d_model) -> the
            same shape
    Source  Vaswani et al. 2017, "Attention Is All You Need"; Xiong et al. 2020 for norm_first
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return src after self-attention and the feed-forward block."""
        padding = added_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, "src_mask"
        )
        mask = added_mask(src_mask, "src_mask", src.dtype)

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(  # type: ignore[no-any-return]
                x,
                x,
                x,
                attn_mask=mask,
                key_padding_mask=padding,
                need_weights=False,
                is_causal=is_causal,
            )[0]

        return self._round(self._round(src, 1, attend), 2, self._feed_forward)  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output (memory), then two linear layers.

    Shape   tgt (n, batch, d_model), memory (m, batch, d_model) -> (n, batch, d_model); with
            batch_first, the batch axis is the first; all inputs may also lack the batch axis
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return tgt after self-attention, attention to memory and the feed-forward block."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(  # type: ignore[no-any-return]
                x,
                x,
                x,
                attn_mask=tgt_mask,
                key_padding_mask=tgt_key_padding_mask,
                is_causal=tgt_is_causal,
                need_weights=False,
            )[0]

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(  # type: ignore[no-any-return]
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                is_causal=memory_is_causal,
                need_weights=False,
            )[0]

        x = self._round(self._round(tgt, 1, attend), 2, attend_to_memory)
        return self._round(x, 3, self._feed_forward)  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """Applies num_layers copies of an encoder layer in order.

    Note    enable_nested_tensor and mask_check are ignored: padded positions are computed like all
            other positions
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return src after all layers.

        If is_causal is None, it is set by a comparison of mask with the causal mask.
        """
        padding = added_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype, mask, "mask")
        mask = added_mask(mask, "mask", src.dtype)
        length = _length(src, self.layers[0].self_attn.batch_first)
        causal = _is_causal(mask, is_causal, length)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Applies num_layers copies of a decoder layer in order; all attend to the same memory."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return tgt after all layers.

        If tgt_is_causal is None, it is set by a comparison of tgt_mask with the causal mask.
        """
        length = _length(tgt, self.layers[0].self_attn.batch_first)
        causal = _is_causal(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder, and a decoder that attends to the encoder's output.

    Shape   src (n, batch, d_model), tgt (m, batch, d_model) -> (m, batch, d_model); with
            batch_first, the batch axis is the first; both inputs may also lack the batch axis
    Source  Vaswani et al. 2017, "Attention Is All You Need"
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        settings = *sizes, batch_first, norm_first, bias
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*settings, **place)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*settings, **place)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    generate_square_subsequent_mask = staticmethod(generate_square_subsequent_mask)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output for tgt, with the encoder's output for src as its memory.

        Raises  RuntimeError if the batch sizes of src and tgt differ, or if the last axis of either
                does not have d_model elements
        """
        axis = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[axis] != tgt.shape[axis]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
