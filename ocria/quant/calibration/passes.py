"""The model over its own answers, whole sequences at a time: what calibration and comparison look at."""

from collections.abc import Iterable, Sequence

import torch

from ocria.model.checkpoint import LoadedModel
from ocria.quant.calibration.pages import Sample
from ocria.runtime.budget import PageBudget
from ocria.runtime.intake import Intake
from ocria.runtime.options import EngineOptions, resolve
from ocria.runtime.teacher import answer_logits


class Passes:
    """Passes of a network that is not prepared, so that every linear layer is called and its hooks fire. The head is
    computed from the rows of the answer alone, as in production."""

    def __init__(self, loaded: LoadedModel, samples: Sequence[Sample]):
        network = loaded.network
        options = resolve(EngineOptions(), network.device)
        budget = PageBudget(loaded.config, loaded.image, loaded.profile, options, network.dtype, network.device)
        self.samples = samples
        self._network, self._image, self._patches = network, loaded.image, options.encoder_patches
        self._intake = Intake(loaded.tokenizer, loaded.config, loaded.image, budget, loaded.profile.stop)

    def __len__(self) -> int:
        return len(self.samples)

    @torch.no_grad()
    def __call__(self, index: int) -> torch.Tensor:
        """Logits fp32 `[N, V]` of the tokens of this sample's answer, fed with the answer itself; the last row is that
        of the token which ended it, where one did."""
        request, result = self.samples[index]
        sequence = self._intake.sequence(request, 0.0)
        return answer_logits(self._network, self._image, sequence, result, self._patches)

    def run(self, indices: Iterable[int] | None = None) -> None:
        """The passes of these samples, None: of all, for their hooks."""
        for index in range(len(self)) if indices is None else indices:
            self(index)
