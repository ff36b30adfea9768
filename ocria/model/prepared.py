"""Networks are made ready for inference once, in one way."""

from typing import ClassVar

import torch
from torch import nn

from ocria.errors import EngineError
from ocria.model.quantized import Preparation, WeightBytes, quantises_inputs, weight_bytes
from ocria.ops.linear import Linear

PACK_BYTES = 512 << 20
"""Weights up to this size are packed by default: a copy of a small model costs nothing, of a large one too much."""


class Preparable(nn.Module):
    """A network of linear layers. `joining`: kinds of its modules whose `prepare` joins layers of one input."""

    joining: ClassVar[tuple[type[nn.Module], ...]] = ()
    dtype: torch.dtype

    def __init__(self) -> None:
        super().__init__()
        self._prepared = False
        self._how: Preparation | None = None
        self._weights: WeightBytes | None = None
        self._quantises = False

    @property
    def weights(self) -> WeightBytes:
        """What all weights take, prepared or not."""
        return self._weights or weight_bytes(self, self.dtype)

    @property
    def quantises_inputs(self) -> bool:
        """Whether there are weights whose inputs are to be quantised."""
        return self._quantises if self._prepared else quantises_inputs(self)

    def prepare(self, pack_bytes: int = PACK_BYTES, inputs: bool = False) -> None:
        """Make ready for inference: join projections that share an input, keep what follows from weights alone, and
        pack the weights for this CPU unless the copy would take more than `pack_bytes`. Quantised weights are decoded
        for a CPU, and always packed, since that is all that is kept of them. inputs: quantise inputs where the weights
        say so.

        Names and values of plain weights stay; from now on they must not change, and linear layers give no gradient.
        Once is enough: what the first call made is kept, as compiled code may use it. Raises EngineError when that
        has other inputs.
        """
        inputs = inputs and self.quantises_inputs
        if self._prepared:
            if self._how.inputs != inputs:
                message = f"the network runs already, with its inputs {'quantised' if self._how.inputs else 'in full'}"
                raise EngineError(message, cure="Load the model again.")
            return
        self._weights, self._quantises, self._prepared = self.weights, self.quantises_inputs, True
        plain = sum(p.nbytes for p in self.parameters() if p.ndim > 1)
        pack = plain + self._weights.decoded <= pack_bytes
        self._how = Preparation(pack, inputs, next(self.parameters()), self.dtype)
        self._prepare(self._how)

    def prepare_compiled(self) -> None:
        """Keep what compiled code needs besides: a small network's decoded weights in plain order too."""
        self._how.keep_plain()

    def _prepare(self, how: Preparation) -> None:
        joined: set[nn.Module] = set()
        for module in self.modules():
            if isinstance(module, self.joining):
                joined.update(module.prepare(how))
        for module in self.modules():
            if isinstance(module, Linear) and module not in joined:
                how.alone(module)
