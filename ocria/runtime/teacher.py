"""What a model says of a given answer: the judge of every way to decode that claims to change nothing."""

import torch

from ocria.model.image import ImageConfig
from ocria.model.network import Qwen35
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.prefill import embed_prompts
from ocria.runtime.request import Request, Result
from ocria.runtime.rounds import Loaded
from ocria.runtime.sequence import Sequence


class Teacher:
    """One checkpoint, which reads answers in a single pass without a state: no step, no ring, no drafts.

    `activations`: as of `EngineOptions`.
    """

    def __init__(self, loaded: Loaded, activations: str = "auto"):
        self._engine = Engine(loaded, EngineOptions(activations=activations))

    @torch.inference_mode()
    def logits(self, request: Request, result: Result) -> torch.Tensor:
        """Logits `[N, V]` of every token of the answer, with the answer itself as the input; the last row is that of
        the token which ended it, where one did."""
        engine = self._engine
        sequence = engine._intake.sequence(request, 0.0)
        return answer_logits(engine.network, engine.image, sequence, result, engine.options.encoder_patches)

    @torch.inference_mode()
    def regrets(self, request: Request, result: Result) -> torch.Tensor:
        """By how much the logit of each token falls short of the largest one, `[N]`: 0 for a greedy answer, but for
        rounding. Of the token that ended it the likeliest stop token is taken."""
        logits = self.logits(request, result)
        tokens = torch.tensor(result.tokens, dtype=torch.int64, device=logits.device)
        chosen = logits[: len(tokens)].gather(1, tokens[:, None])[:, 0]
        if result.finish_reason == "stop":
            stops = self._engine._intake.sequence(request, 0.0).bounds.stop_ids
            chosen = torch.cat([chosen, logits[-1:, list(stops)].amax(-1)])
        return logits.amax(-1) - chosen


def answer_logits(
    network: Qwen35, image: ImageConfig | None, sequence: Sequence, result: Result, patches: int
) -> torch.Tensor:
    """One pass of the network, prepared or not, over a prompt and the answer to it. sequence: the intake's record of
    the request. Returns the logits fp32 `[N, V]` of the answer's tokens, and of the one which ended it, if one did."""
    text = network.config.text
    # The last token of what is fed stays out of the pass: that of the answer, or one in place of the stop token.
    sequence.tokens = [*result.tokens, *([0] if result.finish_reason == "stop" else [])]
    embed_prompts(network, image, [sequence], patches)
    if sequence.error is not None:
        raise sequence.error
    cos, sin = text_rope(sequence.positions[:, None], text.rotary_dim, text.rope_theta, text.mrope_section)
    hidden = network.decoder(sequence.hidden[None], Window.whole(cos, sin, 1), None)
    return network.logits(hidden[:, sequence.prompt_len - 1 :])[0].float()
