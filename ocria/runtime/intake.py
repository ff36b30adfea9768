"""From a request to the engine's record of it: token ids, image grids, bounds. Refuses what cannot run."""

from dataclasses import dataclass

from ocria.errors import InputError
from ocria.model.config import ModelConfig
from ocria.model.image import ImageConfig, target_size
from ocria.model.tokens import Tokenizer, expand_image_tokens
from ocria.runtime.budget import PageBudget
from ocria.runtime.buffers import STOP_IDS
from ocria.runtime.guard import Bounds
from ocria.runtime.request import Request
from ocria.runtime.sequence import Sequence
from ocria.runtime.text import AnswerText


@dataclass(frozen=True)
class Intake:
    """Checks and prepares requests for one checkpoint. No tensor is touched: a refusal costs nothing."""

    tokenizer: Tokenizer
    config: ModelConfig
    image: ImageConfig | None
    budget: PageBudget
    stop: tuple[str, ...] = ()
    """Texts that end an answer, from the checkpoint's profile."""

    def sequence(self, request: Request, now: float) -> Sequence:
        """Raises InputError: too large, an empty prompt or one that ends with an image, an image that is none, images
        that the prompt lacks, too many stop tokens, or one outside the vocabulary."""
        grids = [self._grid(image) for image in request.images]
        ids = self._prompt(request, grids)
        image_tokens = sum(self._tokens(grid) for grid in grids)
        limits = request.limits
        stop_ids, stop_texts = self._stops()
        outside = [token for token in limits.stop_ids if not 0 <= token < self.config.text.vocab_size]
        if outside:
            raise InputError(f"stop token {outside[0]} is not in the vocabulary of {self.config.text.vocab_size}")
        stop_ids = frozenset((*stop_ids, *limits.stop_ids))
        if len(stop_ids) > STOP_IDS:
            raise InputError(f"request {request.id!r} has {len(stop_ids)} stop tokens, and {STOP_IDS} are possible")
        bounds = Bounds(
            stop_ids,
            self.budget.output_tokens(len(ids), image_tokens, limits.max_tokens),
            self.budget.loop_tokens(image_tokens),
            None if limits.timeout_s is None else now + limits.timeout_s,
        )
        guess = None if request.guess is None else tuple(self.tokenizer.encode(request.guess))
        text = AnswerText(self.tokenizer, stop_texts)
        return Sequence(request, ids, grids, bounds, text, guess, self.tokenizer.eos_id)

    def _stops(self) -> tuple[list[int], tuple[str, ...]]:
        """Tokens that end an answer, and texts that do and are no single token."""
        ids = [*self.config.eos_token_ids, *self.tokenizer.eos_ids]
        texts = []
        for stop in self.stop:
            token = self.tokenizer.id_of(stop)
            if token is None:
                texts.append(stop)
            else:
                ids.append(token)
        return ids, tuple(texts)

    def _grid(self, image) -> tuple[int, int, int]:
        if self.image is None:
            raise InputError("this checkpoint has no vision encoder", cure="Choose a model that reads images.")
        height, width = size_of(image)
        height, width = target_size(height, width, self.image)
        return 1, height // self.image.patch_size, width // self.image.patch_size

    def _tokens(self, grid: tuple[int, int, int]) -> int:
        return grid[0] * grid[1] * grid[2] // self.image.merge_size**2

    def _prompt(self, request: Request, grids: list[tuple[int, int, int]]) -> list[int]:
        prompt = request.prompt
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if not ids:
            raise InputError(f"the prompt of request {request.id!r} is empty")
        vocab = self.config.text.vocab_size
        outside = [token for token in ids if not 0 <= token < vocab]
        if outside:
            raise InputError(f"token {outside[0]} in the prompt is not in the vocabulary of {vocab}")
        if self.config.image_token_id is None:
            return ids
        if ids[-1] == self.config.image_token_id:
            raise InputError(f"the prompt of request {request.id!r} ends with an image; text must follow it")
        return expand_image_tokens(ids, self.config.image_token_id, [self._tokens(grid) for grid in grids])


def size_of(image) -> tuple[int, int]:
    """(height, width) in pixels of a uint8 array [H, W, ...] or a PIL image. Raises InputError for others."""
    if hasattr(image, "shape") and len(image.shape) in (2, 3):
        return image.shape[0], image.shape[1]
    if hasattr(image, "height") and hasattr(image, "width"):
        return image.height, image.width
    raise InputError(f"a {type(image).__name__} is not an image; a uint8 array [H, W] or a PIL image is")
