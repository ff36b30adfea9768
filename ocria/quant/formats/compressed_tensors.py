"""Files and configurations of compressed-tensors: FP8 (`float-quantized`), NVFP4 (`nvfp4-pack-quantized`), and groups
of modules with either (`mixed-precision`).

A multiplier of NVFP4 is stored as its reciprocal.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ocria.errors import CheckpointError, ConfigError
from ocria.quant.formats.contents import COMPRESSED_TENSORS, EMBEDDING
from ocria.quant.formats.patterns import names_regex, regexes
from ocria.quant.formats.scheme import Scheme
from ocria.quant.tensors import BLOCK, GROUP, Fp8Weight, Weight

_FORMATS = ("float-quantized", "naive-quantized", "nvfp4-pack-quantized", "mixed-precision", "dense")
_STRATEGIES = {"tensor": "tensor", "channel": "channel", "block": "block"}
_KV_SCHEME = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}


def expectations(config: Mapping[str, Any]) -> Callable[[str], Scheme | None]:
    """The scheme that a quantization_config gives to a linear layer or an embedding, None for a plain one.

    Raises ConfigError for what is not supported.
    """
    if config.get("format") not in (*_FORMATS, None):
        raise ConfigError(f"format {config['format']!r} of quantization_config is not supported", cure=_CURE)
    for key in ("transform_config", "sparsity_config"):
        if config.get(key) and config[key] != {"format": "dense"}:
            raise ConfigError(f"{key} of quantization_config is not supported", cure=_CURE)
    groups = [
        (group.get("targets") or [], scheme)
        for name, group in (config.get("config_groups") or {}).items()
        if (scheme := _scheme(name, group)) is not None
    ]
    ignored = config.get("ignore") or []

    def expected(module: str) -> Scheme | None:
        kind = "Embedding" if EMBEDDING.fullmatch(module) else "Linear"
        if any(target == kind or names_regex(target, module) for target in ignored):
            return None
        for matches in (_by_name, _by_expression, lambda target, module: target == kind):
            for targets, scheme in groups:
                if any(matches(target, module) for target in targets):
                    return scheme
        return None

    return expected


def has_kv_scales(config: Mapping[str, Any]) -> bool:
    """Whether keys and values have scales in the file. Raises ConfigError for other kinds of cache."""
    scheme = config.get("kv_cache_scheme")
    if not scheme:
        return False
    if (scheme.get("num_bits"), scheme.get("type"), scheme.get("strategy", "tensor")) != (8, "float", "tensor"):
        raise ConfigError(f"kv_cache_scheme {scheme} is not supported", cure="Only FP8 with a scale per tensor is.")
    return not scheme.get("dynamic", False)


def parts_of(weight: Weight) -> dict[str, torch.Tensor]:
    """The tensors of one module, by the last part of their names. Raises CheckpointError for what the format lacks."""
    if isinstance(weight, Fp8Weight):
        scale = {"tensor": (1,), "channel": (-1, 1), "block": weight.scale.shape}[weight.granularity]
        parts = {"weight": weight.codes, "weight_scale": weight.scale.reshape(scale)}
        return parts if weight.input_scale is None else parts | {"input_scale": weight.input_scale.reshape(1)}
    if weight.pre_quant_scale is not None:
        raise CheckpointError(
            "compressed-tensors has no place for a scale of the input's columns",
            cure="Fold it into the layer before, or write the format modelopt.",
        )
    parts = {"weight_packed": weight.codes, "weight_scale": weight.scales}
    parts["weight_global_scale"] = reciprocal(weight.multiplier).reshape(1)
    if weight.input_multiplier is not None:
        parts["input_global_scale"] = reciprocal(weight.input_multiplier).reshape(1)
    return parts


def kv_parts(attention: str, key: torch.Tensor, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of the scales of an attention's cache, by name."""
    return {f"{attention}.k_scale": key.reshape(1), f"{attention}.v_scale": value.reshape(1)}


def reciprocal(number: torch.Tensor) -> torch.Tensor:
    """1 / number in fp32; of the numbers next to it the one whose own reciprocal is `number`, if there is one."""
    first = 1 / number
    for candidate in (first, *(torch.nextafter(first, torch.full_like(first, end)) for end in (0, torch.inf))):
        if torch.equal(1 / candidate, number):
            return candidate
    return first


def quantization_config(
    schemes: Mapping[str, Scheme], plain: Sequence[str], embeddings: Sequence[str], kv: bool
) -> dict[str, Any]:
    """The configuration for modules of these schemes beside plain linear layers and embeddings."""
    by_scheme: dict[Scheme, list[str]] = defaultdict(list)
    for module, scheme in schemes.items():
        by_scheme[scheme].append(module)
    groups = {}
    for index, scheme in enumerate(sorted(by_scheme)):
        modules = by_scheme[scheme]
        if len(by_scheme) == 1 and not any(EMBEDDING.fullmatch(module) for module in modules):
            targets = ["Linear"]
        else:
            # Plain layers are ignored below, whatever targets say of them.
            others = [*(name for name, other in schemes.items() if other != scheme), *embeddings]
            targets = regexes(modules, others, contained=False)
        groups[f"group_{index}"] = {"targets": targets, **_group(scheme)}
    formats = {group["format"] for group in groups.values()}
    return {
        "quant_method": COMPRESSED_TENSORS,
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "quantization_status": "compressed",
        "global_compression_ratio": None,
        "config_groups": groups,
        "ignore": regexes(plain, list(schemes), contained=True),
        "kv_cache_scheme": _KV_SCHEME if kv else None,
    }


def _by_name(target: str, module: str) -> bool:
    return not target.startswith("re:") and names_regex(target, module)


def _by_expression(target: str, module: str) -> bool:
    return target.startswith("re:") and names_regex(target, module)


def _scheme(name: str, group: Any) -> Scheme | None:
    if not isinstance(group, Mapping):
        raise ConfigError(f"{name} of quantization_config is a preset without its numbers", cure=_CURE)
    weights, inputs = group.get("weights"), group.get("input_activations")
    if weights is None:
        return None
    bits = (weights.get("num_bits"), weights.get("type"))
    strategy = weights.get("strategy") or "tensor"
    if bits == (8, "float") and strategy in _STRATEGIES and weights.get("block_structure") in (None, [BLOCK, BLOCK]):
        activations = _fp8_activations(inputs)
        if activations is not None:
            return Scheme("fp8", strategy, activations)
    if bits == (4, "float") and (strategy, weights.get("group_size")) == ("tensor_group", GROUP):
        if inputs is None:
            return Scheme("nvfp4", "", "none")
        if inputs.get("num_bits") == 4 and inputs.get("dynamic") in ("local", False):
            return Scheme("nvfp4", "", "local")
    raise ConfigError(f"{name} of quantization_config is not supported: {dict(group)}", cure=_CURE)


def _fp8_activations(inputs: Mapping[str, Any] | None) -> str | None:
    """The word for these input_activations; None for an unknown kind."""
    if inputs is None:
        return "none"
    if (inputs.get("num_bits"), inputs.get("type")) != (8, "float"):
        return None
    kind = (bool(inputs.get("dynamic")), inputs.get("strategy") or "tensor", inputs.get("group_size"))
    known = {(False, "tensor", None): "static", (True, "token", None): "token", (True, "tensor", None): "token",
             (True, "group", BLOCK): "block"}  # fmt: skip
    return known.get(kind)


def _group(scheme: Scheme) -> dict[str, Any]:
    common = {"type": "float", "symmetric": True}
    if scheme.kind == "nvfp4":
        weights = {"num_bits": 4, **common, "strategy": "tensor_group", "group_size": GROUP, "dynamic": False}
        weights["scale_dtype"] = "torch.float8_e4m3fn"
        inputs = None if scheme.activations == "none" else weights | {"dynamic": "local"}
        return {"weights": weights, "input_activations": inputs, "format": "nvfp4-pack-quantized"}
    weights = {"num_bits": 8, **common, "strategy": scheme.granularity, "dynamic": False}
    if scheme.granularity == "block":
        weights["block_structure"] = [BLOCK, BLOCK]
    inputs = {
        "none": None,
        "static": {"num_bits": 8, **common, "strategy": "tensor", "dynamic": False},
        "token": {"num_bits": 8, **common, "strategy": "token", "dynamic": True},
        "block": {"num_bits": 8, **common, "strategy": "group", "group_size": BLOCK, "dynamic": True},
    }[scheme.activations]
    kind = "naive-quantized" if inputs is None else "float-quantized"
    return {"weights": weights, "input_activations": inputs, "format": kind}


_CURE = "Use a checkpoint in FP8 or NVFP4."
