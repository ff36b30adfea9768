"""The shape of a drafter, read strictly from the `config.json` beside its weights: DFlash and DFlash2.

What drafters add to the Qwen3 configuration stands in `dflash_config`; older files have some of it at the top level,
and either place is read. A key that is not known here, and two that contradict each other, are errors. Sources:
`z-lab/dflash`, `vllm-project/vllm` `qwen3_dflash.py` and `qwen3_dflash2.py`.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocria.errors import ConfigError
from ocria.model.config import TextConfig
from ocria.model.strict import from_dict, read_json, reject_unknown
from ocria.spec.rules import MAX_WINDOW_LAYERS, LayerRule, layer_rules

# What concerns other software only, or is read with the weights. The drafter has neither embeddings nor a head, so that
# there is nothing to tie.
# fmt: off
_IGNORED = frozenset({
    "_attn_implementation_autoset", "_name_or_path", "attention_dropout", "auto_map", "bos_token_id", "dtype",
    "eos_token_id", "initializer_range", "pad_token_id", "quantization_config", "tie_word_embeddings", "torch_dtype",
    "transformers_version", "use_cache",
})
# fmt: on
_VERSIONS = {"DFlashDraftModel": 1, "DFlash2DraftModel": 2}


@dataclass(frozen=True)
class DrafterConfig:
    """One drafter. `version` 1 is DFlash, 2 is DFlash2; the last four sizes are 0 for DFlash."""

    version: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    num_target_layers: int
    block_size: int
    """Rows of a block: the anchor, and a draft for each row after it."""
    any_block_size: bool
    """Whether shorter blocks were trained too. Others draft badly in them: what a row says depends on how many there
    are."""
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    """Layers of the target whose outputs are the features; 0 is the first layer, not the embeddings."""
    layers: tuple[LayerRule, ...]
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    input_embedding_scale: float
    output_multiplier: float
    final_logit_softcapping: float | None
    conv_kernel_size: int
    conv_group_size: int
    selector_rank: int
    selector_top_k: int

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)

    @property
    def feature_size(self) -> int:
        """Values of a target row's features: the hidden states of all tapped layers, side by side."""
        return len(self.target_layer_ids) * self.hidden_size

    @classmethod
    def from_file(cls, path: str | Path) -> "DrafterConfig":
        """Read a drafter's `config.json`. Raises ConfigError."""
        return cls.from_dict(read_json(Path(path)), where=str(path))

    @classmethod
    def from_dict(cls, data: dict[str, Any], *, where: str = "config.json") -> "DrafterConfig":
        """From the object in a `config.json`; `where` names it in the ConfigError that a fault raises."""
        try:
            return _config(data)
        except ConfigError as error:
            raise ConfigError(error.message, path=where, cure=error.cure) from error

    def check_target(self, target: TextConfig) -> None:
        """Raise ConfigError unless this drafter can borrow the target's embeddings, head and hidden states."""
        pairs = {
            "hidden_size": (self.hidden_size, target.hidden_size),
            "vocab_size": (self.vocab_size, target.vocab_size),
            "num_target_layers": (self.num_target_layers, target.num_hidden_layers),
        }
        for name, (here, there) in pairs.items():
            if here != there:
                cure = "Use the drafter that was trained for this model."
                raise ConfigError(f"the drafter's {name} is {here}, and {there} in the model", cure=cure)


@dataclass(frozen=True)
class _Draft:
    """Keys of `dflash_config`; all of them may stand at the top level instead."""

    mask_token_id: int
    block_size: int
    target_layer_ids: list[int] | None = None
    any_block_size: bool = False  # ocria's own
    causal: bool | None = None
    use_swa: bool | None = None
    swa_window_size: int | None = None
    attention_sink_bias: bool = False
    sample_from_anchor: bool = False
    input_embedding_scale: float = 1.0
    output_multiplier: float | None = None
    final_logit_softcapping: float = 0.0
    conv_kernel_size: int | None = None
    conv_group_size: int | None = None
    selector_rank: int | None = None
    selector_top_k: int | None = None


@dataclass(frozen=True)
class _Top:
    """The other keys."""

    architectures: list[str]
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    num_target_layers: int
    rms_norm_eps: float
    max_position_embeddings: int
    model_type: str = "qwen3"
    hidden_act: str = "silu"
    attention_bias: bool = False
    is_neox_style: bool = True
    is_causal: bool | None = None
    layer_types: list[str] | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    max_window_layers: int = MAX_WINDOW_LAYERS
    draft_vocab_size: int | None = None
    target_hidden_size: int | None = None
    logit_scale: float | None = None


_ROPE = ("rope_theta", "rope_parameters", "rope_scaling")
_ROPE_KEYS = ("rope_theta", "rope_type", "type", "partial_rotary_factor")
_SIZES_OF_2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


def _config(data: dict[str, Any]) -> DrafterConfig:
    draft_names, top_names = _Draft.__dataclass_fields__, _Top.__dataclass_fields__
    reject_unknown(data, [*top_names, *draft_names, *_ROPE, "dflash_config"], _IGNORED)
    draft: _Draft = from_dict(_Draft, _both_places(data, draft_names), where="dflash_config")
    top: _Top = from_dict(_Top, {key: value for key, value in data.items() if key in top_names})
    version = _version(top)
    _check_supported(top, draft)
    for kind, names in ((bool, ("is_causal", "use_sliding_window")), (int, ("sliding_window",))):
        _check_optional(top, names, kind)
    _check_optional(draft, ("causal", "use_swa"), bool)
    _check_optional(draft, ("swa_window_size", *_SIZES_OF_2), int)
    softcap = draft.final_logit_softcapping
    if not math.isfinite(softcap) or softcap < 0:
        raise ConfigError(f"final_logit_softcapping must be above 0, or 0 or null for none, got {softcap}")
    return DrafterConfig(
        version=version,
        hidden_size=top.hidden_size,
        intermediate_size=top.intermediate_size,
        num_attention_heads=top.num_attention_heads,
        num_key_value_heads=top.num_key_value_heads,
        head_dim=top.head_dim,
        vocab_size=top.vocab_size,
        num_target_layers=top.num_target_layers,
        block_size=draft.block_size,
        any_block_size=draft.any_block_size,
        mask_token_id=draft.mask_token_id,
        target_layer_ids=_taps(top, draft),
        layers=layer_rules(
            top.num_hidden_layers,
            layer_types=top.layer_types,
            sliding_window=top.sliding_window,
            use_sliding_window=top.use_sliding_window,
            max_window_layers=top.max_window_layers,
            is_causal=top.is_causal,
            causal=draft.causal,
            use_swa=draft.use_swa,
            swa_window_size=draft.swa_window_size,
        ),
        rms_norm_eps=top.rms_norm_eps,
        rope_theta=_rope_theta(data),
        max_position_embeddings=top.max_position_embeddings,
        input_embedding_scale=_factor("input_embedding_scale", draft.input_embedding_scale),
        output_multiplier=_output_multiplier(top, draft),
        final_logit_softcapping=softcap or None,
        **_sizes_of_2(top, draft, version),
    )


def _both_places(data: dict[str, Any], known) -> dict[str, Any]:
    """The drafter's keys from `dflash_config` and from the top level."""
    inner = data.get("dflash_config")
    if not isinstance(inner, dict):
        raise ConfigError("dflash_config is missing", cure="Is this the config.json of a DFlash drafter?")
    reject_unknown(inner, known, where="dflash_config")
    merged = {key: data[key] for key in known if data.get(key) is not None}
    for key, value in inner.items():
        if value is not None and merged.setdefault(key, value) != value:
            raise ConfigError(f"{key} is {data[key]!r} at the top level and {value!r} in dflash_config")
    return merged


def _version(top: _Top) -> int:
    if not isinstance(top.architectures, list) or len(top.architectures) != 1 or top.architectures[0] not in _VERSIONS:
        raise ConfigError(f"architectures {top.architectures!r} is not one of {', '.join(_VERSIONS)}")
    return _VERSIONS[top.architectures[0]]


def _check_supported(top: _Top, draft: _Draft) -> None:
    allowed = {
        "model_type": (top.model_type, "qwen3"),
        "hidden_act": (top.hidden_act, "silu"),
        "attention_bias": (top.attention_bias, False),
        "is_neox_style": (top.is_neox_style, True),
        "attention_sink_bias": (draft.attention_sink_bias, False),
        "sample_from_anchor": (draft.sample_from_anchor, False),
        # Embeddings and head are the target's.
        "draft_vocab_size": (top.draft_vocab_size or top.vocab_size, top.vocab_size),
        "target_hidden_size": (top.target_hidden_size or top.hidden_size, top.hidden_size),
    }
    for name, (value, only) in allowed.items():
        if value != only:
            raise ConfigError(f"{name} {value!r} is not supported (only {only!r})")
    for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                 "num_key_value_heads", "head_dim", "vocab_size", "num_target_layers", "rms_norm_eps",
                 "max_position_embeddings"):  # fmt: skip
        if not getattr(top, name) > 0:
            raise ConfigError(f"{name} must be above 0, got {getattr(top, name)}")
    if top.num_attention_heads % top.num_key_value_heads:
        many, few = top.num_attention_heads, top.num_key_value_heads
        raise ConfigError(f"{many} heads do not divide into {few} groups")
    if top.head_dim % 2:
        raise ConfigError(f"head_dim {top.head_dim} has no halves to turn")
    if draft.block_size < 2:
        raise ConfigError(f"block_size {draft.block_size} leaves no row for a draft")
    if not 0 <= draft.mask_token_id < top.vocab_size:
        raise ConfigError(f"mask_token_id {draft.mask_token_id} is not in the vocabulary of {top.vocab_size}")


def _check_optional(source: _Top | _Draft, names: tuple[str, ...], kind: type) -> None:
    for name in names:
        value = getattr(source, name)
        if value is not None and type(value) is not kind:
            raise ConfigError(f"{name} must be {'true or false' if kind is bool else 'a whole number'}, got {value!r}")


def _taps(top: _Top, draft: _Draft) -> tuple[int, ...]:
    ids, last = draft.target_layer_ids, top.num_target_layers - 1
    if ids is None:
        return _default_taps(top.num_target_layers, top.num_hidden_layers)
    whole = isinstance(ids, list) and all(type(i) is int and 0 <= i <= last for i in ids)
    if not whole or not ids or len(set(ids)) != len(ids):
        raise ConfigError(f"target_layer_ids {ids!r} must be different layers from 0 to {last}")
    return tuple(ids)


def _default_taps(target_layers: int, count: int) -> tuple[int, ...]:
    """As many layers as the drafter has, evenly from the second to the last but two; of one, the middle."""
    if count == 1:
        return (target_layers // 2,)
    taps = tuple(round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count))
    if len(set(taps)) != count or taps[-1] < taps[0]:
        raise ConfigError(f"target_layer_ids is missing, and {target_layers} layers have too few for {count}")
    return taps


def _rope_theta(data: dict[str, Any]) -> float:
    """From the top level or from `rope_parameters` (`rope_scaling` in older files), where nothing but plain rotary
    embeddings is supported."""
    stated = {}
    for name in ("rope_parameters", "rope_scaling"):
        section = data.get(name) or {}
        if not isinstance(section, dict):
            raise ConfigError(f"{name} must be an object, got {section!r}")
        reject_unknown(section, _ROPE_KEYS, where=name)
        for key, only in (("rope_type", "default"), ("type", "default"), ("partial_rotary_factor", 1.0)):
            if section.get(key, only) != only:
                raise ConfigError(f"{key} {section[key]!r} is not supported (only {only!r})")
        if section.get("rope_theta") is not None:
            stated[name] = section["rope_theta"]
    if data.get("rope_theta") is not None:
        stated["the top level"] = data["rope_theta"]
    if not stated:
        raise ConfigError("missing rope_theta")
    if len(set(stated.values())) > 1:
        raise ConfigError("rope_theta is " + ", ".join(f"{value!r} in {name}" for name, value in stated.items()))
    return _factor("rope_theta", next(iter(stated.values())))


def _output_multiplier(top: _Top, draft: _Draft) -> float:
    """`logit_scale` is an older name of it."""
    one, other = draft.output_multiplier, top.logit_scale
    if one is not None and other is not None and one != other:
        raise ConfigError(f"output_multiplier is {one!r}, and logit_scale {other!r}")
    value = other if one is None else one
    return 1.0 if value is None else _factor("output_multiplier", value)


def _factor(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{name} must be a number above 0, got {value!r}")
    return float(value)


def _sizes_of_2(top: _Top, draft: _Draft, version: int) -> dict[str, int]:
    sizes = {name: getattr(draft, name) for name in _SIZES_OF_2}
    if version == 1:
        given = [name for name, value in sizes.items() if value is not None]
        if given:
            raise ConfigError(f"{given[0]} belongs to DFlash2DraftModel, and architectures says DFlashDraftModel")
        return dict.fromkeys(sizes, 0)
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)} in dflash_config")
    for name, value in sizes.items():
        if value < 1:
            raise ConfigError(f"{name} must be above 0, got {value}")
    if top.hidden_size % sizes["conv_group_size"]:
        group = sizes["conv_group_size"]
        raise ConfigError(f"hidden_size {top.hidden_size} does not divide into groups of {group} channels")
    if sizes["selector_top_k"] > top.vocab_size:
        raise ConfigError(f"selector_top_k {sizes['selector_top_k']} exceeds the vocabulary of {top.vocab_size}")
    return sizes
