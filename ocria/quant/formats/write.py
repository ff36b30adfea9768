"""Writing a quantised checkpoint beside the plain one that it comes from."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from ocria import __version__
from ocria.errors import CheckpointError, OutputError
from ocria.model.files import INDEX, SINGLE, weight_files
from ocria.model.strict import read_json
from ocria.model.weights import TensorInfo, list_tensors, names, read_tensors
from ocria.quant.formats import compressed_tensors, modelopt
from ocria.quant.formats.contents import COMPRESSED_TENSORS, EMBEDDING, plain_linears
from ocria.quant.formats.read import HF_QUANT_CONFIG, read_quantized
from ocria.quant.formats.scheme import Scheme, scheme_of
from ocria.quant.tensors import Weight

HEAD = "lm_head"
SHARD_BYTES = 2 << 30
_OTHER_WEIGHTS = {".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}

T = TypeVar("T")


class OnDemand(Mapping[str, T]):
    """A mapping whose values are made when they are asked for, and not kept."""

    def __init__(self, keys: list[str], make: Callable[[str], T]):
        self._keys, self._make = dict.fromkeys(keys), make

    def __getitem__(self, key: str) -> T:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys  # Mapping's own would make the value

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def write_checkpoint(
    out: Path,
    source: Path,
    modules: Mapping[str, Weight],
    form: Literal["compressed-tensors", "modelopt"],
    *,
    replaced: Mapping[str, torch.Tensor] | None = None,
    kv_scales: Mapping[str, tuple[torch.Tensor, torch.Tensor]] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """A checkpoint in the new or empty folder `out` that is the one in `source`, with these modules quantised.

    modules: by name, such as `model.language_model.layers.0.mlp.up_proj`; each is asked for once, in the order of the
    files, so that they may be made `OnDemand`. The head of a tied model may be among them: it becomes a weight of its
    own. replaced: other values for plain tensors, such as norms that a scale was folded into. kv_scales: of attention
    modules, the scales of cached keys and values. Besides that twice the memory of a shard is needed.
    The configuration is written last: a folder that is not complete is no checkpoint. Without modules and scales it is
    that of a plain checkpoint.
    Raises CheckpointError for modules that `source` does not have and for what the format cannot hold, OutputError when
    `out` is not empty or cannot be written.
    """
    infos = list_tensors(source)
    config = read_json(source / "config.json")
    replaced, kv_scales = replaced or {}, kv_scales or {}
    tied = _check(source, infos, config, modules, replaced, kv_scales)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError("the folder is not empty", path=out, cure="Give a new folder.")
        schemes = _write_tensors(out, infos, modules, form, replaced, kv_scales, shard_bytes)
        _copy_others(out, source)
        if tied:
            _untie(config)
        if not modules and not kv_scales:
            _write_json(out / "config.json", config)
            return
        plain = [module for module in plain_linears(infos) if module not in modules]
        if f"{HEAD}.weight" not in infos and HEAD not in modules:
            plain.append(HEAD)  # tied: in no file, and a linear layer all the same
        if form == COMPRESSED_TENSORS:
            embeddings = [
                m for name in infos if EMBEDDING.fullmatch(m := name.removesuffix(".weight")) and m not in modules
            ]
            settings = compressed_tensors.quantization_config(schemes, plain, embeddings, bool(kv_scales))
        else:
            separate, settings = modelopt.quant_configs(schemes, plain, bool(kv_scales), __version__)
            _write_json(out / HF_QUANT_CONFIG, separate)
        _write_json(out / "config.json", config | {"quantization_config": settings})
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=out) from error
    read_quantized(out, list_tensors(out))


def _check(
    source: Path,
    infos: Mapping[str, TensorInfo],
    config: dict,
    modules: Mapping[str, Weight],
    replaced: Mapping[str, torch.Tensor],
    kv_scales: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
) -> bool:
    """Whether the head is to be untied. Raises CheckpointError for what does not fit the source."""
    if read_quantized(source, infos):
        raise CheckpointError("is quantised already", path=source, cure="Start from the plain checkpoint.")
    tied = HEAD in modules and f"{HEAD}.weight" not in infos
    unknown = [module for module in modules if f"{module}.weight" not in infos and not (tied and module == HEAD)]
    unknown += [name for name in replaced if name not in infos or name.removesuffix(".weight") in modules]
    unknown += [name for name in kv_scales if not any(info.startswith(f"{name}.") for info in infos)]
    if tied and not (config.get("tie_word_embeddings") or config.get("text_config", {}).get("tie_word_embeddings")):
        unknown.append(HEAD)
    if unknown:
        raise CheckpointError(f"does not have what is to be changed: {names(sorted(unknown))}", path=source)
    return tied


def _write_tensors(
    out: Path,
    infos: Mapping[str, TensorInfo],
    modules: Mapping[str, Weight],
    form: str,
    replaced: Mapping[str, torch.Tensor],
    kv_scales: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    shard_bytes: int,
) -> dict[str, Scheme]:
    shards, schemes = _Shards(out, shard_bytes), {}
    names_of = compressed_tensors if form == COMPRESSED_TENSORS else modelopt

    def write(module: str, shape: tuple[int, ...] | None) -> None:
        weight = modules[module]
        if shape is not None and weight.shape != shape:
            message = f"{module} is {list(shape)}, and what replaces it {list(weight.shape)}"
            raise CheckpointError(message, path=infos[f"{module}.weight"].file)
        schemes[module] = scheme_of(weight)
        for leaf, tensor in names_of.parts_of(weight).items():
            shards.add(f"{module}.{leaf}", tensor)

    kept = []
    for info in sorted(infos.values(), key=lambda info: info.file):
        module = info.name.removesuffix(".weight")
        if info.name.endswith(".weight") and module in modules:
            write(module, info.shape)
        else:
            kept.append(info)
    for module in modules:
        if module not in schemes:
            write(module, None)
    for info, tensor in read_tensors(kept):
        shards.add(info.name, replaced.get(info.name, tensor))
    for attention, (key, value) in kv_scales.items():
        for name, tensor in names_of.kv_parts(attention, key, value).items():
            shards.add(name, tensor)
    shards.close()
    return schemes


class _Shards:
    """Tensors gathered into files of about `limit` bytes, which get their final names when the number is known."""

    def __init__(self, folder: Path, limit: int):
        self._folder, self._limit = folder, limit
        self._held: dict[str, torch.Tensor] = {}
        self._placed: list[list[str]] = []
        self._bytes = self._total = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        if self._held and self._bytes + tensor.nbytes > self._limit:
            self._flush()
        # A copy: what is given may be a view of a mapped file, or be the same for several names.
        self._held[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        self._bytes += tensor.nbytes
        self._total += tensor.nbytes

    def close(self) -> None:
        self._flush()
        count = len(self._placed)
        if count == 1:
            self._part(0).rename(self._folder / SINGLE)
            return
        index = {}
        for number, held in enumerate(self._placed):
            file = f"model-{number + 1:05}-of-{count:05}.safetensors"
            self._part(number).rename(self._folder / file)
            index |= dict.fromkeys(held, file)
        _write_json(self._folder / INDEX, {"metadata": {"total_size": self._total}, "weight_map": index})

    def _flush(self) -> None:
        part = self._part(len(self._placed))
        part.touch()
        mode = part.stat().st_mode
        try:
            save_file(self._held, part, metadata={"format": "pt"})
        except SafetensorError as error:  # what the library makes of an OSError
            raise OutputError(f"cannot be written: {error}", path=self._folder) from error
        part.chmod(mode)  # the library's own is for the owner alone
        self._placed.append(list(self._held))
        self._held, self._bytes = {}, 0

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number + 1:05}.safetensors"


def _copy_others(out: Path, source: Path) -> None:
    """Tokenizer, template, profile and the like, and the folders of drafters; no weights in other formats."""
    made = {*(file.name for file in weight_files(source)), INDEX, "config.json", HF_QUANT_CONFIG}
    for path in sorted(source.iterdir()):
        if path.name.startswith(".") or path.name in made or path.suffix in _OTHER_WEIGHTS:
            continue
        if path.is_file():
            shutil.copyfile(path, out / path.name)
        elif (path / "config.json").is_file():
            shutil.copytree(path, out / path.name)


def _untie(config: dict) -> None:
    for section in (config, config.get("text_config", {})):
        if "tie_word_embeddings" in section:
            section["tie_word_embeddings"] = False
    config["tie_word_embeddings"] = False


def _write_json(path: Path, data: dict) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
