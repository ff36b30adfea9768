"""Configurations of fine-grained FP8, as DeepSeek and Qwen publish it: a scale per block of 128 x 128. Only read.

The scale is called `weight_scale_inv`, and it multiplies like any other.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ocria.errors import ConfigError
from ocria.quant.formats.patterns import names_part
from ocria.quant.formats.scheme import Scheme
from ocria.quant.tensors import BLOCK


def expectations(config: Mapping[str, Any]) -> Callable[[str], Scheme | None]:
    """The scheme that a quantization_config gives to a linear layer, None for a plain one.

    Raises ConfigError for what is not supported.
    """
    sides = config.get("weight_block_size", [BLOCK, BLOCK])
    if sides is not None and list(sides) != [BLOCK, BLOCK]:
        raise ConfigError(f"weight_block_size {sides} is not supported", cure=f"Only {[BLOCK, BLOCK]} is.")
    activations = config.get("activation_scheme", "dynamic")
    if activations not in ("dynamic", "static"):
        raise ConfigError(f"activation_scheme {activations!r} is not supported", cure="Use a dynamic or a static one.")
    dynamic = "token" if sides is None else "block"
    scheme = Scheme("fp8", "tensor" if sides is None else "block", dynamic if activations == "dynamic" else "static")
    kept = config.get("modules_to_not_convert", config.get("ignored_layers")) or ["lm_head"]
    return lambda module: None if any(names_part(key, module) for key in kept) else scheme


def has_kv_scales(config: Mapping[str, Any]) -> bool:
    """Whether keys and values have scales in the file: never."""
    return False
