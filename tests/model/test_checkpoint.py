"""Strict loading: every tensor of the file is used once, or the error names it."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")
from references import SHAPES, build, write_companions

from ocria.errors import CheckpointError, ConfigError, EngineError
from ocria.model.checkpoint import load_model
from ocria.model.profiles import Profile

EMBEDDING = "model.language_model.embed_tokens.weight"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tokenizer_json):
    """Folders that transformers wrote: single file, shards, text only, untied. Copy before changing one."""
    folders = {}
    for key, shape, options in (
        ("single", "gdn2 tied", {}),
        ("shards", "gdn2 tied", {"max_shard_size": "150KB"}),
        ("untied", "gdn1 untied", {}),
        ("text only", "text only tied", {}),
    ):
        folders[key] = tmp_path_factory.mktemp("saved")
        build(SHAPES[shape]).save_pretrained(folders[key], **options)
        write_companions(folders[key], tokenizer_json, SHAPES[shape])
    return folders


@pytest.fixture
def copy(saved, tmp_path):
    def make(key: str) -> Path:
        return Path(shutil.copytree(saved[key], tmp_path / key.replace(" ", "-")))

    return make


def change(folder: Path, edit) -> dict[str, torch.Tensor]:
    """Rewrite a single-file checkpoint after `edit` of its tensors."""
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
    edit(tensors)
    save_file(tensors, folder / WEIGHTS)
    return tensors


def parameters(loaded):
    return dict(loaded.network.named_parameters())


@pytest.mark.parametrize("key", ["single", "shards", "untied"])
def test_every_tensor_arrives(saved, key):
    folder = saved[key]
    files = sorted(folder.glob("*.safetensors"))
    assert (len(files) > 3) == (key == "shards")
    expected = {name: tensor for file in files for name, tensor in load_file(file).items()}
    loaded = load_model(folder)
    ours = parameters(loaded)
    assert ours.keys() == expected.keys()
    assert all(ours[name].equal(tensor) for name, tensor in expected.items())
    assert not any(parameter.requires_grad for parameter in ours.values())
    assert not loaded.network.training
    assert loaded.report.tensors == len(expected)
    assert loaded.report.parameters == sum(tensor.numel() for tensor in expected.values())
    assert loaded.report.dtype == torch.float32
    assert not loaded.report.renamed
    assert loaded.source.folder == folder


def test_loading_does_not_share_memory_with_the_file(copy):
    folder = copy("single")
    loaded = load_model(folder)
    before = {name: parameter.clone() for name, parameter in parameters(loaded).items()}
    (folder / WEIGHTS).write_bytes(bytes((folder / WEIGHTS).stat().st_size))
    assert all(parameter.equal(before[name]) for name, parameter in parameters(loaded).items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, None])
def test_dtype(copy, dtype):
    folder = copy("single")
    expected = change(folder, lambda tensors: tensors.update({n: t.bfloat16() for n, t in tensors.items()}))
    loaded = load_model(folder, dtype=dtype)
    for name, parameter in parameters(loaded).items():
        fp32 = name.endswith(("linear_attn.A_log", "linear_attn.norm.weight"))
        assert parameter.dtype == (torch.float32 if fp32 else dtype or torch.bfloat16)
        assert parameter.equal(expected[name].to(parameter.dtype))
    assert loaded.report.dtype == (dtype or torch.bfloat16)


def test_missing_unexpected_and_misshapen_are_all_named(copy):
    folder = copy("single")
    norm, gate = "model.language_model.norm.weight", "model.language_model.layers.1.mlp.gate_proj.weight"

    def edit(tensors):
        del tensors["model.visual.pos_embed.weight"]
        tensors["model.visual.extra.weight"] = torch.zeros(3)
        tensors[norm] = torch.zeros(7)
        tensors[gate] = tensors[gate].T.contiguous()

    change(folder, edit)
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert "missing: model.visual.pos_embed.weight" in message
    assert "unexpected: model.visual.extra.weight" in message
    assert f"{norm} [7] instead of [64]" in message
    assert f"{gate} [64, 112] instead of [112, 64]" in message
    assert caught.value.path == str(folder / WEIGHTS)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float64, torch.uint8])
def test_odd_dtypes_are_refused(copy, dtype):
    folder = copy("single")
    name = "model.language_model.layers.0.mlp.up_proj.weight"
    change(folder, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    with pytest.raises(CheckpointError, match=name) as caught:
        load_model(folder)
    assert caught.value.path == str(folder / WEIGHTS)


def test_mtp_is_ignored_by_rule(copy):
    folder = copy("single")
    extra = {"mtp.fc.weight": torch.zeros(4, 8), "mtp.layers.0.input_layernorm.weight": torch.zeros(4)}
    change(folder, lambda tensors: tensors.update(extra))
    assert load_model(folder).report.ignored == tuple(sorted(extra))
    change(folder, lambda tensors: tensors.update({"mtpx.fc.weight": torch.zeros(4)}))
    with pytest.raises(CheckpointError, match=r"mtpx\.fc"):
        load_model(folder)


def test_tied_head_in_the_file(copy):
    folder = copy("single")
    change(folder, lambda tensors: tensors.update({"lm_head.weight": tensors[EMBEDDING].clone()}))
    loaded = load_model(folder)
    assert "lm_head.weight" not in parameters(loaded)
    change(folder, lambda tensors: tensors["lm_head.weight"][3].add_(1))
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs"):
        load_model(folder)


def test_untied_head_must_be_there(copy):
    folder = copy("untied")
    change(folder, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"missing: lm_head\.weight"):
        load_model(folder)


class TestTextOnly:
    def test_names_are_mapped(self, saved):
        loaded = load_model(saved["text only"])
        expected = load_file(saved["text only"] / WEIGHTS)
        assert loaded.report.renamed
        assert loaded.image is None
        ours = parameters(loaded)
        assert len(ours) == len(expected)
        for name, tensor in expected.items():
            assert ours[name.replace("model.", "model.language_model.", 1)].equal(tensor)

    def test_full_names_are_taken_too(self, copy):
        folder = copy("text only")
        tensors = load_file(folder / WEIGHTS)
        full = {name.replace("model.", "model.language_model.", 1): t.clone() for name, t in tensors.items()}
        save_file(full, folder / WEIGHTS)
        assert not load_model(folder).report.renamed

    def test_both_names_of_one_tensor(self, copy):
        folder = copy("text only")
        twice = {"model.language_model.norm.weight": torch.zeros(64)}
        change(folder, lambda tensors: tensors.update(twice))
        with pytest.raises(CheckpointError, match=r"model\.norm\.weight"):
            load_model(folder)


class TestFiles:
    def test_truncated(self, copy):
        folder = copy("single")
        data = (folder / WEIGHTS).read_bytes()
        for size in (len(data) - 1, len(data) // 2, 100, 7, 0):
            (folder / WEIGHTS).write_bytes(data[:size])
            with pytest.raises(CheckpointError) as caught:
                load_model(folder)
            assert caught.value.path == str(folder / WEIGHTS)

    def test_corrupt_header(self, copy):
        folder = copy("single")
        data = bytearray((folder / WEIGHTS).read_bytes())
        for damage in (b"\xff" * 8, b"\x10" + bytes(7) + b"not json at all"):
            (folder / WEIGHTS).write_bytes(damage + data[len(damage) :])
            with pytest.raises(CheckpointError) as caught:
                load_model(folder)
            assert caught.value.path == str(folder / WEIGHTS)

    def test_no_weights(self, copy):
        folder = copy("single")
        (folder / WEIGHTS).unlink()
        with pytest.raises(CheckpointError, match="no weights"):
            load_model(folder)
        (folder / "pytorch_model.bin").touch()
        with pytest.raises(CheckpointError, match=r"Convert its \.bin"):
            load_model(folder)

    def test_missing_shard(self, copy):
        folder = copy("shards")
        lost = sorted(folder.glob("*.safetensors"))[1]
        lost.unlink()
        with pytest.raises(CheckpointError, match="missing") as caught:
            load_model(folder)
        assert caught.value.path == str(lost)

    def test_index_and_shards_disagree(self, copy):
        folder = copy("shards")
        index = json.loads((folder / INDEX).read_text())
        shards = sorted(set(index["weight_map"].values()))
        index["weight_map"][EMBEDDING] = next(s for s in shards if s != index["weight_map"][EMBEDDING])
        (folder / INDEX).write_text(json.dumps(index))
        with pytest.raises(CheckpointError, match=EMBEDDING):
            load_model(folder)
        del index["weight_map"][EMBEDDING]
        (folder / INDEX).write_text(json.dumps(index))
        with pytest.raises(CheckpointError, match=EMBEDDING):
            load_model(folder)

    def test_a_tensor_in_two_shards(self, copy):
        folder = copy("shards")
        one, two = sorted(folder.glob("*.safetensors"))[:2]
        tensors = load_file(two)
        name = next(iter(load_file(one)))
        save_file({n: t.clone() for n, t in tensors.items()} | {name: torch.zeros(3)}, two)
        with pytest.raises(CheckpointError, match=f"{name} is also in {one.name}"):
            load_model(folder)

    @pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": {"a": "../x.safetensors"}}], ids=str)
    def test_faulty_index(self, copy, index):
        folder = copy("shards")
        (folder / INDEX).write_text(json.dumps(index))
        with pytest.raises(CheckpointError):
            load_model(folder)

    def test_other_safetensors_are_left_alone(self, copy):
        folder = copy("single")
        save_file({"weight": torch.zeros(3)}, folder / "ctc.safetensors")
        assert load_model(folder).report.ignored == ()


class TestCompanions:
    def test_profile_sets_pixel_limits(self, copy):
        folder = copy("single")
        profile = Profile("p", "page", "", "text", 9, min_pixels=333, max_pixels=4444)
        profile.save(folder / "ocria.json")
        loaded = load_model(folder)
        assert loaded.profile == profile
        assert (loaded.image.min_pixels, loaded.image.max_pixels) == (333, 4444)
        other = loaded.with_profile(profile.override(max_pixels=5555))
        assert (other.image.max_pixels, loaded.image.max_pixels) == (5555, 4444)
        assert other.network is loaded.network

    @pytest.mark.parametrize(
        ("file", "change", "message"),
        [
            ("preprocessor_config.json", {"patch_size": 10}, "patch_size is 10"),
            ("preprocessor_config.json", {"patchsize": 8}, "Did you mean"),
            ("config.json", {"model_type": "qwen3"}, "qwen3"),
        ],
    )
    def test_faults(self, copy, file, change, message):
        folder = copy("single")
        data = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(data | change))
        with pytest.raises(ConfigError, match=message):
            load_model(folder)

    @pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "preprocessor_config.json"])
    def test_missing_file(self, copy, file):
        folder = copy("single")
        (folder / file).unlink()
        with pytest.raises(ConfigError, match=file):
            load_model(folder)

    def test_a_tokenizer_of_another_model(self, copy):
        folder = copy("single")
        data = json.loads((folder / "tokenizer.json").read_text())
        data["added_tokens"].append({**data["added_tokens"][0], "id": 100_000, "content": "<far>"})
        data["model"]["vocab"] |= {f"word{i}": 500 + i for i in range(50)}
        (folder / "tokenizer.json").write_text(json.dumps(data))
        with pytest.raises(ConfigError, match="the model knows 420"):
            load_model(folder)


def test_a_missing_device(saved):
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(EngineError, match="CUDA"):
        load_model(saved["single"], device="cuda")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_peak_memory_is_one_copy(tmp_path, tokenizer_json, dtype):
    """Resident memory may grow by the weights in the dtype asked for, and a tensor; not by the file besides."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux's peak memory counter")
    shape = SHAPES["gdn2 tied"]
    script = f"""
        import json, sys
        from pathlib import Path
        import torch
        from safetensors.torch import save_file
        from ocria.model.checkpoint import load_model
        from ocria.model.config import ModelConfig
        from ocria.model.network import Qwen35

        folder = Path({str(tmp_path)!r})
        with torch.device("meta"):
            wanted = {{n: p.shape for n, p in Qwen35(ModelConfig.from_file(folder / "config.json")).named_parameters()}}
        save_file({{name: torch.full(shape, 0.5, dtype=torch.bfloat16) for name, shape in wanted.items()}},
                  folder / "model.safetensors")

        def memory(field):
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

        Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
        before = memory("VmRSS")
        loaded = load_model(folder, dtype=torch.{dtype})
        grown = memory("VmHWM") - before
        assert all(float(p.flatten()[-1]) == 0.5 for p in loaded.network.parameters())
        print(json.dumps([grown, (folder / "model.safetensors").stat().st_size]))
    """
    wide = {"hidden_size": 1024, "intermediate_size": 6144, "num_attention_heads": 8, "num_key_value_heads": 4}
    wide |= {"head_dim": 128, "linear_num_value_heads": 16, "linear_value_head_dim": 64}
    wide |= {"rope_parameters": {"mrope_section": [11, 11, 10], "partial_rotary_factor": 0.5, "rope_theta": 1e4}}
    build(shape).config.save_pretrained(tmp_path)
    write_companions(tmp_path, tokenizer_json, shape)
    data = json.loads((tmp_path / "config.json").read_text())
    data["text_config"] |= wide
    data["vision_config"]["out_hidden_size"] = 1024
    (tmp_path / "config.json").write_text(json.dumps(data))
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    grown, size = json.loads(run.stdout)
    assert size > 150e6
    weights = size * (2 if dtype == "float32" else 1)
    # The largest tensor is 6 % of the file; the rest of the margin is the allocator's, and lazily loaded code.
    assert grown < 1.2 * weights
