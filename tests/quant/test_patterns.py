"""Names of modules in configurations: how the tools match them, and the few patterns that are written."""

import torch

from ocria.quant.formats.patterns import globs, names_glob, names_part, names_regex, regexes

UP = "model.language_model.layers.0.mlp.up_proj"


def test_names_are_matched_as_the_tools_do():
    assert names_regex("re:.*mlp", UP)
    assert names_regex("model.layers.0.mlp.up_proj", UP)
    assert names_regex("re:^language_model.model.layers", UP)
    assert not names_regex("re:mlp", UP)  # an expression is for the beginning
    assert not names_regex("mlp.up_proj", UP)
    assert names_glob("*mlp*", UP)
    assert names_glob("model.layers.0.mlp", UP)  # what lies inside is meant as well
    assert names_glob("model.layers.0*", UP)
    assert not names_glob("model.layers.1.*", UP.replace("layers.0", "layers.11"))
    assert not names_glob("mlp", UP)
    assert names_part("mlp.up_proj", UP)
    assert names_part("model.layers.0", UP)
    assert not names_part("model.layers.0", UP.replace("layers.0", "layers.01"))


def test_patterns_match_what_they_should_and_nothing_else(rng):
    """Random parts of a large model."""
    leaves = ["mlp.up_proj", "mlp.down_proj", "self_attn.q_proj", "linear_attn.in_proj_a", "linear_attn.out_proj"]
    every = [f"model.language_model.layers.{layer}.{leaf}" for layer in range(12) for leaf in leaves]
    every += [f"model.visual.blocks.{layer}.attn.qkv" for layer in range(3)]
    every += ["lm_head", "mtp.fc", "mtp.layers.0.mlp.up_proj", "model.visual.merger.linear_fc1"]
    for share in (0.03, 0.5, 0.97):
        chosen = torch.rand(len(every), generator=rng) < share
        wanted = [name for name, take in zip(every, chosen, strict=True) if take]
        others = [name for name, take in zip(every, chosen, strict=True) if not take]
        for contained in (False, True):
            found = regexes(wanted, others, contained=contained)
            assert [name for name in every if any(names_regex(pattern, name) for pattern in found)] == wanted
        found = globs(wanted, others)
        assert [name for name in every if any(names_glob(pattern, name) for pattern in found)] == wanted
    assert regexes(every, [], contained=True) != []
    assert (
        len(
            regexes(
                [name for name in every if "visual" in name], [n for n in every if "visual" not in n], contained=True
            )
        )
        == 1
    )
