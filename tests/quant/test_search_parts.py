"""Pieces of the search: groups, divergences, the order of changes, recipes made of formats."""

import itertools
import random

import pytest
import torch

from ocria.document.reader import NANO
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.quant.recipe import BF16, Format, Recipe, load_recipe, why_high
from ocria.quant.search.bound import Bound
from ocria.quant.search.divergence import Divergence, Reference
from ocria.quant.search.frontier import Option, stages
from ocria.quant.search.groups import Group, layer_groups
from ocria.quant.search.report import recipe_of
from ocria.quant.step_bytes import linear_shapes

FP8, FP4 = Format("fp8-channel"), Format("nvfp4")


@pytest.fixture(scope="module")
def shapes():
    with torch.device("meta"):
        return linear_shapes(Qwen35(ModelConfig.from_file(NANO / "config.json")))


def test_every_module_that_can_be_quantised_is_in_one_group(shapes):
    groups = layer_groups(shapes)
    assert [str(group) for group in groups[:4]] == [
        "layer 0 mixer in", "layer 0 mixer out", "layer 0 mlp in", "layer 0 mlp out",
    ]  # fmt: skip
    assert str(groups[-1]) == "head"
    found = [name for group in groups for name in group.modules]
    assert sorted(found) == sorted(name for name in shapes if why_high(name) is None)
    assert groups[4].modules == tuple(f"model.language_model.layers.1.self_attn.{x}_proj" for x in "qkv")


@pytest.mark.parametrize("kept", [3, 7, 50])
def test_divergence_is_that_of_torch(kept, rng):
    """In full where everything is kept; with the rest of the tokens as one where it is not."""
    counts, vocabulary = (70, 5), 50
    old = [torch.randn(n, vocabulary, generator=rng) * 3 for n in counts]
    new = [rows + torch.randn(rows.shape, generator=rng) for rows in old]
    now = old
    reference = Reference(lambda index: now[index], len(counts), kept)
    assert reference.compare() == Divergence(pytest.approx(0, abs=1e-12), 0.0, 75)
    now, passes = new, []
    found = reference.compare(lambda done, total: passes.append((done, total)))
    assert passes == [(1, 2), (2, 2)]
    p, q = (torch.cat(rows).double().softmax(-1) for rows in (old, new))
    order = p.argsort(-1, descending=True)
    p, q = p.gather(1, order), q.gather(1, order)
    if kept < vocabulary:
        p, q = (torch.cat([x[:, :kept], x[:, kept:].sum(1, keepdim=True)], 1) for x in (p, q))
    expected = torch.nn.functional.kl_div(q.log(), p, reduction="batchmean").item()
    assert found.kl == pytest.approx(expected, rel=1e-9)
    same = torch.cat(old).argmax(-1) == torch.cat(new).argmax(-1)
    assert found.agreement == pytest.approx(same.float().mean().item())
    assert found.tokens == 75


def test_equal_choices_are_no_change():
    rows = torch.zeros(4, 9)
    rows[:, 5:] = 1  # five tokens that are equally likely
    reference = Reference(lambda _: rows, 1, kept=6)
    assert reference.compare().changed == 0


def test_bounds():
    agreement, kl = Bound.parse("agreement=99.9%"), Bound.parse(" kl=0.25")
    assert agreement == Bound("agreement", pytest.approx(0.999))
    assert agreement.holds(Divergence(5.0, 0.001, 1000))
    assert not agreement.holds(Divergence(0.0, 0.002, 1000))
    assert kl.holds(Divergence(0.25, 1.0, 9))
    assert not kl.holds(Divergence(0.26, 0.0, 9))
    assert Bound.parse("agreement=0.5").limit == 0.5


def made_up(count):
    """Groups with a loss and a size in two formats, a few of them odd."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    plain = {Group(i, "mlp in", (f"layers.{i}.mlp.up_proj",)): rng.randint(100, 1000) for i in range(count)}
    options = []
    for group, size in plain.items():
        options += [Option(group, FP8, rng.random() * rng.choice([0, 1, 1]), size // 2),
                    Option(group, FP4, rng.random(), size // 4)]  # fmt: skip
    return plain, options


def test_stages_go_down_in_bytes_and_up_in_price():
    plain, options = made_up(12)
    way = stages(options, plain)
    assert set(way[0].formats.values()) == {BF16}
    assert set(way[-1].formats.values()) == {FP4}, "the smallest of each in the end"
    losses = {(option.group, option.format): option for option in options}
    for stage in way:
        chosen = [losses.get((group, format)) for group, format in stage.formats.items()]
        size = sum(o.nbytes if o else plain[group] for group, o in zip(stage.formats, chosen, strict=True))
        assert stage.nbytes == size
        assert stage.predicted == pytest.approx(sum(o.loss for o in chosen if o))
    prices = [(b.predicted - a.predicted) / (a.nbytes - b.nbytes) for a, b in itertools.pairwise(way)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(prices))


def test_no_choice_of_formats_beats_a_stage():
    """All combinations of a small case: none has fewer bytes and less loss than a stage."""
    plain, options = made_up(5)
    by_group = {group: [(0.0, size)] for group, size in plain.items()}
    for option in options:
        by_group[option.group].append((option.loss, option.nbytes))
    every = [tuple(map(sum, zip(*chosen, strict=True))) for chosen in itertools.product(*by_group.values())]
    for stage in stages(options, plain):
        assert not any(loss < stage.predicted - 1e-9 and size <= stage.nbytes for loss, size in every)


def test_a_recipe_says_the_formats_again(shapes):
    rng = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    groups = layer_groups(shapes)
    formats = {group: rng.choice([BF16, FP8, FP4]) for group in groups}
    settings = Recipe("settings", scaling="awq", block_scales="sweep", form="modelopt")
    recipe = recipe_of("found", "as found", formats, settings)
    wanted = {name: format for group, format in formats.items() for name in group.modules if format != BF16}
    assert recipe.plan(shapes) == wanted
    assert (recipe.scaling, recipe.block_scales, recipe.form) == ("awq", "sweep", "modelopt")
    text_only = {name.replace("model.language_model.", "model."): shape for name, shape in shapes.items()
                 if "visual" not in name}  # fmt: skip
    assert recipe.plan(text_only) == {name.replace("language_model.", ""): format for name, format in wanted.items()}


def test_a_recipe_survives_its_file(shapes, tmp_path):
    groups = layer_groups(shapes)
    formats = {group: FP4 if group.part == "head" or group.layer == 3 else FP8 for group in groups}
    recipe = recipe_of("found", "as found", formats, Recipe("settings"))
    (tmp_path / "found.toml").write_text(recipe.to_toml())
    assert load_recipe(tmp_path / "found.toml") == recipe
