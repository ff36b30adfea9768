"""The search as a whole, on a small random model that it must see through: all groups but one lie on the grid of the
format already."""

import importlib.util
import json

import pytest
import torch
from checkpoint_made import make_checkpoint, save, tensors_of

import ocria.quant.search.scene as scenes
from ocria.errors import OutputError, UsageError
from ocria.model.checkpoint import load_model
from ocria.ops.quant_grid import E2M1
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.run import quantize
from ocria.quant.recipe import Format, Recipe, load_recipe
from ocria.quant.search import Bound, run_search
from ocria.quant.search import run as search_module
from ocria.runtime.engine import Engine
from ocria.runtime.request import Limits, Request
from ocria.runtime.teacher import Teacher

PLANTED = "layer 2 mlp in"
SCALED = Recipe("scaled", rules=(("*.layers.2.mlp.*", Format("nvfp4")),), scaling="awq", block_scales="four_over_six")
MODULES = ("model.language_model.layers.2.mlp.gate_proj", "model.language_model.layers.2.mlp.up_proj")


def on_grid(rng: torch.Generator, weight: torch.Tensor) -> torch.Tensor:
    """Numbers of about the same size that NVFP4 can hold: every block has a 6, in one unit for the tensor."""
    values = torch.tensor([*E2M1, *(-v for v in E2M1)])[torch.randint(16, weight.shape, generator=rng)]
    values.view(-1, 16)[:, 0] = 6
    return values * 2.0 ** torch.log2(weight.std() / 3).round()


@pytest.fixture
def model(tmp_path, rng):
    folder = make_checkpoint(tmp_path / "model", rng)
    profile = {"name": "planted", "unit": "line", "prompt": "", "dialect": "text", "max_output_tokens": 64}
    (folder / "ocria.json").write_text(json.dumps(profile))
    tensors = tensors_of(folder)
    for name, value in tensors.items():
        module = name.removesuffix(".weight")
        layered = ".language_model." in name and value.ndim == 2
        if layered and module not in MODULES and "in_proj_a" not in name and "in_proj_b" not in name:
            tensors[name] = on_grid(rng, value)
    save(folder, tensors)
    return folder


def samples(folder, rng, count):
    """Prompts of text and what the model answers."""
    requests = [
        Request(i, torch.randint(200, (5 + i,), generator=rng).tolist(), limits=Limits(max_tokens=12))
        for i in range(count)
    ]
    return list(map(Sample, requests, Engine(load_model(folder)).run(requests)))


def test_a_planted_group_is_found_and_left_alone(model, tmp_path, rng):
    held_out = samples(model, rng, 3)
    told = []
    report = run_search(
        model, held_out, tmp_path / "out", formats=["nvfp4"], bound="kl=1e-7",
        on_progress=lambda *step: told.append(step),
    )  # fmt: skip
    alone = {str(one.group): one.loss.kl for one in report.sensitivities}
    assert len(alone) == 4 * 4 + 1
    others = max(kl for group, kl in alone.items() if group != PLANTED)
    assert alone[PLANTED] > 1e-5 > 1e-8 > others, alone
    assert report.layers == {group: "bf16" if group == PLANTED else "nvfp4" for group in alone}
    assert report.chosen.loss.kl < 1e-7
    assert {stage for stage, *_ in told} >= {"groups", "recipes"}
    assert all(0 <= done <= total for _, done, total in told)
    everything = next(p for p in report.points if p.recipe.name == "nvfp4")
    assert everything.nbytes < report.chosen.nbytes
    assert everything.loss.kl == pytest.approx(alone[PLANTED], rel=0.01)

    # What is written can be quantised by, and read.
    out = tmp_path / "out"
    document = json.loads((out / "search.json").read_text())
    assert document["formats"] == report.layers
    assert document["points"][0]["bytes"] == report.points[0].nbytes
    page = (out / "search.md").read_text()
    assert f"**{report.chosen.recipe.name}**" in page
    assert "on the CPU quantised weights are decoded" in page
    assert page.count("\n| layer ") == 2 * 16
    recipe = load_recipe(out / "recipe.toml")
    written = quantize(model, recipe, held_out, tmp_path / "quantised")
    assert {one.name for one in written.modules}.isdisjoint(MODULES)
    assert len(written.modules) == sum(len(group.group.modules) for group in report.sensitivities) - len(MODULES)
    drawn = importlib.util.find_spec("matplotlib") is not None
    assert (out / "search.png").exists() == drawn
    assert ("matplotlib is not installed" in page) == (not drawn)


def test_what_was_measured_is_not_measured_again(model, tmp_path, rng, monkeypatch):
    held_out, calibration = samples(model, rng, 2), samples(model, rng, 2)
    measured = []
    loss = scenes.Scene.loss

    def interrupted(scene, plan, settings, on_pass=None):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(tuple(sorted((name, format.name) for name, format in plan.items())))
        return loss(scene, plan, settings, on_pass)

    options = {"formats": ["fp8-channel"], "compare": [], "bound": "kl=1"}
    monkeypatch.setattr(scenes.Scene, "loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_search(model, held_out, tmp_path / "out", **options)
    first = list(measured)

    def counted(scene, plan, settings, on_pass=None):
        measured.append(tuple(sorted((name, format.name) for name, format in plan.items())))
        return loss(scene, plan, settings, on_pass)

    monkeypatch.setattr(scenes.Scene, "loss", counted)
    report = run_search(model, held_out, tmp_path / "out", **options)
    assert len(measured) == len(set(measured)), "nothing twice"
    assert set(report.layers.values()) == {"fp8-channel"}
    measured.clear()
    again = run_search(model, held_out, tmp_path / "out", **options)
    assert measured == []
    assert again.to_dict() == report.to_dict()
    run_search(model, calibration, tmp_path / "out", **options)
    assert first[0] in measured, "other samples are measured"


def test_scaling_is_undone(model, rng):
    """With the losses of scaled recipes measured, the network is the plain one to the bit."""
    loaded = load_model(model, dtype=torch.float32)
    before = {name: value.clone() for name, value in loaded.network.state_dict().items()}
    scene = scenes.Scene(loaded, samples(model, rng, 2), samples(model, rng, 3))
    plan = SCALED.plan(scene.shapes)
    with scene._scaled(plan, SCALED):
        changed = [name for name, value in loaded.network.state_dict().items() if not torch.equal(value, before[name])]
    assert changed, "scaling did something"
    assert all(torch.equal(value, before[name]) for name, value in loaded.network.state_dict().items())
    assert scene.loss(plan, SCALED).kl > 0
    assert all(torch.equal(value, before[name]) for name, value in loaded.network.state_dict().items())


def test_a_loss_is_that_of_the_checkpoint_that_is_written(model, tmp_path, rng):
    """Weights and scalings are the same as those of `quantize`; against the distributions of what was loaded again."""
    held_out, calibration = samples(model, rng, 3), samples(model, rng, 3)
    quantize(model, SCALED, calibration, tmp_path / "out")
    teachers = [Teacher(load_model(folder, dtype=torch.float32)) for folder in (model, tmp_path / "out")]
    kl, tokens = 0.0, 0
    for request, result in held_out:
        old, new = (teacher.logits(request, result).double().log_softmax(-1) for teacher in teachers)
        kl += (old.exp() * (old - new)).sum().item()
        tokens += len(old)
    scene = scenes.Scene(load_model(model, dtype=torch.float32), held_out, calibration, torch.float32)
    found = scene.loss(SCALED.plan(scene.shapes), SCALED)
    assert found.tokens == tokens
    assert found.kl == pytest.approx(kl / tokens, rel=1e-3, abs=1e-9)


def test_steps_are_timed_where_asked(model, tmp_path, rng, monkeypatch):
    held_out = samples(model, rng, 2)
    asked = []

    def step_seconds(folder, recipes, requests, calibration, **options):
        asked.append([recipe.name for recipe in recipes])
        return [1.0 if recipe.name != "bf16" else 0.5 for recipe in recipes]

    monkeypatch.setattr(search_module, "step_seconds", step_seconds)
    report = run_search(model, held_out, tmp_path / "out", formats=["nvfp4"], bound="kl=1e9", compare=[], timed=True)
    assert asked == [[point.recipe.name for point in report.points]]
    assert report.chosen.recipe.name == "bf16", "the fastest, though it has the most bytes"
    assert "ms a step" in report.markdown()


def test_a_real_step_is_timed(model, rng):
    from ocria.quant.search.timing import step_seconds

    recipes = [load_recipe("bf16"), load_recipe("fp8")]
    found = step_seconds(model, recipes, samples(model, rng, 2), (), device="cpu", dtype=torch.float32, repeats=1)
    assert len(found) == 2
    assert all(0 < seconds < 60 for seconds in found)


def test_a_report_says_where_a_single_token_decides():
    assert search_module._too_few(Bound.parse("agreement=99.9%"), 999)
    assert not search_module._too_few(Bound.parse("agreement=99%"), 101)
    assert not search_module._too_few(Bound.parse("kl=0.1"), 1)


def test_where_nothing_holds_the_plain_model_is_chosen(model, tmp_path, rng):
    report = run_search(model, samples(model, rng, 2), tmp_path / "out", formats=["fp8-channel"], bound="kl=0")
    assert set(report.layers.values()) == {"bf16"}
    assert load_recipe(tmp_path / "out" / "recipe.toml").rules == ()


def test_what_cannot_be_searched_is_refused(model, tmp_path, rng):
    held_out = samples(model, rng, 1)
    for options in ({"formats": []}, {"formats": ["bf16"]}, {"formats": ["nvfp4-w4a4"]}, {"bound": "kl"},
                    {"compare": ["nvfp4"]}, {"settings": load_recipe("nvfp4")}):  # fmt: skip
        with pytest.raises(UsageError):
            run_search(model, held_out, tmp_path / "out", **options)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(OutputError):
        run_search(model, held_out, tmp_path / "full")


@pytest.mark.parametrize(
    "text", ["agreement", "agreement=x", "agreement=101%", "kl=-1", "kl=5%", "cer=1", "kl=nan", "kl=inf", ""]
)
def test_bounds_that_are_none(text):
    with pytest.raises(UsageError, match="bound"):
        Bound.parse(text)
