"""Which drafters serve a model: from what `--draft` says to the chain that the engine asks.

`none`: plain decoding. Otherwise names and folders, joined by commas, in order of preference:

    lookup   the request's own guess (the text layer of a PDF), then what was written before
    vision   what the vision encoder alone reads in a line; for checkpoints that bring the head for it
    own      the DFlash or DFlash2 drafter that the checkpoint has in its folder `drafter`
    FOLDER   another one

`auto`: lookup, and vision, or else the model's own drafter. Beside vision a network brings little: it mostly says the
same, and its rows cost as much as the target's (`bench/spec.py`).
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from ocria.errors import UsageError
from ocria.model.checkpoint import Stored
from ocria.model.network import Qwen35
from ocria.model.quantized import WeightBytes
from ocria.runtime.memory import checkpoint_bytes
from ocria.spec.arena import DraftState
from ocria.spec.chain import Chain
from ocria.spec.config import DrafterConfig
from ocria.spec.load import load_drafter
from ocria.spec.lookup import NGramLookup, TextLookup
from ocria.spec.network import NetworkDrafts
from ocria.spec.reference import References
from ocria.spec.source import Source
from ocria.spec.vision import VisionReading, has_reading

FOLDER = "drafter"
"""Where a checkpoint keeps its own drafter."""
LOOKUP, VISION, OWN = "lookup", "vision", "own"
TEXT_ROWS = 32
"""Rows of a step with drafts that cost nothing to make. On a GPU they cost little to verify too; on a CPU the rows of
a step grow costly at about here."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What will draft: `texts`, the names of drafts from texts; the model's `folder`, where a reading of the vision
    encoder is among them; a network's folder and configuration. rows: most rows of a step, 1 for plain decoding."""

    texts: tuple[str, ...] = ()
    folder: Path | None = None
    network: Path | None = None
    config: DrafterConfig | None = None
    rows: int = 1

    def __str__(self) -> str:
        return "+".join([*self.texts, *([self.network.name] if self.network else [])]) or "none"

    def weight_bytes(self, dtype: torch.dtype) -> WeightBytes:
        """Of the network, loaded as `dtype`."""
        return WeightBytes() if self.network is None else checkpoint_bytes(self.network, dtype)

    @property
    def quantises_inputs(self) -> bool:
        """Whether the network's weights say that inputs are quantised."""
        return self.network is not None and Stored.of(self.network).quantises_inputs

    def bytes_per_slot(self, max_len: int, dtype: torch.dtype) -> int:
        """What drafting needs of one slot: the tokens so far, a text of each source, the network's context."""
        if self.rows == 1:
            return 0
        texts = sum(name != NGramLookup.name for name in self.texts) * References.bytes_per_slot(max_len)
        context = DraftState.bytes_per_slot(self.config, max_len, dtype) if self.config else 0
        return max_len * torch.int64.itemsize + texts + context


def choose_drafts(draft: str, folder: Path | None, unit: str, rows: int | None = None) -> DraftChoice:
    """What `draft` means for the model in `folder`; nothing is loaded. `unit`: what one of its images holds, `line` or
    `page`; rows: of a step, None for what suits the drafters.

    Raises UsageError for an unknown name or folder and for a drafter that the model has no use for, ConfigError for a
    drafter whose configuration is faulty.
    """
    if draft == "none" or rows == 1:
        return DraftChoice()
    if draft == "auto":
        draft = ",".join(_all_of(folder))
    texts, network, config = [], None, None
    for name in draft.split(","):
        if name == LOOKUP:
            texts += [TextLookup.name] if unit == "line" else [TextLookup.name, NGramLookup.name]
        elif name == VISION:
            if folder is None or not has_reading(folder):
                raise UsageError("the model has no head that reads lines from its vision encoder", cure=_CURE)
            texts.append(VisionReading.name)
        elif network is not None:
            raise UsageError(f"one network can draft, and --draft names {network} and {name}")
        else:
            network = Path(name) if name != OWN else _own(folder)
            if not (network / "config.json").is_file():
                raise UsageError(f"{name!r} is neither a kind of drafts nor a drafter's folder", cure=_CURE)
            config = DrafterConfig.from_file(network / "config.json")
    if len(set(texts)) < len(texts):
        raise UsageError(f"--draft {draft} names one kind of drafts twice")
    most = max(TEXT_ROWS if texts else 1, config.block_size if config else 1)
    return DraftChoice(tuple(texts), folder, network, config, rows or most)


def open_drafts(choice: DraftChoice, target: Qwen35, inputs: bool = False) -> Chain | None:
    """Load what was chosen. inputs: a network's inputs are quantised where its weights say so. Raises CheckpointError
    for faulty weights, ConfigError for a drafter of another model."""
    if choice.rows == 1:
        return None
    sources: list[Source] = []
    for name in choice.texts:
        if name == VisionReading.name:
            sources.append(VisionReading.load(choice.folder, target.dtype, target.device))
        else:
            sources.append(TextLookup() if name == TextLookup.name else NGramLookup())
    if choice.network is not None:
        loaded = load_drafter(choice.network, target.config.text, dtype=target.dtype, device=target.device)
        sources.append(NetworkDrafts(loaded.network, target, inputs))
    return Chain(sources, choice.rows)


_CURE = "Use auto, none, lookup, vision, own, the folder of a drafter, or several of them joined by commas."


def _all_of(folder: Path | None) -> list[str]:
    if folder is None:
        return [LOOKUP]
    if has_reading(folder):
        return [LOOKUP, VISION]
    return [LOOKUP, *[OWN] * (folder / FOLDER).is_dir()]


def _own(folder: Path | None) -> Path:
    if folder is None or not (folder / FOLDER).is_dir():
        raise UsageError("the model has no drafter of its own", cure=_CURE)
    return folder / FOLDER
