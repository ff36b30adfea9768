"""Files and configurations of ModelOpt: FP8, NVFP4, and modules with either (`MIXED_PRECISION`).

The configuration is `hf_quant_config.json`, and the same in other words under quantization_config in config.json.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ocria.errors import CheckpointError, ConfigError
from ocria.quant.formats.contents import MODELOPT
from ocria.quant.formats.patterns import globs, names_glob, spellings
from ocria.quant.formats.scheme import Scheme
from ocria.quant.tensors import BLOCK, GROUP, Fp8Weight, Weight

_MIXED = "MIXED_PRECISION"
# A checkpoint that is called weight-only may hold scales of the input all the same, and the scale of the columns may
# be folded into the layer before: both are in the file or not.
_ALGORITHMS = {
    "FP8": Scheme("fp8", "tensor", "static"),
    "FP8_PER_CHANNEL_PER_TOKEN": Scheme("fp8", "channel", "token"),
    "NVFP4": Scheme("nvfp4", "", "local"),
    "NVFP4_AWQ": Scheme("nvfp4", "", "local", None),
    "W4A16_NVFP4": Scheme("nvfp4", "", None, None),
}


def expectations(config: Mapping[str, Any]) -> Callable[[str], Scheme | None]:
    """The scheme that a configuration, in either of its forms, gives to a linear layer, None for a plain one.

    Raises ConfigError for what is not supported.
    """
    settings = normalised(config)
    excluded = settings["exclude_modules"]
    if settings["quant_algo"] == _MIXED:
        layers = {name: _algorithm(layer) for name, layer in settings["quantized_layers"].items()}

        def scheme(module: str) -> Scheme | None:
            return next((layers[name] for name in spellings(module) if name in layers), None)

    else:
        only = _algorithm(settings) if settings["quant_algo"] else None

        def scheme(module: str) -> Scheme | None:
            return only

    return lambda module: None if any(names_glob(pattern, module) for pattern in excluded) else scheme(module)


def has_kv_scales(config: Mapping[str, Any]) -> bool | None:
    """Whether keys and values have scales in the file; None where they may, as the scales of a mere cast are one.

    Raises ConfigError for other kinds of cache.
    """
    algorithm = normalised(config)["kv_cache_quant_algo"]
    if algorithm not in (None, "FP8"):
        raise ConfigError(f"kv_cache_quant_algo {algorithm!r} is not supported", cure="Only FP8 is.")
    return None if algorithm else False


def normalised(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that matter, the same for both forms of the configuration."""
    inner = config.get("quantization", config)
    kv = inner.get("kv_cache_quant_algo") or inner.get("kv_cache_scheme")
    if isinstance(kv, Mapping):
        kv = "FP8" if (kv.get("num_bits"), kv.get("type")) == (8, "float") else str(dict(kv))
    excluded = inner.get("exclude_modules", inner.get("ignore"))
    groups = inner.get("config_groups") or {}
    sizes = {size for g in groups.values() if (size := (g.get("weights") or {}).get("group_size")) is not None}
    size = inner.get("group_size") or (sizes.pop() if len(sizes) == 1 else None)
    return {
        "quant_algo": inner.get("quant_algo"),
        "kv_cache_quant_algo": kv,
        "group_size": size,
        "exclude_modules": sorted(excluded or []),
        "quantized_layers": inner.get("quantized_layers") or {},
    }


def parts_of(weight: Weight) -> dict[str, torch.Tensor]:
    """The tensors of one module, by the last part of their names."""
    if isinstance(weight, Fp8Weight):
        parts = {"weight": weight.codes, "weight_scale": weight.scale}
        return parts if weight.input_scale is None else parts | {"input_scale": weight.input_scale}
    parts = {"weight": weight.codes, "weight_scale": weight.scales, "weight_scale_2": weight.multiplier}
    if weight.input_multiplier is not None:
        parts["input_scale"] = weight.input_multiplier
    if weight.pre_quant_scale is not None:
        parts["pre_quant_scale"] = weight.pre_quant_scale
    return parts


def kv_parts(attention: str, key: torch.Tensor, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of the scales of an attention's cache, by name."""
    return {f"{attention}.k_proj.k_scale": key.reshape(()), f"{attention}.v_proj.v_scale": value.reshape(())}


def quant_configs(
    schemes: Mapping[str, Scheme], plain: Sequence[str], kv: bool, version: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`hf_quant_config.json` and the quantization_config of config.json, for modules of these schemes beside plain
    linear layers. Raises CheckpointError for a scheme that ModelOpt has no name for."""
    layers = {module: _layer(scheme) for module, scheme in sorted(schemes.items())}
    names = {layer["quant_algo"] for layer in layers.values()}
    settings: dict[str, Any] = {"quant_algo": _MIXED, "kv_cache_quant_algo": "FP8" if kv else None}
    if len(names) == 1:
        settings |= next(iter(layers.values()))
    else:
        settings["quantized_layers"] = layers
    settings["exclude_modules"] = globs(plain, list(schemes))
    producer = {"name": "ocria", "version": version}

    by_name: dict[str, list[str]] = defaultdict(list)
    for module, layer in layers.items():
        by_name[layer["quant_algo"]].append(module)
    groups = {
        f"group_{index}": {**_group(name), "targets": ["Linear"] if len(names) == 1 else by_name[name]}
        for index, name in enumerate(sorted(by_name))
    }
    mirrored = {"quant_method": MODELOPT, "config_groups": groups, "ignore": settings["exclude_modules"]}
    mirrored |= {key: value for key, value in settings.items() if key in ("quant_algo", "quantized_layers")}
    if kv:
        mirrored["kv_cache_scheme"] = {"dynamic": False, "num_bits": 8, "type": "float"}
    return {"producer": producer, "quantization": settings}, mirrored | {"producer": producer}


def _algorithm(settings: Mapping[str, Any]) -> Scheme:
    name = settings.get("quant_algo")
    if name not in _ALGORITHMS:
        raise ConfigError(f"quant_algo {name!r} is not supported", cure=f"Supported are {', '.join(_ALGORITHMS)}.")
    if _ALGORITHMS[name].kind == "nvfp4" and (settings.get("group_size") or GROUP) != GROUP:
        raise ConfigError(f"group_size {settings['group_size']} of {name} is not supported", cure=f"Only {GROUP} is.")
    return _ALGORITHMS[name]


def _layer(scheme: Scheme) -> dict[str, Any]:
    if scheme.kind == "fp8":
        name = next((name for name, known in _ALGORITHMS.items() if known == scheme), None)
        if name is None:
            cure = "Write the format compressed-tensors" + (
                f", which has blocks of {BLOCK}." if scheme.granularity == "block" else "."
            )
            raise CheckpointError(f"ModelOpt has no name for {scheme}", cure=cure)
        return {"quant_algo": name}
    if scheme.pre_quant_scale and scheme.activations == "local":
        return {"quant_algo": "NVFP4_AWQ", "group_size": GROUP, "has_zero_point": False, "pre_quant_scale": True}
    name = "W4A16_NVFP4" if scheme.activations == "none" else "NVFP4"
    return {"quant_algo": name, "group_size": GROUP}


def _group(name: str) -> dict[str, Any]:
    kind = _ALGORITHMS[name]
    numbers: dict[str, Any] = {"dynamic": False, "num_bits": 8 if kind.kind == "fp8" else 4, "type": "float"}
    if kind.kind == "nvfp4":
        numbers["group_size"] = GROUP
    weights = numbers | ({"strategy": "channel"} if kind.granularity == "channel" else {})
    return {"weights": weights} if kind.activations is None else {"weights": weights, "input_activations": numbers}
