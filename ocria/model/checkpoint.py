"""Loading a checkpoint: every tensor of the file is used exactly once, or the load fails and says why."""

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from ocria.errors import CheckpointError, ConfigError, EngineError
from ocria.model.attention import GatedAttention
from ocria.model.config import ModelConfig
from ocria.model.hub import Source, find_model
from ocria.model.image import ImageConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile, find_profile
from ocria.model.quantized import moved
from ocria.model.tokens import Tokenizer
from ocria.model.weights import DTYPES, TensorInfo, list_tensors, names, read_tensors
from ocria.ops.linear import Linear
from ocria.quant.formats import QuantizedCheckpoint, read_quantized

Quantized = Literal["keep", "decode"]
EMBEDDING = "model.language_model.embed_tokens.weight"
HEAD = "lm_head.weight"

KEPT_FP32 = re.compile(r".*\.linear_attn\.(A_log|norm\.weight)")
"""Names of the tensors that are fp32 whatever the dtype of the others: so published checkpoints have them."""
LEFT_OUT = re.compile(r"mtp\..*")
"""Names of the tensors that are not loaded: the multi-token prediction block is a drafter, no part of the answer."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of the tensors of the file."""

    tensors: int
    parameters: int
    dtype: torch.dtype
    ignored: tuple[str, ...]
    """Names left out by rule."""
    renamed: bool
    """The file is a text-only re-save, whose names lack `language_model`."""
    quantized: int = 0
    """Weights that the file holds quantised."""
    formats: str = ""
    """Linear layers of the decoder and the head by how the file holds them, such as `FP8 24, NVFP4 12, bf16 8`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a file holds the linear layers of the decoder and the head, by the headers alone. kinds: `fp8`, `nvfp4` or
    `plain`, by module; quantises_inputs: whether the inputs of some are to be quantised."""

    kinds: Mapping[str, str]
    quantises_inputs: bool

    @classmethod
    def of(cls, stored: QuantizedCheckpoint | Path) -> "Stored":
        """Of a folder, or what was found in it. Raises what `read_quantized` does."""
        if isinstance(stored, Path):
            stored = read_quantized(stored, list_tensors(stored))
        kinds = {m: kind for m, kind in stored.kinds().items() if not re.match(r"mtp\.|.*\bvisual\.", m)}
        return cls(kinds, stored.quantises_inputs())

    @property
    def quantized(self) -> bool:
        """Whether any is quantised."""
        return any(kind != "plain" for kind in self.kinds.values())

    def formats(self, dtype: torch.dtype) -> str:
        """For people: `FP8 24, NVFP4 12, bf16 8`. dtype: what the plain ones run in."""
        plain = {torch.float32: "fp32", torch.bfloat16: "bf16"}.get(dtype, str(dtype).removeprefix("torch."))
        counts = Counter({"fp8": "FP8", "nvfp4": "NVFP4"}.get(kind, plain) for kind in self.kinds.values())
        return ", ".join(f"{name} {counts[name]}" for name in ("FP8", "NVFP4", plain) if counts[name])


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A network with what belongs to it."""

    network: Qwen35
    tokenizer: Tokenizer
    config: ModelConfig
    profile: Profile
    image: ImageConfig | None
    """None for a text-only checkpoint."""
    source: Source
    report: LoadReport

    def with_profile(self, profile: Profile) -> "LoadedModel":
        """The same model asked in another way; the profile's pixel limits apply to the images."""
        image = self.image and self.image.with_limits(profile.min_pixels, profile.max_pixels)
        return replace(self, profile=profile, image=image)


def load_model(
    model: str | os.PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    quantized: Quantized = "keep",
) -> LoadedModel:
    """A checkpoint from a folder or by its hub name, ready to run.

    `dtype`: of the weights; None keeps the one of the file. `A_log` and the gated norm are fp32 in any case.
    `quantized`: linear layers keep quantised weights as they are, or decode them into plain ones.
    Raises ModelNotFoundError, ConfigError, CheckpointError with the names of the tensors at fault, and
    EngineError when the device does not exist.
    """
    check_device(torch.device(device))
    source = find_model(model)
    folder = source.folder
    config = ModelConfig.from_file(folder / "config.json")
    tokenizer = Tokenizer(folder)
    if len(tokenizer) > config.text.vocab_size:
        message = f"{len(tokenizer)} tokens, and the model knows {config.text.vocab_size}"
        raise ConfigError(message, path=folder / "tokenizer.json")
    image = image_config(folder, config)
    profile = find_profile(folder, source.name)
    network, report = load_network(folder, config, dtype=dtype, device=device, quantized=quantized)
    loaded = LoadedModel(network, tokenizer, config, profile, image, source, report)
    return loaded.with_profile(profile)


def load_network(
    folder: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    quantized: Quantized = "keep",
) -> tuple[Qwen35, LoadReport]:
    """The network filled from the folder's safetensors, in inference mode. Quantised weights that are not those of
    linear layers are decoded in any case. Peak memory is one copy of the weights and one tensor, in fp32 where it is
    decoded. Raises CheckpointError."""
    with torch.device("meta"):
        network = Qwen35(config)
    wanted = dict(network.named_parameters())
    stored = read_quantized(folder, list_tensors(folder))
    found = stored.infos()
    ignored = tuple(sorted(name for name in found if LEFT_OUT.fullmatch(name)))
    by_target: dict[str, TensorInfo] = {}
    for name in (name for name in found if name not in ignored):
        info = by_target.setdefault(network_name(name, config), found[name])
        if info.name != name:
            raise CheckpointError(f"{name} and {info.name} are the same tensor", path=found[name].file)
    head = by_target.pop(HEAD, None) if config.tie_word_embeddings else None
    _check(folder, wanted, by_target)
    if head is not None:
        _check_tied(head, by_target[EMBEDDING], stored)

    dtype = dtype or DTYPES[by_target[EMBEDDING].dtype]
    targets = {info.name: target for target, info in by_target.items()}
    plain = [info for info in by_target.values() if info.name in stored.plain]
    for info, tensor in read_tensors(sorted(plain, key=lambda info: info.file)):
        target = targets[info.name]
        own = torch.float32 if KEPT_FP32.fullmatch(target) else dtype
        _assign(network, target, tensor.to(device=device, dtype=own, copy=True))
    kept = [module for module in stored if f"{module}.weight" in targets]
    for module in kept:
        target = targets[f"{module}.weight"]
        layer = network.get_submodule(target.removesuffix(".weight"))
        if quantized == "keep" and isinstance(layer, Linear):
            layer.hold(moved(stored[module], device))
        else:
            _assign(network, target, stored[module].dense().to(device=device, dtype=dtype))
    parameters = sum(math.prod(info.shape) for info in by_target.values())
    renamed = any(name != target for name, target in targets.items())
    ignored += _take_kv_scales(network, config, stored, device)
    formats = Stored.of(stored).formats(dtype)
    report = LoadReport(len(by_target), parameters, dtype, ignored, renamed, len(kept), formats)
    return network.eval(), report


def network_name(name: str, config: ModelConfig) -> str:
    """The network's name of a tensor. Text-only re-saves call `model.X` what is `model.language_model.X`."""
    text_only = config.vision is None and not name.startswith(("model.language_model.", "model.visual."))
    return re.sub(r"^model\.", "model.language_model.", name) if text_only else name


def _check(folder: Path, wanted: dict[str, nn.Parameter], found: dict[str, TensorInfo]) -> None:
    """Raise CheckpointError with the names of all tensors that are missing, unexpected or not as they must be."""
    faults = []
    missing = sorted(wanted.keys() - found.keys())
    unexpected = sorted(found[name].name for name in found.keys() - wanted.keys())
    common = sorted(wanted.keys() & found.keys())
    misshapen = [
        f"{found[name].name} {list(found[name].shape)} instead of {list(wanted[name].shape)}"
        for name in common
        if found[name].shape != tuple(wanted[name].shape)
    ]
    odd = [f"{found[name].name} {found[name].dtype}" for name in common if found[name].dtype not in DTYPES]
    if missing:
        faults.append(f"missing: {names(missing)}")
    if unexpected:
        faults.append(f"unexpected: {names(unexpected)}")
    if misshapen:
        faults.append(f"of another shape: {names(misshapen)}")
    if odd:
        faults.append(f"not {', '.join(DTYPES)}: {names(odd)}")
    if not faults:
        return
    files = sorted({info.file.name for info in found.values()})
    path = folder / files[0] if len(files) == 1 else folder
    raise CheckpointError("tensors " + "; ".join(faults), path=path, cure="Does config.json belong to these weights?")


def _check_tied(head: TensorInfo, embedding: TensorInfo, quantized: QuantizedCheckpoint) -> None:
    """A tied checkpoint may carry its head all the same, if it is the embedding."""
    cure = "Set tie_word_embeddings to false in config.json if the head is meant to be used."
    if not quantized.plain.keys() >= {head.name, embedding.name}:
        message = f"{head.name} or {embedding.name} is quantised, and config.json says that they are tied"
        raise CheckpointError(message, path=head.file, cure=cure)
    (_, ours), (_, theirs) = (next(read_tensors([info])) for info in (head, embedding))
    if not torch.equal(ours, theirs):
        raise CheckpointError(
            f"{head.name} differs from {embedding.name}, and config.json says that they are tied",
            path=head.file,
            cure=cure,
        )


def _take_kv_scales(
    network: Qwen35, config: ModelConfig, quantized: QuantizedCheckpoint, device: str | torch.device
) -> tuple[str, ...]:
    """Give attention layers the scales of their cached keys and values; returns the names of those left out by rule."""
    modules, ignored = dict(network.named_modules()), []
    for attention in quantized.kv:
        if LEFT_OUT.fullmatch(f"{attention}.k_scale"):
            ignored += [f"{attention}.k_scale", f"{attention}.v_scale"]
            continue
        module = modules.get(network_name(f"{attention}.k_scale", config).removesuffix(".k_scale"))
        if not isinstance(module, GatedAttention):
            raise CheckpointError(f"scales of keys and values for {attention}, which is no attention layer")
        module.kv_scale = torch.stack(quantized.kv_scales(attention)).to(device)
    return tuple(ignored)


def _assign(network: nn.Module, name: str, tensor: torch.Tensor) -> None:
    module, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(module), leaf, nn.Parameter(tensor, requires_grad=False))


def image_config(folder: Path, config: ModelConfig) -> ImageConfig | None:
    """The image preprocessing of a checkpoint's folder; None for a text-only one. Raises ConfigError when it is missing
    or does not cut the patches that the vision encoder takes."""
    if config.vision is None:
        return None
    path = folder / "preprocessor_config.json"
    if not path.is_file() and (folder / "processor_config.json").is_file():
        path = folder / "processor_config.json"
    image = ImageConfig.from_file(path)
    vision = config.vision
    pairs = {
        "patch_size": (image.patch_size, vision.patch_size),
        "merge_size": (image.merge_size, vision.spatial_merge_size),
        "temporal_patch_size": (image.temporal_patch_size, vision.temporal_patch_size),
        "channels": (image.channels, vision.in_channels),
    }
    for name, (here, there) in pairs.items():
        if here != there:
            raise ConfigError(f"{name} is {here}, and {there} in config.json", path=path)
    return image


def check_device(device: torch.device) -> None:
    """Raise EngineError when torch has no such device here."""
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineError("there is no usable CUDA device", cure="Use the device cpu, or a CUDA build of torch.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise EngineError(f"there is no device {device}, only cuda:0 to cuda:{count - 1}", cure="Use one of those.")
