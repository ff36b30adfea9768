"""The plain checkpoint that is to be quantised, by its files: nothing is loaded before it is asked for."""

import math
import re
from pathlib import Path

import torch

from ocria.errors import CheckpointError
from ocria.model.checkpoint import network_name
from ocria.model.config import ModelConfig
from ocria.model.hub import Source, find_model
from ocria.model.weights import DTYPES, TensorInfo, list_tensors, read_tensors
from ocria.quant.formats import read_quantized
from ocria.quant.formats.contents import plain_linears
from ocria.quant.formats.write import HEAD

_EMBEDDING = "embed_tokens.weight"


class PlainCheckpoint:
    """A folder of plain weights. Raises CheckpointError for one whose weights are quantised."""

    def __init__(self, source: Source):
        self.source, self.folder = source, source.folder
        self.config = ModelConfig.from_file(self.folder / "config.json")
        self.infos = list_tensors(self.folder)
        if read_quantized(self.folder, self.infos):
            raise CheckpointError("is quantised already", path=self.folder, cure="Start from the plain checkpoint.")
        self._embedding = next((info for name, info in self.infos.items() if name.endswith(_EMBEDDING)), None)
        if self._embedding is None:
            raise CheckpointError("has no embeddings", path=self.folder, cure="Is this a whole model?")

    @classmethod
    def find(cls, model: str | Path) -> "PlainCheckpoint":
        """By what the user calls it, see `find_model`."""
        return cls(find_model(model))

    @property
    def dtype(self) -> torch.dtype:
        """Of plain weights in the files."""
        return DTYPES[self._embedding.dtype]

    @property
    def modules(self) -> dict[str, tuple[int, int]]:
        """The linear layers in the order of the files with their shapes `[N, K]`; the head as well where it is tied."""
        order = sorted(self.infos.values(), key=lambda info: info.file)
        names = set(plain_linears(self.infos))
        found = {m: info.shape for info in order if (m := info.name.removesuffix(".weight")) in names}
        return found if HEAD in found else found | {HEAD: self._embedding.shape}

    def weight(self, module: str) -> torch.Tensor:
        """The weight of a linear layer, copied out of its file; of a tied head that of the embeddings."""
        info = self.infos.get(f"{module}.weight", self._embedding)
        return next(read_tensors([info]))[1].clone()

    def in_network(self, name: str) -> str:
        """The network's name of a module or tensor: text-only files call `model.X` what is `model.language_model.X`."""
        return network_name(name, self.config)

    def nbytes(self, module: str) -> int:
        """Bytes of a linear layer's weight in the files; of a tied head none."""
        info = self.infos.get(f"{module}.weight")
        return 0 if info is None else file_bytes(info)

    @property
    def total_bytes(self) -> int:
        """Of all tensors in the files."""
        return sum(file_bytes(info) for info in self.infos.values())


def file_bytes(info: TensorInfo) -> int:
    """Bytes of a tensor in its file; the name of a dtype tells its bits, as in `BF16` and `F8_E4M3`."""
    return math.prod(info.shape) * int(re.match(r"[A-Z]+(\d+)", info.dtype)[1]) // 8
