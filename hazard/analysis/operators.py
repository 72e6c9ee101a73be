"""Facts about operators, by name, that argument conventions alone do not tell.

Names are those of torch's operators; ``tests/test_operators.py`` compares the sets with torch's own schemas and tags
where torch is installed.
"""

from __future__ import annotations

from typing import Final

#: Kernels that compute each element of the result from the same element of the operands, and nothing else
#: (``torch.Tag.pointwise``, and copies that keep the layout). One of them may write exactly over an operand.
ELEMENTWISE: Final = frozenset(
    """
    abs acos acosh add addcdiv addcmul alias_copy angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip clone
    conj_physical copysign cos cosh deg2rad detach_copy digamma div elu eq erf erfc erfinv exp exp2 expm1 floor
    floor_divide fmax fmin fmod frac gelu gelu_backward ge gt hardshrink hardsigmoid hardswish hardtanh heaviside
    hypot i0 isfinite isinf isnan isneginf isposinf le leaky_relu lerp lgamma lift_fresh_copy log log10 log1p log2
    log_sigmoid logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum
    minimum mish mul nan_to_num native_dropout_backward ne neg nextafter polygamma positive pow rad2deg reciprocal
    relu relu6 remainder round rsqrt rsub selu sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin sinc
    sinh softplus softshrink sqrt square squeeze_copy sub tan tanh tanh_backward threshold threshold_backward
    to_copy true_divide trunc unsqueeze_copy view_copy where xlogy
    _to_copy _to_dim_order_copy _clone_dim_order _unsafe_view reshape_copy flatten_copy
    quantize_per_tensor dequantize_per_tensor
    """.split()
)

#: Operators whose result is not a function of their operands; their results never get a value number.
NONDETERMINISTIC: Final = frozenset(
    """
    alpha_dropout bernoulli bernoulli_ cauchy cauchy_ dropout exponential exponential_ geometric geometric_ gru
    log_normal log_normal_ lstm multinomial native_dropout normal normal_ poisson rand rand_like randint randint_like
    randn randn_like randperm rnn_relu rnn_tanh rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_functional uniform
    uniform_ _fused_dropout _standard_gamma _cudnn_rnn miopen_rnn _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _efficient_attention_forward _flash_attention_forward
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math_for_mps
    _flash_attention_forward_no_dropout_inplace _cudnn_init_dropout_state _fill_mem_eff_dropout_mask_ _lstm_mps
    _sample_dirichlet _triton_scaled_dot_attention alpha_dropout_ binomial dropout_ feature_alpha_dropout_
    feature_dropout_ random random_ rrelu_
    """.split()
)

#: Operators that read no element of their first operand, only its sizes and dtype.
SHAPE_READERS: Final = frozenset(
    """
    full_like zeros_like ones_like empty_like rand_like randn_like randint_like new_empty new_full new_ones new_zeros
    new_empty_strided copy sym_size sym_numel sym_stride size numel expand_as view_as
    _empty_dim_order
    """.split()
)

#: Operators whose result has no defined contents; reading it is no fault of memory.
UNDEFINED: Final = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided _empty_dim_order".split()
)

#: In-place operators that write the whole of their first operand without reading it.
OVERWRITES: Final = frozenset("copy_ fill_ zero_ normal_ uniform_ bernoulli_ random_ exponential_".split())

#: Kernels whose result has the elements of their only operand in the same order.
PLAIN_COPIES: Final = frozenset(
    "copy_ clone alias_copy detach_copy lift_fresh_copy view_copy unsqueeze_copy squeeze_copy _clone_dim_order".split()
)

#: Kernels that write a part of their result before they have read all operands: those that begin with a copy of self
#: and then patch it, and those that put operands side by side.
COPY_FIRST: Final = frozenset(
    """
    index_put scatter scatter_add scatter_reduce masked_scatter slice_scatter select_scatter diagonal_scatter index_copy
    index_add index_fill cat stack addmm addmv addbmm baddbmm addr
    """.split()
)

#: Namespaces whose out variants write their results and nothing else.
FUNCTIONAL_NAMESPACES: Final = frozenset("aten dim_order_ops quantized_decomposed et_copy executorch_prim".split())

#: Custom operators that ExecuTorch itself ships and that do more than write their results, by positions of the schema
#: (``extension/llm/custom_ops`` upstream): which arguments they change in part.
CUSTOM_UPDATES: Final[dict[str, tuple[int, ...]]] = {
    "llama::update_cache.out": (1,),
    "llama::update_cache_with_indices.out": (1,),
    "llama::sdpa_with_kv_cache.out": (3, 4),
    "llama::update_quantized_cache.out": (1,),
    "executorch::update_cross_attn_cache.out": (1,),
    "llama::custom_sdpa.out": (),
    "llama::custom_quantized_sdpa.out": (),
    "llama::fast_hadamard_transform.out": (),
}

#: Comparisons: the answer in terms of less, equal, greater, unordered.
COMPARISONS: Final[dict[str, frozenset[str]]] = {
    "lt": frozenset("<"), "le": frozenset("<="), "gt": frozenset(">"), "ge": frozenset(">="), "eq": frozenset("="),
    "ne": frozenset("<>?"),
}  # fmt: skip


def base_name(operator: str) -> str:
    """``add`` of ``aten::add.out``."""
    return operator.partition("::")[2].partition(".")[0]


def namespace(operator: str) -> str:
    """``aten`` of ``aten::add.out``."""
    return operator.partition("::")[0]


def is_in_place(operator: str) -> bool:
    """Whether by its name an operator changes its first operand: ``aten::add_``."""
    name = base_name(operator)
    return name.endswith("_") and not name.startswith("__")


def is_reinplaced(operator: str) -> bool:
    """Whether an operator of a program is one that ExecuTorch's pass for working in place has put there.

    Export leaves no others but ``copy_``, which writes back state and starts the carries of loops.
    """
    return namespace(operator) == "aten" and is_in_place(operator) and base_name(operator) != "copy_"
