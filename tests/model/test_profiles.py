"""Profiles: what is known, what is not, and how the command line supplies it."""

import json

import pytest

from ocria.errors import ConfigError, UsageError
from ocria.model.profiles import (
    DEFAULT_MAX_OUTPUT_TOKENS,
    GENERIC,
    OPTIONS,
    UNKNOWN,
    Profile,
    find_profile,
)

LINE = {
    "name": "a reader",
    "unit": "line",
    "prompt": "",
    "dialect": "text",
    "max_output_tokens": 300,
    "max_output_per_image_token": 2.5,
    "stop": ["<end>"],
    "template_kwargs": {"enable_thinking": False},
}


def write(folder, **changes):
    (folder / "ocria.json").write_text(json.dumps(LINE | changes), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("llamaindex/OCRia-1", "OCRia-1"),
        ("ocria_1", "OCRia-1"),
        ("lightonai/LightOnOCR-3-0.8B", "LightOnOCR-3"),
        ("lightonai/LightOnOCR-3-4B", "LightOnOCR-3"),
        ("ATH-MaaS/OvisOCR2", "OvisOCR2"),
        ("infly/Infinity-Parser2-Flash", "Infinity-Parser2-Flash"),
        ("datalab-to/chandra-ocr-2", "chandra-ocr-2"),
        ("someone/chandra-ocr-2-NVFP4", "chandra-ocr-2"),
        ("ATH-MaaS/OvisOCR2.5", GENERIC.name),
        ("ocria-10", GENERIC.name),
        ("Qwen/Qwen3.5-4B", GENERIC.name),
    ],
)
def test_by_name(tmp_path, name, profile):
    assert find_profile(tmp_path, name).name == profile
    folder = tmp_path / name.rpartition("/")[2]
    folder.mkdir()
    assert find_profile(folder).name == profile


def test_by_place_in_a_hub_cache(tmp_path):
    folder = tmp_path / "models--ATH-MaaS--OvisOCR2" / "snapshots" / "0123abc"
    folder.mkdir(parents=True)
    assert find_profile(folder).name == "OvisOCR2"


def test_own_file_comes_first(tmp_path):
    assert find_profile(write(tmp_path), "llamaindex/OCRia-1") == Profile(**LINE)


def test_save_and_read(tmp_path):
    profile = Profile(**LINE, min_pixels=900, temperature=0.0)
    profile.save(tmp_path / "ocria.json")
    assert Profile.from_file(tmp_path / "ocria.json") == profile
    with pytest.raises(UsageError):
        GENERIC.save(tmp_path / "ocria.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"promt": ""}, "'prompt'"),
        ({"unit": "word"}, "page, line"),
        ({"dialect": "latex"}, "markdown"),
        ({"prompt": 3}, "text"),
        ({"prompt": None}, "missing prompt"),
        ({"max_output_tokens": 0}, "positive"),
        ({"max_pixels": True}, "positive"),
    ],
)
def test_faulty_file(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        find_profile(write(tmp_path, **changes))
    assert caught.value.path == str(tmp_path / "ocria.json")


@pytest.mark.parametrize("name", ["OCRia-1", "OvisOCR2", "Infinity-Parser2-Flash", "chandra-ocr-2", "x"])
def test_unknown_prompt_names_the_cure(tmp_path, name):
    profile = find_profile(tmp_path, name)
    with pytest.raises(UsageError, match="--prompt"):
        profile.messages()
    asked = profile.override(prompt="Read this page.")
    assert asked is not profile
    assert "Read this page." in json.dumps(asked.messages())
    assert UNKNOWN in (profile.prompt, profile.system_prompt)


def test_unknown_settings_have_options(tmp_path):
    profile = find_profile(tmp_path, "infly/Infinity-Parser2-Flash")
    for name in profile.unknown():
        with pytest.raises(UsageError, match=OPTIONS[name]):
            profile.require(name)
    assert profile.override(dialect="json").require("dialect") == "json"


def test_a_system_prompt_leaves_the_image_alone(tmp_path):
    profile = find_profile(tmp_path, "OCRia-1").override(prompt="You read pages.")
    assert profile.messages() == [
        {"role": "system", "content": "You read pages."},
        {"role": "user", "content": [{"type": "image"}]},
    ]


def test_an_empty_prompt_is_known(tmp_path):
    profile = find_profile(tmp_path, "LightOnOCR-3-4B")
    assert profile.messages(images=2) == [{"role": "user", "content": [{"type": "image"}] * 2}]
    assert profile.override(prompt="grounding").messages()[0]["content"][-1]["text"] == "grounding"


def test_override():
    profile = Profile(**LINE)
    assert profile.override(prompt=None, unit=None) == profile
    assert profile.override(max_output_tokens=7, unit="page").max_output_tokens == 7
    with pytest.raises(TypeError, match="colour"):
        profile.override(colour="red")
    with pytest.raises(ConfigError):
        profile.override(dialect="latex")


def test_output_limit(tmp_path):
    profile = Profile(**LINE)
    assert profile.output_limit(10) == 25
    assert profile.output_limit(1000) == 300
    assert profile.override(max_output_per_image_token=0.001).output_limit(10) == 1
    assert GENERIC.output_limit(10) == DEFAULT_MAX_OUTPUT_TOKENS
