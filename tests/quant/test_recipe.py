"""Recipes: what comes with ocria, what a file may say, and what it must not."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from checkpoint_made import make_checkpoint

from ocria.errors import ConfigError
from ocria.quant.calibration.source import PlainCheckpoint
from ocria.quant.formats.contents import plain_linears
from ocria.quant.recipe import BF16, FOLDER, Format, Recipe, load_recipe, recipe_names, why_high
from ocria.quant.round import quantize_fp8, quantize_nvfp4

LAYER = "model.language_model.layers.3."
# Names as real checkpoints have them.
HYBRID = {
    "model.visual.blocks.0.attn.qkv": (96, 32),
    "model.visual.blocks.0.mlp.linear_fc1": (48, 32),
    "model.visual.merger.linear_fc1": (64, 64),
    LAYER + "linear_attn.in_proj_a": (4, 64),
    LAYER + "linear_attn.in_proj_b": (4, 64),
    LAYER + "linear_attn.in_proj_qkv": (160, 64),
    LAYER + "linear_attn.in_proj_z": (96, 64),
    LAYER + "linear_attn.out_proj": (64, 96),
    **{LAYER.replace("3", "4") + f"self_attn.{leaf}_proj": (64, 64) for leaf in "qkvo"},
    **{LAYER + f"mlp.{leaf}_proj": (144, 64) for leaf in ("gate", "up")},
    LAYER + "mlp.down_proj": (64, 144),
    "mtp.layers.0.mlp.up_proj": (144, 64),
    "lm_head": (272, 64),
}
HIGH = [name for name in HYBRID if "visual" in name or name.startswith("mtp") or re.search("in_proj_[ab]$", name)]


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def rule(pattern: str, format: str) -> str:
    return f'[[rules]]\nmodules = "{pattern}"\nformat = "{format}"\n'


def refusal(folder: Path, text: str) -> str:
    """What is said of a file, with the path in it."""
    path = written(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_recipe(path).plan(HYBRID)
    return str(caught.value)


def test_all_recipes_are_listed_and_whole():
    assert sorted(recipe_names()) == sorted(path.stem for path in FOLDER.glob("*.toml"))
    for name in recipe_names():
        recipe = load_recipe(name)
        assert recipe.name == name
        assert recipe.description
        assert "\n" not in recipe.description


@pytest.mark.parametrize("name", recipe_names())
def test_nothing_that_must_stay_high_is_planned(name):
    plan = load_recipe(name).plan(HYBRID)
    assert not set(HIGH) & set(plan)
    assert BF16 not in plan.values()


def test_the_published_mix():
    plan = load_recipe("nvfp4-mlp+fp8").plan(HYBRID)
    kinds = {name: format.kind for name, format in plan.items()}
    expected = {name: "nvfp4" if ".mlp." in name else "fp8" for name in HYBRID if name not in (*HIGH, "lm_head")}
    assert kinds == expected
    assert all(format.activations == "none" for format in plan.values() if format.kind == "nvfp4")  # W4A16
    assert load_recipe("nvfp4-mlp+fp8").kv == "fp8"
    with_head = load_recipe("nvfp4-mlp+fp8+head").plan(HYBRID)
    assert with_head == plan | {"lm_head": Format("nvfp4")}


def test_what_the_others_plan():
    every = set(HYBRID) - set(HIGH)
    assert load_recipe("bf16").plan(HYBRID) == {}
    assert set(load_recipe("fp8").plan(HYBRID)) == every - {"lm_head"}
    assert set(load_recipe("nvfp4").plan(HYBRID)) == every
    assert {format.kind for format in load_recipe("nvfp4").plan(HYBRID).values()} == {"nvfp4"}


@pytest.mark.parametrize("name", recipe_names())
def test_files_of_both_kinds_of_names(name):
    """Text-only files lack `language_model`."""
    short = {module.replace("language_model.", ""): shape for module, shape in HYBRID.items() if "visual" not in module}
    plan, expected = load_recipe(name).plan(short), load_recipe(name).plan(HYBRID)
    assert plan == {module.replace("language_model.", ""): format for module, format in expected.items()}


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_what_its_file_says(name, tmp_path):
    recipe = load_recipe(name)
    assert dataclasses.replace(load_recipe(written(tmp_path, recipe.to_toml())), name=name) == recipe


def test_a_recipe_of_ones_own(tmp_path):
    text = (
        'description = "says \\"ü\\""\nscaling = "awq"\nblock_scales = "sweep"\ngptq = true\nkv = "fp8"\n'
        'form = "modelopt"\n'
        + rule("*.layers.*", "fp8-channel") + rule("*.mlp.*", "nvfp4-w4a4") + rule("*.3.*", "bf16")
    )
    recipe = load_recipe(written(tmp_path, text))
    assert (recipe.name, recipe.description, recipe.scaling, recipe.gptq) == ("mine", 'says "ü"', "awq", True)
    assert (recipe.block_scales, recipe.kv, recipe.form) == ("sweep", "fp8", "modelopt")
    # The last rule that matches holds: layer 3 stays as it is.
    assert set(recipe.plan(HYBRID)) == {name for name in HYBRID if ".4." in name}
    assert recipe.plan({**HYBRID, "a.layers.7.mlp.x": (16, 16)})["a.layers.7.mlp.x"] == Format("nvfp4-w4a4")


def test_needs_pages():
    plain = Recipe("r", rules=(("*", Format("fp8-channel")), ("*", Format("fp8-block")), ("*", Format("nvfp4"))))
    assert not plain.needs_pages
    for change in ({"scaling": "awq"}, {"gptq": True}, {"kv": "fp8"}):
        assert dataclasses.replace(plain, **change).needs_pages
    for name in ("fp8-tensor", "nvfp4-w4a4"):
        assert dataclasses.replace(plain, rules=(("*", Format(name)),)).needs_pages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('scalling = "awq"', "Did you mean 'scaling'?"),
        ('scaling = "aqw"', "Did you mean 'awq'?"),
        ('block_scales = "four-over-six"', "Did you mean 'four_over_six'?"),
        ('kv = "fp9"', "Did you mean 'fp8'?"),
        ('form = "compressed_tensors"', "Did you mean 'compressed-tensors'?"),
        ('gptq = "yes"', "gptq must be true or false"),
        ("description = 3", "description is no text"),
        ('[rules]\nmodules = "*"', "[[rules]]"),
        ('[[rules]]\nmodules = "*.mlp.*"\n', "rule 1 has no format"),
        ('[[rules]]\nformat = "nvfp4"\n', "rule 1 has no modules"),
        ('[[rules]]\nmodule = "*"\nformat = "nvfp4"\n', "Did you mean 'modules'?"),
        (rule("*.mlp.*", "nvpf4"), "Did you mean 'nvfp4'?"),
        (rule("*.mpl.up_proj", "nvfp4"), "Did you mean '*.mlp.up_proj'?"),
        (rule("*.mlp.*", "nvfp4") + rule("*.layers.99.*", "bf16"), "'*.layers.99.*' matches no module"),
        ('form = "modelopt"\n' + rule("*.mlp.*", "fp8-block"), "modelopt has no fp8-block"),
        ("rules = [", "not readable TOML"),
    ],
)
def test_mistakes_in_a_file_are_told_with_the_cure(text, said, tmp_path):
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("*.visual.*", "vision encoder"),
        ("model.visual.blocks.*.mlp.linear_fc1", "vision encoder"),
        ("*.conv1d", "convolution"),
        ("*.in_proj_a", "gates"),
        ("*.linear_attn.in_proj_[ab]", "gates"),
        ("*.input_layernorm", "norms"),
        ("*.k_norm", "norms"),
        ("model.language_model.norm", "norms"),
        ("*embed_tokens", "embeddings"),
        ("mtp.*", "drafters"),
    ],
)
def test_what_must_stay_high_says_why(pattern, why, tmp_path):
    said = refusal(tmp_path, rule("*.mlp.*", "nvfp4") + rule(pattern, "fp8-channel"))
    assert pattern in said
    assert why in said
    # To leave it as it is may be said.
    assert load_recipe(written(tmp_path, rule("*.mlp.*", "nvfp4") + rule(pattern, "bf16"))).plan(HYBRID)


def test_a_name_that_is_no_recipe(tmp_path):
    with pytest.raises(ConfigError, match=r"Did you mean 'nvfp4-mlp\+fp8'"):
        load_recipe("nvfp4-mpl+fp8")
    with pytest.raises(ConfigError, match="no recipe"):
        load_recipe(tmp_path)


def test_columns_that_nvfp4_cannot_hold(tmp_path):
    odd = {**HYBRID, LAYER + "mlp.down_proj": (64, 72)}
    with pytest.raises(ConfigError, match=r"down_proj has 72 columns.*multiple of 16.*fp8-channel"):
        load_recipe("nvfp4").plan(odd)
    recipe = load_recipe(written(tmp_path, rule("*.mlp.*", "nvfp4") + rule("*.down_proj", "fp8-channel")))
    assert recipe.plan(odd)[LAYER + "mlp.down_proj"] == Format("fp8-channel")


@pytest.mark.parametrize("name", ["fp8-tensor", "fp8-channel", "fp8-block", "nvfp4", "nvfp4-w4a4"])
def test_bytes_are_those_of_the_weight(name, rng):
    rows, columns = (16 * int(torch.randint(1, 30, (), generator=rng)) for _ in range(2))
    rows += 3
    weight, number, format = torch.randn(rows, columns, generator=rng), torch.tensor(0.5), Format(name)
    if format.kind == "fp8":
        made = quantize_fp8(weight, format.granularity, input_scale=number if format.scaled_input else None)
    else:
        made = quantize_nvfp4(weight, input_multiplier=number if format.scaled_input else None)
    assert format.nbytes((rows, columns)) == made.nbytes + 4 * format.scaled_input
    large = format.nbytes((4096, 8192)) * 8 / (4096 * 8192)
    assert large == pytest.approx(format.bits_per_weight, rel=1e-3)


def test_the_modules_of_a_checkpoint(tmp_path, rng):
    """A tied head counts as a layer; what stays high is there as well."""
    folder = make_checkpoint(tmp_path / "plain", rng)
    checkpoint = PlainCheckpoint.find(folder)
    assert set(checkpoint.modules) == {*plain_linears(checkpoint.infos), "lm_head"}
    assert checkpoint.modules["lm_head"] == (272, 64)
    assert all(why_high(name) for name in checkpoint.modules if "visual" in name or name.startswith("mtp"))
    assert torch.equal(checkpoint.weight("lm_head"), checkpoint.weight("model.language_model.embed_tokens"))
    assert checkpoint.nbytes("lm_head") == 0
