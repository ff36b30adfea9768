"""The shapes of a dense Qwen3.5-architecture model, read strictly from a Hugging Face `config.json`.

Source: transformers `models/qwen3_5/configuration_qwen3_5.py`. A key that would change the mathematics and is
not known here is an error; keys that only concern other software are listed in `_IGNORED`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ocria.errors import ConfigError
from ocria.model.strict import from_dict, read_json, reject_unknown

# fmt: off
_IGNORED = frozenset({
    "_attn_implementation_autoset", "_name_or_path", "architectures", "attention_dropout", "attribute_map",
    "auto_map", "bos_token_id", "chunk_size_feed_forward", "deepstack_visual_indexes", "dtype",
    "full_attention_interval", "id2label", "initializer_range", "is_encoder_decoder", "label2id",
    "language_model_only", "mamba_ssm_dtype", "mlp_only_layers", "model_type", "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings", "output_attentions", "output_hidden_states", "pad_token_id", "problem_type",
    "quantization_config", "return_dict", "tokenizer_class", "torch_dtype", "transformers_version", "unsloth_fixed",
    "unsloth_version", "use_cache", "video_token_id", "vision_end_token_id", "vision_start_token_id",
})
_ROPE = ("rope_type", "type", "mrope_interleaved", "rope_theta", "partial_rotary_factor", "mrope_section")
# fmt: on


@dataclass(frozen=True)
class VisionConfig:
    """Vision encoder. Sizes in channels, patches in pixels."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    out_hidden_size: int
    patch_size: int = 16
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    in_channels: int = 3
    num_position_embeddings: int = 2304
    hidden_act: str = "gelu_pytorch_tanh"
    rope_theta: float = 10000.0

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def patch_dim(self) -> int:
        """Values of one flattened patch row: channels x frames x height x width."""
        return self.in_channels * self.temporal_patch_size * self.patch_size**2


@dataclass(frozen=True)
class TextConfig:
    """Text decoder: Gated DeltaNet and gated full attention layers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    layer_types: tuple[str, ...]
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 262144
    rope_theta: float = 1e7
    partial_rotary_factor: float = 0.25
    mrope_section: tuple[int, int, int] = (11, 11, 10)
    hidden_act: str = "silu"
    attn_output_gate: bool = True
    attention_bias: bool = False
    tie_word_embeddings: bool | None = None
    eos_token_id: int | tuple[int, ...] | None = None

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.partial_rotary_factor)

    @property
    def key_dim(self) -> int:
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the short convolution: q, k and v side by side."""
        return 2 * self.key_dim + self.value_dim


@dataclass(frozen=True)
class ModelConfig:
    """One checkpoint: text decoder, vision encoder (None for text-only re-saves), special tokens."""

    text: TextConfig
    vision: VisionConfig | None
    image_token_id: int | None = None
    tie_word_embeddings: bool = False
    eos_token_ids: tuple[int, ...] = field(default=())

    @classmethod
    def from_file(cls, path: str | Path) -> "ModelConfig":
        """Read `config.json`. Raises ConfigError when it is missing, not JSON, or not of this architecture."""
        return cls.from_dict(read_json(Path(path)), where=str(path))

    @classmethod
    def from_dict(cls, data: dict, *, where: str = "config.json") -> "ModelConfig":
        """From the object in a `config.json`; `where` names it in the ConfigError that a fault raises."""
        try:
            return _model(data)
        except ConfigError as error:
            raise ConfigError(error.message, path=where, cure=error.cure) from error


@dataclass(frozen=True)
class _Top:
    image_token_id: int
    tie_word_embeddings: bool | None = None
    eos_token_id: int | list[int] | None = None


def _model(data: dict) -> ModelConfig:
    kind = data.get("model_type")
    if kind == "qwen3_5_text":
        text = _text(data, "")
        return ModelConfig(text, None, None, bool(text.tie_word_embeddings), _ids(text.eos_token_id))
    if kind != "qwen3_5":
        raise ConfigError(
            f"model_type {kind!r} is not a dense Qwen3.5 architecture",
            cure="Use a checkpoint whose config.json says model_type qwen3_5.",
        )
    for section in ("text_config", "vision_config"):
        if not isinstance(data.get(section), dict):
            raise ConfigError(f"{section} is missing")
    text = _text(data["text_config"], "text_config")
    vision = _vision(data["vision_config"], "vision_config")
    if vision.out_hidden_size != text.hidden_size:
        raise ConfigError(
            f"out_hidden_size {vision.out_hidden_size} of the vision encoder differs from hidden_size "
            f"{text.hidden_size} of the text decoder"
        )
    head = from_dict(_Top, data, ignored=_IGNORED | {"text_config", "vision_config"})
    tied = bool(text.tie_word_embeddings) if head.tie_word_embeddings is None else head.tie_word_embeddings
    eos = _ids(head.eos_token_id) or _ids(text.eos_token_id)
    return ModelConfig(text, vision, head.image_token_id, tied, eos)


def _ids(value) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _text(data: dict, where: str) -> TextConfig:
    data = dict(data)
    rope = data.pop("rope_parameters", None) or data.pop("rope_scaling", None) or {}
    data.pop("rope_scaling", None)
    _expect(rope, rope_type=("default",), type=("default",), mrope_interleaved=(True,))
    data |= {key: rope[key] for key in ("rope_theta", "partial_rotary_factor", "mrope_section") if key in rope}
    reject_unknown(rope, _ROPE, where="rope_parameters")
    if data.get("layer_types") is None:
        interval = data.get("full_attention_interval", 4)
        data["layer_types"] = [
            "full_attention" if (i + 1) % interval == 0 else "linear_attention"
            for i in range(data.get("num_hidden_layers", 0))
        ]
    data["layer_types"] = tuple(data["layer_types"])
    for key in ("mrope_section", "eos_token_id"):
        if isinstance(data.get(key), list):
            data[key] = tuple(data[key])
    _expect(data, hidden_act=("silu",), attn_output_gate=(True,), attention_bias=(False,))
    config = from_dict(TextConfig, data, where=where, ignored=_IGNORED)
    if len(config.layer_types) != config.num_hidden_layers:
        raise ConfigError(f"{len(config.layer_types)} layer_types for {config.num_hidden_layers} layers")
    odd = set(config.layer_types) - {"linear_attention", "full_attention"}
    if odd:
        raise ConfigError(f"unknown layer type {', '.join(sorted(odd))}")
    for many, few in ((config.num_attention_heads, config.num_key_value_heads),
                      (config.linear_num_value_heads, config.linear_num_key_heads)):
        if few < 1 or many % few:
            raise ConfigError(f"{many} heads do not divide into {few} groups")
    if config.rotary_dim % 2 or sum(config.mrope_section) != config.rotary_dim // 2:
        section, frequencies = list(config.mrope_section), config.rotary_dim // 2
        raise ConfigError(f"mrope_section {section} does not add up to {frequencies} frequencies")
    return config


def _vision(data: dict, where: str) -> VisionConfig:
    data = dict(data)
    rope = data.pop("rope_parameters", None) or {}
    if "rope_theta" in rope:
        data["rope_theta"] = rope["rope_theta"]
    _expect(rope, rope_type=("axial",))
    _expect(data, hidden_act=("gelu_pytorch_tanh",), deepstack_visual_indexes=([],))
    for key in ("patch_size", "temporal_patch_size"):
        if isinstance(data.get(key), (list, tuple)):
            if len(set(data[key])) != 1:
                raise ConfigError(f"{key} {data[key]} is not square")
            data[key] = data[key][0]
    config = from_dict(VisionConfig, data, where=where, ignored=_IGNORED)
    side = round(config.num_position_embeddings**0.5)
    if side * side != config.num_position_embeddings:
        raise ConfigError(f"num_position_embeddings {config.num_position_embeddings} is not a square")
    return config


def _expect(data: dict, **allowed) -> None:
    """Refuse settings whose other values exist in the wild but are not what this code computes."""
    for key, values in allowed.items():
        if key in data and data[key] is not None and data[key] not in values:
            raise ConfigError(f"{key} {data[key]!r} is not supported (only {values[0]!r})")
