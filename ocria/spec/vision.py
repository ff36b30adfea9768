"""What the vision encoder of a line model reads by itself, as a draft of the whole line.

The encoder was trained with a head that labels frames of the line by connectionist temporal classification (CTC): equal
labels in a row are one character, and class 0, the blank, is none. Its best path costs one matrix product when a
request starts and gives drafts as long as the line. Two files beside the checkpoint's own hold it:

    ctc.json          `frames`: frames of an image token, `characters`: class i is character i - 1
    ctc.safetensors   `weight` [frames * (1 + characters), D], `bias` [frames * (1 + characters)]
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file

from ocria.errors import CheckpointError, ConfigError
from ocria.model.config import ModelConfig
from ocria.model.strict import from_dict, read_json
from ocria.model.tokens import Tokenizer
from ocria.model.weights import DTYPES
from ocria.ops.upload import upload
from ocria.spec.reference import References
from ocria.spec.source import Admission, Drafts, Seen

CONFIG, WEIGHTS = "ctc.json", "ctc.safetensors"
BLANK = 0


@dataclass(frozen=True, slots=True)
class ReadingConfig:
    """frames: of one image token; characters: those that classes 1, 2 … stand for, each once."""

    frames: int
    characters: str

    def __post_init__(self):
        if self.frames < 1:
            raise ConfigError(f"frames must be at least 1, got {self.frames}")
        if not self.characters:
            raise ConfigError("characters is empty")
        twice = next((c for c in self.characters if self.characters.count(c) > 1), None)
        if twice is not None:
            raise ConfigError(f"character {twice!r} has two classes")

    @property
    def classes(self) -> int:
        """Characters, and the blank."""
        return 1 + len(self.characters)

    @classmethod
    def from_file(cls, path: Path) -> "ReadingConfig":
        """Raises ConfigError naming the key at fault."""
        try:
            return from_dict(cls, read_json(path), path=path)
        except ConfigError as error:
            raise ConfigError(error.message, path=path, cure=error.cure) from error

    def save(self, path: Path) -> None:
        """Write `ctc.json`."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def has_reading(folder: Path) -> bool:
    """Whether a checkpoint brings such a head."""
    return (folder / CONFIG).is_file()


class VisionReading:
    """Copies from the reading of the request's images, one after another.

    weight, bias: of the head, on the target's device and in its dtype; spellings: the tokens of every class, none for
    the blank.
    """

    name = "vision"
    prior = 0.95
    taps: tuple[int, ...] = ()

    def __init__(
        self, config: ReadingConfig, weight: torch.Tensor, bias: torch.Tensor, spellings: list[list[int]]
    ):
        self.config, self.weight, self.bias = config, weight, bias
        longest = max(map(len, spellings))
        padded = [[*tokens, *[0] * (longest - len(tokens))] for tokens in spellings]
        self.spellings = torch.tensor(padded, device=weight.device)  # [classes, longest]
        self.lengths = torch.tensor([len(tokens) for tokens in spellings], device=weight.device)
        self.space = 1 + config.characters.find(" ")  # where there is none, the blank
        self.references: References | None = None

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], dtype: torch.dtype, device: str | torch.device
    ) -> "VisionReading":
        """The head of a checkpoint in its folder. Raises ConfigError when `ctc.json` is faulty or the tokenizer joins
        characters, CheckpointError with the tensors at fault."""
        folder = Path(folder)
        config = ReadingConfig.from_file(folder / CONFIG)
        rows, width = config.frames * config.classes, ModelConfig.from_file(folder / "config.json").text.hidden_size
        tensors = _read(folder / WEIGHTS, {"weight": (rows, width), "bias": (rows,)})
        weight, bias = (tensors[name].to(device=device, dtype=dtype) for name in ("weight", "bias"))
        return cls(config, weight, bias, spell(config.characters, Tokenizer(folder)))

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """See `Source.allocate`."""
        self.references = References(slots, max_len, device)

    def bytes_per_slot(self, max_len: int) -> int:
        """See `Source.bytes_per_slot`."""
        return References.bytes_per_slot(max_len)

    def admit(self, admissions: list[Admission]) -> None:
        """Read the images of these requests in one pass. One without images gets no drafts."""
        references = self.references
        slots = references.place(admissions)
        tokens = [torch.cat(a.features) if a.features else None for a in admissions]
        read = [(i, part) for i, part in enumerate(tokens) if part is not None and len(part)]
        if not read:
            return
        frames = [len(part) * self.config.frames for _, part in read]
        stops = [admissions[i].stop_id for i, _ in read]
        host = [[i for i, _ in read], frames, [-1 if stop is None else stop for stop in stops]]
        index, frames, stops = upload(host, slots.device)
        labels = self.labels(torch.cat([part for _, part in read]))
        owner = torch.arange(len(read), device=slots.device).repeat_interleave(frames, output_size=len(labels))
        self._write(slots[index], owner, labels, kept(labels, owner, self.space), stops)

    def propose(self, seen: Seen) -> Drafts:
        """See `Source.propose`."""
        return self.references.propose(seen)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Of every frame of image tokens `[N, D]`, each class: logits `[N * frames, classes]`."""
        return F.linear(features.to(self.weight.dtype), self.weight, self.bias).view(-1, self.config.classes)

    def labels(self, features: torch.Tensor) -> torch.Tensor:
        """The likeliest class of every frame of image tokens `[N, D]`: int64 `[N * frames]`."""
        return self.scores(features).argmax(dim=1)

    def _write(
        self, slots: torch.Tensor, owner: torch.Tensor, labels: torch.Tensor, keep: torch.Tensor, stops: torch.Tensor
    ) -> None:
        """Spell the labels that are kept into the texts of n slots, and put stops `[n]` behind them, -1 for none."""
        texts, columns = self.references.tokens, torch.arange(self.spellings.shape[1], device=slots.device)
        length = self.lengths[labels] * keep
        size = torch.zeros_like(slots).index_add_(0, owner, length)
        before = length.cumsum(0) - length - (size.cumsum(0) - size)[owner]  # tokens of the same text
        place = before[:, None] + columns
        valid = (columns < length[:, None]) & (place < texts.shape[1] - 1)
        # What is no token goes to the dummy, whose text is empty.
        flat = (slots[owner, None] * texts.shape[1] + place).masked_fill(~valid, 0)
        texts.view(-1).index_copy_(0, flat.flatten(), (self.spellings[labels] * valid).flatten())
        size = size.clamp(max=texts.shape[1] - 1)
        texts[slots, size] = stops
        self.references.length[slots] = size + (stops >= 0)


def kept(labels: torch.Tensor, owner: torch.Tensor, space: int) -> torch.Tensor:
    """Which frames are characters of their lines: bool `[F]`.

    labels int64 `[F]` of the frames of several lines, owner int64 `[F]`: the number of the line. Repeats and blanks are
    none, nor is a space at either end or behind another: so the texts were that the encoder was trained on.
    """
    frame = torch.arange(len(labels), device=labels.device)
    first = F.pad(owner[1:] != owner[:-1], (1, 0), value=True)
    keep = (labels != BLANK) & (first | (labels != F.pad(labels[:-1], (1, 0))))
    last = torch.where(keep, frame, -1).cummax(0).values
    before = F.pad(last[:-1], (1, 0), value=-1)  # the frame of the character before
    begins = (before < 0) | (owner[before] != owner)
    keep &= (labels != space) | ~(begins | (labels[before] == space))
    ends = torch.full_like(frame, -1).scatter_reduce_(0, owner, torch.where(keep, frame, -1), "amax")[owner]
    return keep & ~((labels == space) & (frame == ends))


def spell(characters: str, tokenizer: Tokenizer) -> list[list[int]]:
    """Tokens of every class. Raises ConfigError when the tokens of a text are not those of its characters: then a
    reading by characters is never what the target writes."""
    spellings = [tokenizer.encode(character) for character in characters]
    if tokenizer.encode(characters) != [token for tokens in spellings for token in tokens]:
        raise ConfigError(
            "the tokenizer joins characters, and the head of the vision encoder reads single ones",
            path=tokenizer.folder / "tokenizer.json",
            cure=f"Leave {CONFIG} out of this checkpoint.",
        )
    return [[], *spellings]


def _read(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"file not found, and {CONFIG} is there", path=path, cure=_CURE) from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"not a whole safetensors file: {error}", path=path, cure=_CURE) from error
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        raise CheckpointError(f"holds {found} instead of {shapes}", path=path, cure=f"Does {CONFIG} belong to it?")
    odd = [name for name, tensor in tensors.items() if tensor.dtype not in DTYPES.values()]
    if odd:
        raise CheckpointError(f"{odd[0]} is {tensors[odd[0]].dtype}", path=path, cure=_CURE)
    return tensors


_CURE = "Fetch the file again."
