"""Quantised checkpoints: what each weight is follows from the file, and the configuration must agree with it."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ocria.errors import CheckpointError, ConfigError
from ocria.model.strict import read_json
from ocria.model.weights import TensorInfo, names, read_tensors
from ocria.quant.formats import compressed_tensors, fine_grained, modelopt
from ocria.quant.formats.contents import (
    COMPRESSED_TENSORS,
    FINE_GRAINED,
    MODELOPT,
    Contents,
    Layout,
    find_contents,
)
from ocria.quant.formats.scheme import Scheme
from ocria.quant.tensors import Activations, Fp8Weight, Nvfp4Weight, Weight, require_groups

HF_QUANT_CONFIG = "hf_quant_config.json"
_UNCHECKED = "mtp."
"""Configurations are often silent about this block, which is loaded by none who follow them."""
_METHODS = {"modelopt_fp4": MODELOPT, "modelopt_mixed": MODELOPT}
_READERS = {COMPRESSED_TENSORS: compressed_tensors, MODELOPT: modelopt, FINE_GRAINED: fine_grained}


class QuantizedCheckpoint(Mapping[str, Weight]):
    """The quantised weights of a checkpoint by the names of their modules; each is read when it is asked for.

    plain: the other tensors. kv: names of the attention modules whose cached keys and values have scales. shapes:
    `[N, K]` of the weights.
    """

    def __init__(self, contents: Contents, activations: Mapping[str, str | None]):
        self._contents, self._activations = contents, activations
        self.plain = contents.plain
        self.shapes = {module: layout.shape for module, layout in contents.modules.items()}
        self.kv = tuple(contents.kv)

    def __getitem__(self, module: str) -> Weight:
        return _read(self._contents.modules[module], self._activations.get(module))

    def __contains__(self, module: object) -> bool:
        return module in self._contents.modules  # Mapping's own would read the weight

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents.modules)

    def __len__(self) -> int:
        return len(self._contents.modules)

    def kinds(self) -> dict[str, str]:
        """How linear layers are stored: `fp8`, `nvfp4` or `plain`, by module."""
        layouts = self._contents.modules.items()
        return dict.fromkeys(self._contents.plain_linears, "plain") | {module: of.kind for module, of in layouts}

    def quantises_inputs(self) -> bool:
        """Whether the inputs of some weights are to be quantised."""
        return any(self._quantises_input(module, layout) for module, layout in self._contents.modules.items())

    def code_bytes(self, module: str) -> int:
        """What a weight takes in memory as it is: codes and scales."""
        layout = self._contents.modules[module]
        codes = math.prod(layout.parts["weight"].shape)
        scales = math.prod(layout.parts["scale"].shape)
        if layout.kind == "fp8":
            return codes + 4 * scales
        vector = math.prod(layout.parts["pre_quant_scale"].shape) if "pre_quant_scale" in layout.parts else 0
        return codes + scales + 4 * (1 + vector)

    def _quantises_input(self, module: str, layout: Layout) -> bool:
        if layout.kind == "nvfp4":
            return "input" in layout.parts
        return self._activations.get(module) != "none"

    def infos(self) -> dict[str, TensorInfo]:
        """The tensors that a plain checkpoint would have instead."""
        return self.plain | {f"{module}.weight": self.info(module) for module in self}

    def info(self, module: str) -> TensorInfo:
        """What a plain checkpoint would say of the weight: its shape, and the dtype of the embedding. For messages and
        for counting; there is no such tensor in the file."""
        layout = self._contents.modules[module]
        kinds = [info.dtype for name, info in self.plain.items() if name.endswith("embed_tokens.weight")]
        file = layout.parts["weight"].file
        return TensorInfo(f"{module}.weight", file, layout.shape, kinds[0] if kinds else "BF16")

    def names(self, module: str) -> list[str]:
        """Of the tensors that make up a weight."""
        return [info.name for info in self._contents.modules[module].parts.values()]

    def kv_scales(self, attention: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The scales of an attention module's cached keys and values, fp32 `[]`."""
        pair = self._contents.kv[attention]
        return tuple(_scalar(pair[which], _tensor(pair[which])) for which in "kv")


def read_quantized(folder: Path, infos: Mapping[str, TensorInfo]) -> QuantizedCheckpoint:
    """Find the quantised weights among the tensors of a folder; no data is read yet.

    Raises CheckpointError for tensors that belong to nothing and where file and configuration contradict each other,
    ConfigError for a configuration of another kind.
    """
    contents = find_contents(infos)
    method, config, path = _configuration(folder)
    if config is None:
        return QuantizedCheckpoint(contents, {})
    if not contents.modules and not contents.kv:
        message = f"says that the weights are quantised ({method}), and none in the files is"
        raise CheckpointError(message, path=path, cure="Remove quantization_config if they were converted back.")
    reader = _READERS[method]
    try:
        expected, kv = reader.expectations(config), reader.has_kv_scales(config)
    except ConfigError as error:
        raise ConfigError(error.message, path=path, cure=error.cure) from error
    if method == MODELOPT:
        _compare(path, config, folder / HF_QUANT_CONFIG)
    faults = [*_foreign(contents, method), *_faults(contents, expected), *_kv_faults(contents, kv)]
    if faults:
        cure = "The configuration or the files are of another checkpoint: fetch both again."
        raise CheckpointError(f"contradicts the files: {names(faults, 8)}", path=path, cure=cure)
    activations = {module: scheme.activations for module in contents.modules if (scheme := expected(module))}
    return QuantizedCheckpoint(contents, activations)


def _configuration(folder: Path) -> tuple[str, dict[str, Any] | None, Path]:
    """The method, the configuration, and its file; None for a checkpoint without a configuration."""
    path, separate = folder / "config.json", folder / HF_QUANT_CONFIG
    config = read_json(path).get("quantization_config") if path.is_file() else None
    if config is None and separate.is_file():
        return MODELOPT, read_json(separate), separate
    if config is None:
        return "", None, path
    if not isinstance(config, dict):
        raise ConfigError("quantization_config is no object", path=path)
    method = config.get("quant_method")
    method = _METHODS.get(method, method)
    if method not in _READERS:
        supported = ", ".join(_READERS)
        raise ConfigError(f"quant_method {method!r} is not supported", path=path, cure=f"Supported are {supported}.")
    return method, config, path


def _compare(path: Path, config: dict[str, Any], separate: Path) -> None:
    """Raise CheckpointError where the two configurations of ModelOpt differ."""
    if not separate.is_file():
        return
    here, there = modelopt.normalised(config), modelopt.normalised(read_json(separate))
    odd = [key for key in ("quant_algo", "exclude_modules", "quantized_layers") if here[key] != there[key]]
    if odd:
        pairs = names([f"{key} is {here[key]} here and {there[key]} there" for key in odd])
        raise CheckpointError(f"contradicts {separate.name}: {pairs}", path=path, cure="Fetch both files again.")


def _foreign(contents: Contents, method: str) -> list[str]:
    """Weights that are stored in the way of another tool."""
    return [
        f"{layout.parts['weight'].name} is stored as {' or '.join(layout.formats)} does, and quant_method is {method}"
        for layout in contents.modules.values()
        if method not in layout.formats
    ]


def _faults(contents: Contents, expected: Callable[[str], Scheme | None]) -> Iterator[str]:
    for module, layout in contents.modules.items():
        if module.startswith(_UNCHECKED):
            continue
        scheme, held = expected(module), _held(layout)
        if scheme is None:
            yield f"{module} is plain by the configuration, and {held} in the files"
        elif not _agree(scheme, layout):
            yield f"{module} is {scheme} by the configuration, and {held} in the files"
    for module in contents.plain_linears:
        scheme = None if module.startswith(_UNCHECKED) else expected(module)
        if scheme is not None:
            yield f"{module} is {scheme} by the configuration, and plain in the files"


def _held(layout: Layout) -> str:
    more = " and a number for the input" if "input" in layout.parts else ""
    vector = " and a scale of the input's columns" if "pre_quant_scale" in layout.parts else ""
    return layout.kind + (f" with a scale per {layout.granularity}" if layout.granularity else "") + more + vector


def _agree(scheme: Scheme, layout: Layout) -> bool:
    return (
        (scheme.kind, scheme.granularity) == (layout.kind, layout.granularity)
        and scheme.scaled_input in (None, "input" in layout.parts)
        and scheme.pre_quant_scale in (None, "pre_quant_scale" in layout.parts)
    )


def _kv_faults(contents: Contents, wanted: bool | None) -> list[str]:
    if wanted is True and not contents.kv:
        return ["keys and values have scales by the configuration, and none in the files"]
    if wanted is False and contents.kv:
        found = next(iter(contents.kv.values()))["k"].name
        return [f"keys and values have no scales by the configuration, and {found} is in the files"]
    return []


def _read(layout: Layout, activations: str | None) -> Weight:
    """One weight, copied out of its file."""
    parts = {role: _tensor(info) for role, info in layout.parts.items()}
    infos = layout.parts
    given = _scalar(infos["input"], parts["input"]) if "input" in parts else None
    try:
        if layout.kind == "fp8":
            scale = _fp32(infos["scale"], parts["scale"])
            shape = {"tensor": (), "channel": (-1,), "block": scale.shape}[layout.granularity]
            chosen: Activations = activations or (
                "static" if given is not None else "block" if layout.granularity == "block" else "token"
            )
            return Fp8Weight(parts["weight"], scale.reshape(shape), layout.granularity, chosen, given)
        require_groups(layout.shape[1])
        _fp32(infos["scale"], parts["scale"])
        multiplier = _scalar(infos["multiplier"], parts["multiplier"])
        if COMPRESSED_TENSORS in layout.formats:
            multiplier = _inverse(infos["multiplier"], multiplier)
            given = None if given is None else _inverse(infos["input"], given)
        vector = parts.get("pre_quant_scale")
        vector = None if vector is None else _fp32(infos["pre_quant_scale"], vector).reshape(-1)
        return Nvfp4Weight(parts["weight"], parts["scale"], multiplier, given, vector)
    except CheckpointError as error:
        file = infos["weight"].file
        raise CheckpointError(f"{layout.module}: {error.message}", path=file, cure=error.cure) from error


def _tensor(info: TensorInfo) -> torch.Tensor:
    return next(read_tensors([info]))[1].clone()


def _fp32(info: TensorInfo, tensor: torch.Tensor) -> torch.Tensor:
    """Scales in fp32. Those of one byte are powers of two where they are not E4M3."""
    if tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.float8_e8m0fnu)
    values = tensor.float()
    if not values.isfinite().all():
        raise CheckpointError(f"NaN or infinity in {info.name}", path=info.file, cure="Fetch the file again.")
    return values


def _inverse(info: TensorInfo, number: torch.Tensor) -> torch.Tensor:
    if not number > 0:
        raise CheckpointError(f"{info.name} is {number.item():g}, not above 0", path=info.file)
    return 1 / number


def _scalar(info: TensorInfo, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() != 1:
        raise CheckpointError(f"{info.name} {list(info.shape)} is not a single number", path=info.file)
    return _fp32(info, tensor).reshape(())
