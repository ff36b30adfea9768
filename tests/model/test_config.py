"""Reading config.json strictly."""

import json

import pytest
from test_sizes import published_config

from ocria.errors import ConfigError
from ocria.model.config import ModelConfig


def changed(section: str | None, **changes) -> dict:
    data = published_config("4B")
    (data[section] if section else data).update(changes)
    return data


def test_a_published_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published_config("4B")))
    config = ModelConfig.from_file(tmp_path / "config.json")
    assert config.tie_word_embeddings
    assert config.image_token_id == 248056
    assert config.eos_token_ids == (248044,)
    assert config.text.rotary_dim == 64
    assert config.text.conv_dim == 8192
    assert config.text.layer_types.count("full_attention") == 8
    assert config.text.layer_types[3] == "full_attention"
    assert config.vision.patch_dim == 1536
    assert config.vision.head_dim == 64


def test_what_transformers_writes():
    transformers = pytest.importorskip("transformers")
    data = published_config("9B")
    theirs = transformers.Qwen3_5Config.from_dict(data).to_dict()
    ours = ModelConfig.from_dict(theirs)
    assert ours == ModelConfig.from_dict(data)
    assert not ours.tie_word_embeddings
    text = ModelConfig.from_dict(theirs["text_config"])
    assert text.vision is None
    assert text.text == ours.text


def test_eos_of_the_top_level_comes_first():
    assert ModelConfig.from_dict(changed(None, eos_token_id=[7, 9])).eos_token_ids == (7, 9)


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        (None, {"model_type": "qwen3_5_moe"}, "qwen3_5_moe"),
        (None, {"text_config": None}, "text_config is missing"),
        (None, {"image_token": 3}, "Did you mean 'image_token_id'"),
        (None, {"image_token_id": None}, "missing image_token_id"),
        (None, {"image_token_id": "3"}, "whole number"),
        ("text_config", {"hiden_size": 3}, "Did you mean 'hidden_size'"),
        ("text_config", {"hidden_size": None}, "missing hidden_size"),
        ("text_config", {"hidden_size": 64.5}, "whole number"),
        ("text_config", {"rms_norm_eps": True}, "a number"),
        ("text_config", {"hidden_act": "gelu"}, "'gelu' is not supported"),
        ("text_config", {"attention_bias": True}, "attention_bias"),
        ("text_config", {"attn_output_gate": False}, "attn_output_gate"),
        ("text_config", {"num_key_value_heads": 3}, "16 heads"),
        ("text_config", {"num_key_value_heads": 0}, "16 heads"),
        ("text_config", {"linear_num_value_heads": 24}, "24 heads"),
        ("text_config", {"layer_types": ["full_attention"]}, "1 layer_types for 32 layers"),
        ("text_config", {"layer_types": ["sliding_attention"] * 32}, "sliding_attention"),
        ("text_config", {"rope_parameters": {"rope_type": "yarn"}}, "yarn"),
        ("text_config", {"rope_parameters": {"mrope_sections": [1]}}, "Did you mean 'mrope_section'"),
        ("text_config", {"rope_parameters": {"mrope_section": [3, 3, 3]}}, "does not add up to 32"),
        ("text_config", {"rope_parameters": {"mrope_interleaved": False}}, "mrope_interleaved"),
        ("vision_config", {"out_hidden_size": 99}, "99"),
        ("vision_config", {"deepstack_visual_indexes": [3]}, "deepstack"),
        ("vision_config", {"num_position_embeddings": 50}, "50 is not a square"),
        ("vision_config", {"patch_size": [16, 14]}, "not square"),
        ("vision_config", {"depht": 3}, "Did you mean 'depth'"),
    ],
    ids=lambda value: None if value is None or isinstance(value, dict) else value,
)
def test_faults(section, changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ModelConfig.from_dict(changed(section, **changes), where="some/config.json")
    assert caught.value.path == "some/config.json"
    assert "config.json" not in caught.value.message


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="not found") as caught:
        ModelConfig.from_file(tmp_path / "config.json")
    assert str(caught.value).count("config.json") == 1
