"""Reading a drafter's config.json strictly."""

import copy
import json

import pytest
import torch
from drafter_made import published_4b, published_dflash2, small

from ocria.errors import ConfigError
from ocria.model.config import ModelConfig
from ocria.spec.config import DrafterConfig
from ocria.spec.load import build
from ocria.spec.rules import LayerRule, layer_rules

FULL, SLIDING = "full_attention", "sliding_attention"


def parameters(data):
    with torch.device("meta"):
        return sum(p.numel() for p in build(DrafterConfig.from_dict(data)).parameters())


def test_the_published_drafter_of_4b(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published_4b()))
    config = DrafterConfig.from_file(tmp_path / "config.json")
    assert config.version == 1
    assert config.feature_size == 20480
    assert config.layers == (LayerRule(2048, True),) * 5 + (LayerRule(None, False),)
    assert (config.block_size, config.mask_token_id, config.rope_theta) == (16, 248070, 1e7)
    assert parameters(published_4b()) == 634_425_856


def test_the_published_dflash2():
    config = DrafterConfig.from_dict(published_dflash2())
    assert config.version == 2
    assert config.layers == (LayerRule(2048, False),) * 5
    assert (config.final_logit_softcapping, config.selector_top_k, config.conv_kernel_size) == (20.0, 16, 2)
    # The header of its file: 5,544,319,488 bytes of bf16.
    assert parameters(published_dflash2()) == 5_544_319_488 // 2


def test_the_published_dflash2_of_27b():
    data = published_dflash2() | {
        "hidden_size": 5120, "intermediate_size": 17408, "num_target_layers": 64, "vocab_size": 248320,
    }  # fmt: skip
    data["dflash_config"] = {
        "block_size": 8, "conv_group_size": 16, "conv_kernel_size": 2, "mask_token_id": 248070, "selector_rank": 256,
        "selector_top_k": 16, "target_layer_ids": [5, 19, 33, 47, 61],
    }  # fmt: skip
    assert 2 * parameters(data) == pytest.approx(3.85e9, rel=1e-3)  # the size that is stated for its file


def test_what_dflash2_adds():
    """Convolutions of a drafter with 5 layers of 2560 channels: 16.5 million parameters, as published."""
    data = published_4b() | {"num_hidden_layers": 5, "layer_types": [SLIDING] * 5}
    plain = parameters(data)
    data["architectures"] = ["DFlash2DraftModel"]
    sizes = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 1, "selector_top_k": 16}
    data["dflash_config"] |= sizes
    selector = 2 * 248320 + 2560
    assert parameters(data) - plain - selector == 16_486_400


def without(data, *path):
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return data


@pytest.mark.parametrize("key", ["block_size", "mask_token_id", "target_layer_ids"])
def test_either_place(key):
    data = small()
    moved = without(data, "dflash_config", key) | {key: data["dflash_config"][key]}
    assert DrafterConfig.from_dict(moved) == DrafterConfig.from_dict(data)
    both = small(top={key: data["dflash_config"][key]})
    assert DrafterConfig.from_dict(both) == DrafterConfig.from_dict(data)
    with pytest.raises(ConfigError, match=rf"{key} is .* at the top level and .* in dflash_config"):
        DrafterConfig.from_dict(small(top={key: [1] if key == "target_layer_ids" else 5}))


def test_older_places_of_other_keys():
    plain = DrafterConfig.from_dict(small())
    old = without(small(), "rope_parameters") | {"rope_theta": 5000.0, "rope_scaling": None}
    assert DrafterConfig.from_dict(old) == plain
    scaled = DrafterConfig.from_dict(small(top={"logit_scale": 0.5}))
    assert scaled == DrafterConfig.from_dict(small(output_multiplier=0.5)) != plain


@pytest.mark.parametrize(
    ("layers", "count", "taps"),
    [
        (32, 1, [16]),
        (32, 5, [1, 8, 15, 22, 29]),
        (36, 5, [1, 9, 17, 25, 33]),
        (64, 5, [1, 16, 31, 46, 61]),
        (40, 5, [1, 10, 19, 28, 37]),
    ],
)
def test_default_taps(layers, count, taps):
    """The taps of published drafters follow from the depth of their targets."""
    data = small(top={"num_target_layers": layers, "num_hidden_layers": count}, target_layer_ids=None)
    assert list(DrafterConfig.from_dict(data).target_layer_ids) == taps


WINDOW = {"sliding_window": 9}
MIXED = WINDOW | {"layer_types": [SLIDING, FULL]}


@pytest.mark.parametrize(
    ("keys", "windows", "causal"),
    [
        ({}, [None, None], [False, False]),
        (MIXED, [9, None], [True, False]),
        (MIXED | {"causal": False}, [9, None], [False, False]),
        (MIXED | {"causal": True}, [9, None], [True, True]),
        (MIXED | {"is_causal": False}, [9, None], [False, False]),
        (MIXED | {"is_causal": False, "causal": True}, [9, None], [False, False]),
        (MIXED | {"is_causal": True, "causal": False}, [9, None], [True, True]),
        ({"is_causal": True}, [None, None], [True, True]),
        (WINDOW | {"use_swa": True}, [9, 9], [False, False]),
        (WINDOW | {"use_swa": True, "layer_types": [FULL, FULL], "swa_window_size": 9}, [9, 9], [False, False]),
        (MIXED | {"use_swa": True}, [9, None], [True, False]),
        ({"layer_types": [SLIDING] * 2, "swa_window_size": 5}, [5, 5], [True, True]),
        (WINDOW | {"use_sliding_window": True, "max_window_layers": 1}, [None, 9], [False, True]),
        (WINDOW | {"use_sliding_window": True}, [None, None], [False, False]),
        (WINDOW | {"use_sliding_window": False}, [None, None], [False, False]),
    ],
)
def test_what_a_block_sees(keys, windows, causal):
    rules = layer_rules(2, **keys)
    assert [rule.window for rule in rules] == windows
    assert [rule.causal for rule in rules] == causal
    draft = {key: keys[key] for key in ("causal", "use_swa", "swa_window_size") if key in keys}
    top = {key: value for key, value in keys.items() if key not in draft} | {"num_hidden_layers": 2}
    assert DrafterConfig.from_dict(small(top=top, **draft)).layers == rules


SLIDES = {"layer_types": [SLIDING] * 3, "sliding_window": 9}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (small(top={"num_layers": 3}), "unknown key 'num_layers'.*Did you mean 'num_.*layers'"),
        (small(mask_token=3), "unknown key 'mask_token' in dflash_config.*Did you mean 'mask_token_id'"),
        (small(hidden_size=48), "unknown key 'hidden_size' in dflash_config"),
        (small(top={"rope_parameters": {"rope_theta": 5e3, "mrope_section": [1]}}), "'mrope_section' in rope_param"),
        (without(small(), "dflash_config"), "dflash_config is missing"),
        (without(small(), "head_dim"), "missing head_dim"),
        (without(small(), "dflash_config", "block_size"), "missing block_size in dflash_config"),
        (without(small(), "rope_parameters"), "missing rope_theta"),
        (without(small(), "architectures"), "missing architectures"),
        (small(top={"architectures": ["Qwen3ForCausalLM"]}), "not one of DFlashDraftModel, DFlash2DraftModel"),
        (small(top={"model_type": "llama"}), "model_type 'llama' is not supported"),
        (small(top={"hidden_act": "gelu"}), "hidden_act 'gelu' is not supported"),
        (small(top={"attention_bias": True}), "attention_bias True is not supported"),
        (small(top={"is_neox_style": False}), "is_neox_style False is not supported"),
        (small(attention_sink_bias=True), "attention_sink_bias True is not supported"),
        (small(sample_from_anchor=True), "sample_from_anchor True is not supported"),
        (small(top={"draft_vocab_size": 100}), "draft_vocab_size 100 is not supported .only 211"),
        (small(top={"target_hidden_size": 96}), "target_hidden_size 96 is not supported .only 48"),
        (small(top={"rope_theta": 1e4}), "rope_theta is 5000.0 in rope_parameters, 10000.0 in the top level"),
        (small(top={"rope_scaling": {"rope_type": "yarn"}}), "rope_type 'yarn' is not supported"),
        (small(output_multiplier=0.5, top={"logit_scale": 0.25}), "output_multiplier is 0.5, and logit_scale 0.25"),
        (small(output_multiplier=-1), "output_multiplier must be a number above 0"),
        (small(input_embedding_scale=0), "input_embedding_scale must be a number above 0"),
        (small(final_logit_softcapping=-2.0), "final_logit_softcapping must be above 0"),
        (small(target_layer_ids=[1, 9]), "different layers from 0 to 8"),
        (small(target_layer_ids=[1, 1]), "different layers from 0 to 8"),
        (small(target_layer_ids=[True]), "different layers from 0 to 8"),
        (small(target_layer_ids=None, top={"num_target_layers": 4}), "target_layer_ids is missing"),
        (small(mask_token_id=211), "mask_token_id 211 is not in the vocabulary of 211"),
        (small(block_size=1), "block_size 1 leaves no row for a draft"),
        (small(block_size="7"), "block_size must be a whole number"),
        (small(top={"is_causal": 0}), "is_causal must be true or false"),
        (small(causal="no"), "causal must be true or false"),
        (small(top={"num_key_value_heads": 4}), "6 heads do not divide into 4 groups"),
        (small(top={"num_key_value_heads": 0}), "num_key_value_heads must be above 0"),
        (small(top={"head_dim": 11}), "head_dim 11"),
        (small(top={"layer_types": [FULL]}), "1 layer_types for 3 layers"),
        (small(top={"layer_types": [FULL, FULL, "linear"]}), "unknown layer type 'linear'.*full_attention"),
        (small(top={"layer_types": [SLIDING] * 3}), "neither sliding_window nor swa_window_size"),
        (small(top=SLIDES | {"use_sliding_window": False}), "use_sliding_window is false, and layer_types has"),
        (small(top=SLIDES, use_swa=False), "use_swa is false, and layer_types has"),
        (small(top=SLIDES, swa_window_size=8), "sliding_window is 9, and swa_window_size 8"),
        (small(top=SLIDES | {"sliding_window": 0}), "window of 0 rows"),
        (small(selector_rank=4), "selector_rank belongs to DFlash2DraftModel"),
        (without(small(2), "dflash_config", "selector_rank"), "missing selector_rank in dflash_config"),
        (small(2, conv_group_size=9), "hidden_size 48 does not divide into groups of 9 channels"),
        (small(2, selector_top_k=212), "selector_top_k 212 exceeds the vocabulary of 211"),
        (small(2, conv_kernel_size=0), "conv_kernel_size must be above 0"),
    ],
)
def test_faults(data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        DrafterConfig.from_dict(data, where="a/config.json")
    assert caught.value.path == "a/config.json"


def test_it_must_fit_its_target():
    # The text decoder of Qwen3.5-4B.
    text = {
        "model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 2560, "intermediate_size": 9216,
        "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "tie_word_embeddings": True,
    }  # fmt: skip
    target = ModelConfig.from_dict(text).text
    DrafterConfig.from_dict(published_4b()).check_target(target)
    for key, value in {"hidden_size": 2048, "vocab_size": 248077, "num_target_layers": 36}.items():
        data = published_4b() | {key: value} | ({"dflash_config": small()["dflash_config"]})
        with pytest.raises(ConfigError, match=f"the drafter's {key} is {value}"):
            DrafterConfig.from_dict(data).check_target(target)


def test_only_a_drafter_that_says_so_may_be_asked_for_short_blocks():
    assert not DrafterConfig.from_dict(published_4b()).any_block_size
    own = published_4b()
    own["dflash_config"]["any_block_size"] = True
    assert DrafterConfig.from_dict(own).any_block_size
    own["dflash_config"]["any_block_size"] = "yes"
    with pytest.raises(ConfigError, match="any_block_size"):
        DrafterConfig.from_dict(own)
