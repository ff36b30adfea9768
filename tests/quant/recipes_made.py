"""Ways to quantise the small checkpoint, by the format that holds them."""

from pathlib import Path

import torch
from checkpoint_made import tensors_of, text_linears

from ocria.quant.round import quantize_fp8, quantize_nvfp4

HEAD = "lm_head"
INPUT = torch.tensor(0.03125)


def fp8(granularity, **options):
    return lambda name, w: quantize_fp8(w, granularity, **options)


def nvfp4(**options):
    return lambda name, w: quantize_nvfp4(w, **options)


def awq(name, weight):
    scale = torch.linspace(0.5, 2, weight.shape[1])
    return quantize_nvfp4(weight / scale, dialect="modelopt", input_multiplier=INPUT, pre_quant_scale=scale)


def mixed(name, weight):
    """The recipe that is common for this architecture."""
    if ".mlp." in name or name == HEAD:
        return quantize_nvfp4(weight, search="four_over_six")
    return quantize_fp8(weight, "tensor", input_scale=INPUT) if "in_proj_a" not in name else None


def one_layer_apart(name, weight):
    """Two kinds whose names differ in the number of the layer alone."""
    apart = ".1.mlp." in name
    return quantize_fp8(weight, "channel") if apart else quantize_nvfp4(weight, input_multiplier=INPUT)


CASES = {
    "fp8 dynamic": ("compressed-tensors", fp8("channel")),
    "fp8 static": ("compressed-tensors", fp8("tensor", input_scale=INPUT)),
    "fp8 block": ("compressed-tensors", fp8("block")),
    "fp8 weight only": ("compressed-tensors", fp8("channel", activations="none")),
    "nvfp4": ("compressed-tensors", nvfp4(input_multiplier=INPUT)),
    "nvfp4 weight only": ("compressed-tensors", nvfp4()),
    "mixed": ("compressed-tensors", mixed),
    "mixed by layer": ("compressed-tensors", one_layer_apart),
    "modelopt fp8": ("modelopt", fp8("tensor", dialect="modelopt", input_scale=INPUT)),
    "modelopt fp8 channel": ("modelopt", fp8("channel", dialect="modelopt")),
    "modelopt nvfp4": ("modelopt", nvfp4(dialect="modelopt", input_multiplier=INPUT)),
    "modelopt nvfp4 weight only": ("modelopt", nvfp4(dialect="modelopt", search="clip")),
    "modelopt nvfp4 awq": ("modelopt", awq),
    "modelopt mixed": ("modelopt", mixed),
    "modelopt mixed by layer": ("modelopt", one_layer_apart),
}


def quantize(folder: Path, make) -> dict:
    """Weights of the text decoder and of the head of the tied model, those that `make` does not return left out."""
    tensors = tensors_of(folder)
    tensors[f"{HEAD}.weight"] = tensors["model.language_model.embed_tokens.weight"]
    made = {name: make(name, tensors[f"{name}.weight"]) for name in [*text_linears(folder), HEAD]}
    return {name: weight for name, weight in made.items() if weight is not None}
