"""A configuration that says something else than the file, or something that is not supported."""

import pytest
import torch
from tampering import UP, edit_config, refused

from ocria.errors import ConfigError

CONTRADICTIONS = {
    "ignored and quantised": ("nvfp4", lambda c: c["ignore"].append(UP), f"{UP} is plain by the configuration"),
    "ignored by expression": ("nvfp4", lambda c: c["ignore"].append("re:.*up_proj"), "is plain by the configuration"),
    "not ignored and plain": (
        "nvfp4",
        lambda c: c["ignore"].remove("re:.*visual.*"),
        "model.visual.merger.linear_fc1 is nvfp4 and local activations by the configuration, and plain in the files",
    ),
    "another granularity": (
        "fp8 dynamic",
        lambda c: c["config_groups"]["group_0"]["weights"].update(strategy="tensor"),
        "fp8 with a scale per tensor and token activations by the configuration, and fp8 with a scale per channel",
    ),
    "another kind": (
        "fp8 dynamic",
        lambda c: c["config_groups"]["group_0"].update(
            weights={"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
            input_activations=None,
        ),
        "is nvfp4 and plain activations by the configuration, and fp8 with a scale per channel in the files",
    ),
    "a scale of the input that is not there": (
        "nvfp4 weight only",
        lambda c: c["config_groups"]["group_0"].update(
            input_activations={"num_bits": 4, "type": "float", "dynamic": "local", "strategy": "tensor_group"}
        ),
        "local activations by the configuration, and nvfp4 in the files",
    ),
    "a scale of the input that should not be there": (
        "nvfp4",
        lambda c: c["config_groups"]["group_0"].update(input_activations=None),
        "and nvfp4 and a number for the input in the files",
    ),
    "a cache with scales that are not there": (
        "nvfp4",
        lambda c: c.update(kv_cache_scheme={"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}),
        "keys and values have scales by the configuration, and none in the files",
    ),
    "another tool": (
        "nvfp4",
        lambda c: c.update(quant_method="modelopt", quant_algo="NVFP4"),
        "weight_packed is stored as compressed-tensors does, and quant_method is modelopt",
    ),
    "no group for quantised layers": (
        "mixed",
        lambda c: c["config_groups"].pop("group_1"),
        f"{UP} is plain by the configuration",
    ),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_configuration_and_file_contradict_each_other(written, kind):
    case, edit, message = CONTRADICTIONS[kind]
    folder = written(case)
    edit_config(folder, edit)
    refused(folder, "config.json: contradicts the files", message)


def test_scales_of_the_cache_that_the_configuration_denies(written):
    attention = "model.language_model.layers.1.self_attn"
    folder = written("nvfp4", kv_scales={attention: (torch.tensor(0.5), torch.tensor(0.25))})
    edit_config(folder, lambda config: config.update(kv_cache_scheme=None))
    refused(folder, "keys and values have no scales by the configuration", f"{attention}.k_scale is in the files")


UNSUPPORTED = {
    "method": ("nvfp4", lambda c: c.update(quant_method="awq"), "quant_method 'awq' is not supported"),
    "format": ("nvfp4", lambda c: c.update(format="marlin-24"), "format 'marlin-24'"),
    "integers": (
        "nvfp4",
        lambda c: c["config_groups"]["group_0"]["weights"].update(type="int"),
        "group_0 of quantization_config is not supported",
    ),
    "groups of another size": (
        "nvfp4",
        lambda c: c["config_groups"]["group_0"]["weights"].update(group_size=32),
        "group_0 of quantization_config is not supported",
    ),
    "rotations": ("nvfp4", lambda c: c.update(transform_config={"config_groups": {"R1": {}}}), "transform_config"),
    "cache": ("nvfp4", lambda c: c.update(kv_cache_scheme={"num_bits": 4, "type": "float"}), "kv_cache_scheme"),
    "algorithm": ("modelopt nvfp4", lambda c: c.update(quant_algo="W4A8_AWQ"), "quant_algo 'W4A8_AWQ'"),
    "cache of modelopt": ("modelopt nvfp4", lambda c: c.update(kv_cache_scheme="NVFP4"), "kv_cache_quant_algo 'NVFP4'"),
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_other_kinds_of_quantisation_are_refused_by_name(written, kind):
    case, edit, message = UNSUPPORTED[kind]
    folder = written(case)
    edit_config(folder, edit)
    refused(folder, "config.json", message, error=ConfigError)
