"""Quantising whole checkpoints: every recipe in both forms, what scaling must not change, and what must not be left
behind. A small random checkpoint, and once the embedded model on a drawn page."""

import dataclasses
import json
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pymupdf
import pytest
import torch
from checkpoint_made import VOCAB, make_checkpoint, save, tensors_of
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save_file

from ocria.document.api import parse
from ocria.document.reader import NANO
from ocria.errors import CheckpointError, ConfigError, EncryptedError, OutputError, UsageError
from ocria.model.checkpoint import load_model
from ocria.model.weights import list_tensors
from ocria.quant.calibration import made as made_module
from ocria.quant.calibration import run as run_module
from ocria.quant.calibration.drafters import drafter_folders
from ocria.quant.calibration.made import made_pages
from ocria.quant.calibration.pages import Sample, load_samples
from ocria.quant.calibration.passes import Passes
from ocria.quant.calibration.run import REPORT, quantize
from ocria.quant.calibration.source import PlainCheckpoint
from ocria.quant.formats import read_quantized
from ocria.quant.recipe import Format, Recipe, load_recipe, recipe_names
from ocria.runtime.request import Request, Result
from ocria.runtime.teacher import Teacher

IMAGE, START = 261, 259
NAME = "model.language_model.layers."


def samples_of(rng: torch.Generator, count: int = 3) -> list[Sample]:
    """Prompts with an image each, and answers that nobody gave."""
    made = []
    for number in range(count):
        words = torch.randint(0, 250, (int(torch.randint(2, 9, (), generator=rng)),), generator=rng).tolist()
        answer = tuple(torch.randint(0, 250, (12,), generator=rng).tolist())
        pixels = torch.randint(0, 256, (32, 48 + 16 * number), generator=rng, dtype=torch.uint8).numpy()
        request = Request(number, [START, IMAGE, *words], [pixels])
        made.append(Sample(request, Result(number, "", answer, "ok", "stop", None, None, 0, len(answer), 0.0)))
    return made


def checkpoint(folder: Path, rng: torch.Generator, **options) -> Path:
    """With a profile, so that it can be asked, and the head of a line reader's drafts."""
    made = make_checkpoint(folder, rng, **options)
    profile = {"name": "made", "unit": "line", "prompt": "", "dialect": "text", "max_output_tokens": 64}
    (made / "ocria.json").write_text(json.dumps(profile))
    (made / "ctc.json").write_text("{}")
    save_file({"ctc": torch.randn(3, 5, generator=rng)}, made / "ctc.safetensors")
    return made


def outputs(folder: Path, samples: list[Sample]) -> torch.Tensor:
    """Logits of all answers, one below the other."""
    passes = Passes(load_model(folder, dtype=torch.float32, quantized="decode"), samples)
    return torch.cat([passes(index) for index in range(len(passes))])


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@pytest.fixture
def pages(tmp_path) -> list[Path]:
    """A drawn page with two lines."""
    image = Image.new("L", (900, 260), 255)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(40)
    draw.text((40, 40), "Quarterly report of the harbour", font=font, fill=0)
    draw.text((40, 140), "1,024 vessels in 1903", font=font, fill=0)
    image.save(tmp_path / "page.png")
    return [tmp_path / "page.png"]


@pytest.mark.parametrize("form", ["compressed-tensors", "modelopt"])
@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_writes_a_checkpoint_that_loads(name, form, tmp_path, rng):
    source, samples = checkpoint(tmp_path / "plain", rng), samples_of(rng)
    recipe, told = dataclasses.replace(load_recipe(name), form=form), []
    report = quantize(source, recipe, samples if recipe.needs_pages else [], tmp_path / "out",
                      on_progress=lambda *progress: told.append(progress))  # fmt: skip
    plan = recipe.plan(PlainCheckpoint.find(source).modules)
    assert {module.name: module.format for module in report.modules} == {n: f.name for n, f in plan.items()}
    found = read_quantized(tmp_path / "out", list_tensors(tmp_path / "out"))
    assert set(found) == set(plan)
    assert len(found.kv) == (2 if recipe.kv == "fp8" else 0)
    for module in report.modules:
        assert plan[module.name].nbytes(module.shape) + 4 * module.shape[1] >= module.bytes_after
        # Rounding alone: FP8 2.6 %, NVFP4 9 %. Factors for columns and GPTQ spend the weights of small inputs on those
        # of large ones, without a bound of their own: there the outputs count.
        assert module.error > 0.01, module
        assert recipe.needs_pages or module.error < (0.05 if plan[module.name].kind == "fp8" else 0.15), module
        assert (module.output_error is not None) == recipe.needs_pages
        assert module.output_error is None or 0 < module.output_error < 0.25, module
    assert json.loads((tmp_path / "out" / REPORT).read_text()) == json.loads(json.dumps(report.to_dict()))
    assert report.as_text().count("%") >= 2 * bool(plan)
    assert report.bytes_after == sum(t.nbytes for n, t in tensors_of(tmp_path / "out").items() if n != "ctc")
    for done, total in ((d, t) for stage, d, t in told if stage == "quantising"):
        assert 1 <= done <= total == len(plan)
    # What belongs to the model came along, and what must not change did not.
    plain, stored = tensors_of(source), tensors_of(tmp_path / "out")
    for file in ("ocria.json", "ctc.json", "ctc.safetensors", "tokenizer.json", "preprocessor_config.json"):
        assert (tmp_path / "out" / file).read_bytes() == (source / file).read_bytes()
    for tensor in plain:
        if ".visual." in tensor or "conv1d" in tensor or tensor.startswith("mtp") or "embed_tokens" in tensor:
            assert torch.equal(stored[tensor], plain[tensor]), tensor
    expected, quantised = (outputs(folder, samples) for folder in (source, tmp_path / "out"))
    if name == "bf16":
        assert torch.equal(quantised, expected)
        assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())
    else:
        # Of random weights 0.1 to 0.13 and 0.35 to 0.45; outputs of two models would be 1.4 apart.
        assert 0 < distance(quantised, expected) < (0.4 if name == "fp8" else 0.9)


@pytest.mark.parametrize("name", ["fp8-tensor", "fp8-channel", "fp8-block", "nvfp4", "nvfp4-w4a4"])
def test_every_format_comes_through(name, tmp_path, rng):
    """In files, with numbers for the input where the format has some: those of the largest input."""
    source, samples, format = make_checkpoint(tmp_path / "plain", rng), samples_of(rng), Format(name)
    report = quantize(source, Recipe("r", rules=(("*.layers.*", format),)), samples, tmp_path / "out")
    found = read_quantized(tmp_path / "out", list_tensors(tmp_path / "out"))
    for module in report.modules:
        weight = found[module.name]
        given = getattr(weight, "input_scale", None) if format.kind == "fp8" else weight.input_multiplier
        assert (given is not None) == format.scaled_input
        if format.kind == "fp8":
            assert (weight.granularity, weight.activations) == (format.granularity, format.activations)
        assert module.bytes_after == format.nbytes(module.shape)
    largest = {}
    loaded = load_model(source, dtype=torch.float32)
    down = loaded.network.get_submodule(f"{NAME}2.mlp.down_proj")
    down.register_forward_pre_hook(lambda _, args: largest.setdefault("x", []).append(args[0].abs().max().item()))
    Passes(loaded, samples).run()
    if format.scaled_input:
        weight = found[f"{NAME}2.mlp.down_proj"]
        number, steps = (weight.input_scale, 448) if format.kind == "fp8" else (weight.input_multiplier, 2688)
        assert number.item() == pytest.approx(max(largest["x"]) / steps, rel=1e-5)


def test_scaling_helps_where_columns_differ(tmp_path, rng):
    """Norms with large and small numbers make columns of very different inputs. There scaling must pay: the errors of
    outputs fall to 0.7 to 0.8 of what they are."""
    source, samples = make_checkpoint(tmp_path / "plain", rng), samples_of(rng, 4)
    tensors = tensors_of(source)
    for name, tensor in tensors.items():
        if name.endswith("layernorm.weight"):
            tensor.copy_(torch.exp(1.3 * torch.randn(tensor.shape, generator=rng)) - 1)
    save(source, tensors)
    recipe = Recipe("r", rules=(("*.layers.*", Format("nvfp4")),))
    plain = quantize(source, recipe, samples, tmp_path / "plain-rounding")
    scaled = quantize(source, dataclasses.replace(recipe, scaling="awq"), samples, tmp_path / "scaled")
    assert any(choice.form != "none" for choice in scaled.choices)
    assert all(choice.scaled <= choice.plain for choice in scaled.choices)

    def of_outputs(report):
        return sum(module.output_error for module in report.modules) / len(report.modules)

    assert of_outputs(scaled) < 0.97 * of_outputs(plain)
    # Norms changed, and in_proj_a and b with them, though they are not quantised.
    before, after = tensors, tensors_of(tmp_path / "scaled")
    changed = {name for name in before if name in after and not torch.equal(before[name], after[name])}
    assert any(name.endswith("input_layernorm.weight") for name in changed)
    assert any(name.endswith("in_proj_a.weight") for name in changed)


def test_gptq_in_pieces_is_gptq_at_once(tmp_path, rng, monkeypatch):
    source, samples = checkpoint(tmp_path / "plain", rng), samples_of(rng)
    recipe = Recipe("r", rules=(("*.layers.*", Format("fp8-channel")), ("*.mlp.*", Format("nvfp4"))), gptq=True)
    quantize(source, recipe, samples, tmp_path / "once")
    monkeypatch.setattr(run_module, "HESSIAN_BYTES", 3 * 4 * 144**2)
    passes = []
    quantize(source, recipe, samples, tmp_path / "pieces", on_progress=lambda stage, *_: passes.append(stage))
    assert passes.count("collecting for GPTQ") > 2 * len(samples)
    once, pieces = tensors_of(tmp_path / "once"), tensors_of(tmp_path / "pieces")
    assert once.keys() == pieces.keys()
    assert all(torch.equal(once[name].view(torch.uint8), pieces[name].view(torch.uint8)) for name in once)
    plain = quantize(source, dataclasses.replace(recipe, gptq=False), samples, tmp_path / "rounded")
    assert any(not torch.equal(a, tensors_of(tmp_path / "rounded")[n]) for n, a in once.items() if "packed" in n)
    assert plain.tokens > 0


def test_joined_layers_share_their_multiplier_with_and_without_pages(tmp_path, rng):
    source = checkpoint(tmp_path / "plain", rng)
    recipe = Recipe("r", rules=(("*.layers.*", Format("nvfp4")),))
    quantize(source, recipe, [], tmp_path / "without")
    quantize(source, recipe, samples_of(rng), tmp_path / "with")
    for folder in (tmp_path / "without", tmp_path / "with"):
        found = read_quantized(folder, list_tensors(folder))
        for names in (
            [f"{NAME}1.self_attn.{leaf}_proj" for leaf in "qkv"],
            [f"{NAME}0.linear_attn.in_proj_{leaf}" for leaf in ("qkv", "z")],
            [f"{NAME}3.mlp.{leaf}_proj" for leaf in ("gate", "up")],
        ):
            assert len({found[name].multiplier.item() for name in names}) == 1
        assert found[f"{NAME}0.mlp.up_proj"].multiplier != found[f"{NAME}3.mlp.up_proj"].multiplier
    a, b = (tensors_of(tmp_path / name) for name in ("without", "with"))
    assert all(torch.equal(a[name].view(torch.uint8), b[name].view(torch.uint8)) for name in a)


def test_text_only_files_keep_their_names(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    tensors = tensors_of(source)
    save(source, {n.replace("language_model.", ""): t for n, t in tensors.items() if "visual" not in n})

    config = json.loads((source / "config.json").read_text())["text_config"]
    (source / "config.json").write_text(json.dumps(config))
    (source / "preprocessor_config.json").unlink()
    samples = [Sample(Request(0, [5, 6, 7]), Result(0, "", (8, 9), "ok", "stop", None, None, 3, 2, 0.0))]
    for form in ("compressed-tensors", "modelopt"):
        out = tmp_path / form
        recipe = dataclasses.replace(load_recipe("nvfp4-mlp+fp8"), form=form)
        report = quantize(source, recipe, samples, out)
        found = read_quantized(out, list_tensors(out))
        assert "model.layers.0.mlp.up_proj" in found
        assert set(report.kv) == set(found.kv) == {"model.layers.1.self_attn", "model.layers.3.self_attn"}
        assert distance(outputs(out, samples), outputs(source, samples)) < 0.9


def test_scales_of_the_cache_serve_the_largest_key_and_value(tmp_path, rng):
    source, samples = checkpoint(tmp_path / "plain", rng), samples_of(rng)
    report = quantize(source, Recipe("r", rules=(("*.mlp.*", Format("fp8-channel")),), kv="fp8"), samples,
                      tmp_path / "out")  # fmt: skip
    loaded = load_model(source, dtype=torch.float32)
    largest = {}

    def watch(name, module):
        largest[name] = 0.0

        def hook(module, args, output):
            largest[name] = max(largest[name], output.abs().max().item())

        return module.v_proj.register_forward_hook(hook)

    for name, module in loaded.network.named_modules():
        if name.endswith("self_attn"):
            watch(name, module)
    Passes(loaded, samples).run()
    found = read_quantized(tmp_path / "out", list_tensors(tmp_path / "out"))
    for name, amax in largest.items():
        key, value = found.kv_scales(name)
        assert value.item() == pytest.approx(amax / 448, rel=1e-5)
        assert report.kv[name] == (pytest.approx(key.item()), pytest.approx(value.item()))


def test_drafters_are_quantised_with_their_model(tmp_path):
    """The embedded model's two, by their folders; and one that is given instead."""
    recipe = dataclasses.replace(load_recipe("nvfp4-mlp+fp8"), scaling="none", gptq=False, kv="bf16")
    report = quantize("nano", recipe, [], tmp_path / "auto")
    assert list(report.drafters) == [folder.name for folder in drafter_folders(NANO)] == ["drafter", "drafter-dflash"]
    for name, modules in report.drafters.items():
        found = read_quantized(tmp_path / "auto" / name, list_tensors(tmp_path / "auto" / name))
        assert set(found) == {module.name for module in modules}
        assert {module.format for module in modules if ".mlp." in module.name} == {"nvfp4"}
        assert {module.format for module in modules if ".self_attn." in module.name} == {"fp8-channel"}
        stored, plain = tensors_of(tmp_path / "auto" / name), tensors_of(NANO / name)
        assert all(torch.equal(stored[n], t) for n, t in plain.items() if n.removesuffix(".weight") not in found)
    none = quantize("nano", recipe, [], tmp_path / "none", drafters={})
    given = quantize("nano", recipe, [], tmp_path / "given", drafters={"drafter": NANO / "drafter-dflash"})
    assert none.drafters == {}
    weights = "drafter/model.safetensors"
    assert (tmp_path / "none" / weights).read_bytes() == (NANO / weights).read_bytes()
    assert given.drafters["drafter"] == report.drafters["drafter-dflash"]
    config = json.loads((tmp_path / "given" / "drafter" / "config.json").read_text())
    assert config["architectures"] == ["DFlashDraftModel"]
    assert (tmp_path / "given" / "drafter-dflash" / "model.safetensors").read_bytes() == (
        NANO / "drafter-dflash" / "model.safetensors"
    ).read_bytes()


def test_the_quantised_embedded_model_reads_a_drawn_page(tmp_path, pages):
    plain = parse(pages[0], mode="model", jobs=0).text
    assert "Quarterly report of the harbour" in plain
    samples = load_samples("nano", pages)
    recipe = load_recipe("nvfp4-mlp+fp8+head")
    quantize("nano", recipe, samples, tmp_path / "out")
    read = parse(pages[0], mode="model", model=str(tmp_path / "out"), jobs=0)
    assert read.text == plain
    assert read.status == "ok"


def test_samples_are_what_production_asks_and_answers(pages):
    samples = load_samples("nano", pages)
    assert [sample.result.text for sample in samples] == ["Quarterly report of the harbour", "1,024 vessels in 1903"]
    loaded = load_model("nano", dtype=torch.float32)
    passes, teacher = Passes(loaded, samples), Teacher(load_model("nano", dtype=torch.float32))
    for index, (request, result) in enumerate(samples):
        logits = passes(index)
        assert logits.argmax(-1)[: len(result.tokens)].tolist() == list(result.tokens)
        assert len(logits) == len(result.tokens) + 1
        # A prepared network multiplies in another order.
        torch.testing.assert_close(logits, teacher.logits(request, result), rtol=0, atol=2e-3)


def test_a_limit_draws_samples_at_random_and_again_the_same(monkeypatch):
    monkeypatch.setattr(made_module, "PAGES", 1)
    with made_pages(seed=5) as pages:
        with Image.open(pages[0]) as page:
            page.crop((0, 0, page.width, page.height // 3)).save(pages[0])
        drawn = [load_samples("nano", pages, limit=5, seed=seed) for seed in (1, 1, 2)]
    texts = [[sample.result.text for sample in samples] for samples in drawn]
    assert [len(found) for found in texts] == [5, 5, 5]
    assert texts[0] == texts[1] != texts[2]
    assert [sample.request.id for sample in drawn[0]] == [sample.result.id for sample in drawn[0]]


def test_facts_that_the_profile_lacks_hold_for_reading_and_calibrating(tmp_path, pages):
    """A checkpoint without a profile, told what it is; without that it says what is missing."""
    shutil.copytree(NANO, tmp_path / "bare")
    (tmp_path / "bare" / "ocria.json").unlink()
    with pytest.raises(UsageError, match="--prompt"):
        load_samples(tmp_path / "bare", pages)
    facts = {"prompt": "", "unit": "line", "max_output_tokens": 640, "max_pixels": 16000}
    samples = load_samples(tmp_path / "bare", pages, facts=facts)
    assert all(sample.request.images[0].size > 16000 for sample in samples)  # so that the limit means something
    recipe = Recipe("r", rules=(("*.mlp.*", Format("fp8-channel")),), kv="fp8")
    report = quantize(tmp_path / "bare", recipe, samples, tmp_path / "out", facts=facts)
    # What calibration computes has the length of what production asked.
    rows = sum(sample.result.tokens_in + len(sample.result.tokens) for sample in samples)
    assert abs(report.tokens - rows) <= len(samples)


def test_an_encrypted_file_is_not_told_to_take_a_password(tmp_path):
    """Quantising has no option for one."""
    with pymupdf.open() as pdf:
        pdf.new_page()
        pdf.save(tmp_path / "a.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
    with pytest.raises(EncryptedError, match="without encryption") as caught:
        load_samples(NANO, [tmp_path / "a.pdf"])
    assert "--password" not in str(caught.value)


def test_made_pages_are_the_same_for_a_seed(monkeypatch):
    monkeypatch.setattr(made_module, "PAGES", 2)
    found = []
    for seed in (3, 3, 4):
        with made_pages(seed) as pages:
            found.append([np.asarray(Image.open(page)) for page in pages])
        assert not any(page.exists() for page in pages)
    assert all(np.array_equal(a, b) for a, b in zip(found[0], found[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(found[0], found[2], strict=True))


@pytest.mark.parametrize("existing", ["folder", "file", "link"])
def test_nothing_is_overwritten(tmp_path, rng, existing):
    source, out = make_checkpoint(tmp_path / "plain", rng), tmp_path / "out"
    if existing == "folder":
        (out / "below").mkdir(parents=True)
    elif existing == "file":
        out.write_text("mine")
    else:
        out.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OutputError, match="is there already"):
        quantize(source, load_recipe("fp8"), [], out)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_that_is_full_is_told(tmp_path, rng):
    """Files of more than 64 KiB cannot be written, which safetensors tells in an error of its own."""
    source = make_checkpoint(tmp_path / "plain", rng)
    (tmp_path / "results").mkdir()
    kept, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, kept[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            quantize(source, load_recipe("fp8"), [], tmp_path / "results" / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, handler)
    assert list((tmp_path / "results").iterdir()) == []


def test_what_another_run_wrote_meanwhile_stays(tmp_path):
    out = tmp_path / "out"

    def overtaken():
        with run_module.fresh_folder(out) as part:
            (part / "mine").touch()
            out.mkdir()
            (out / "theirs").touch()

    with pytest.raises(OutputError, match="out: is there already"):
        overtaken()
    assert sorted(tmp_path.rglob("*")) == [out, out / "theirs"]


@pytest.mark.parametrize("how", [KeyboardInterrupt, CheckpointError("broken"), OSError(28, "No space left on device")])
def test_nothing_is_left_of_a_run_that_breaks_off(tmp_path, rng, how):
    source = make_checkpoint(tmp_path / "plain", rng)
    (tmp_path / "results").mkdir()

    def stop(stage, done, total):
        if done == 3:
            raise how

    with pytest.raises((KeyboardInterrupt, CheckpointError, OutputError)):
        quantize(source, load_recipe("fp8"), [], tmp_path / "results" / "out", on_progress=stop)
    assert list((tmp_path / "results").iterdir()) == []


def test_what_is_read_back_is_compared(tmp_path, rng, monkeypatch):
    source = make_checkpoint(tmp_path / "plain", rng)
    write = run_module.write_checkpoint

    def damage(out, *args, **options):
        write(out, *args, **options)
        file = out / "model.safetensors"
        data = bytearray(file.read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        for place in range(start, len(data), 97):
            data[place] ^= 1
        file.write_bytes(data)

    monkeypatch.setattr(run_module, "write_checkpoint", damage)
    with pytest.raises(CheckpointError, match="is not what was written"):
        quantize(source, load_recipe("fp8"), [], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_done_is_said_first(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    with pytest.raises(UsageError, match="needs pages"):
        quantize(source, load_recipe("nvfp4"), [], tmp_path / "out")
    with pytest.raises(ConfigError, match="matches no module"):
        quantize(source, Recipe("r", rules=(("*.nothing", Format("nvfp4")),)), [], tmp_path / "out")
    with pytest.raises(ConfigError, match="drafter"):
        quantize(source, load_recipe("fp8"), [], tmp_path / "out", drafters={"drafter": NANO / "drafter"})
    quantize(source, load_recipe("fp8"), [], tmp_path / "done")
    with pytest.raises(CheckpointError, match="quantised already"):
        quantize(tmp_path / "done", load_recipe("fp8"), [], tmp_path / "out")
    shutil.rmtree(tmp_path / "done")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["fp8", "nvfp4-mlp+fp8+head", "nvfp4"])
def test_transformers_loads_what_a_recipe_writes(name, tmp_path, rng):
    pytest.importorskip("compressed_tensors", reason="the peer of this test is not installed")
    transformers = pytest.importorskip("transformers", reason="the peer of this test is not installed")
    source = checkpoint(tmp_path / "plain", rng, dtype=torch.bfloat16)
    recipe = load_recipe(name)
    report = quantize(source, recipe, samples_of(rng) if recipe.needs_pages else [], tmp_path / "out")
    theirs = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(tmp_path / "out", dtype=torch.bfloat16)
    theirs.hf_quantizer.compressor.decompress_model(theirs)
    ours = load_model(tmp_path / "out", dtype=torch.bfloat16, quantized="decode").network
    for module in report.modules:
        found = theirs.get_submodule(module.name).weight.detach()
        torch.testing.assert_close(found, ours.get_submodule(module.name).weight.detach(), rtol=2**-7, atol=0)
    assert theirs.lm_head.weight.shape[0] == VOCAB
