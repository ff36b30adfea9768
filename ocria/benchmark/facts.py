"""What a benchmark finds out, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

VERSION = 1
"""Of the JSON form; it grows when a key changes its meaning."""
DRAFT, BATCH, COMPILE, THREADS = "draft", "batch", "compile", "threads"


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    """Of the host."""
    cpu: str
    cores: int
    threads: int
    """That torch computes with."""
    instructions: tuple[str, ...]
    """Of those that matter to products of matrices, the ones that the CPU has."""
    memory_bytes: int | None
    free_bytes: int
    gpu: str | None
    gpu_bytes: int | None
    torch: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    name: str
    unit: str
    """`line` or `page`: what one request reads."""
    device: str
    dtype: str
    parameters: int
    encoder_parameters: int
    weight_bytes: int
    """On the device."""
    formats: str
    """How quantised layers are held, nothing for a plain model."""
    step_bytes: int
    """Of weights that every step reads."""
    request_bytes: int
    """Of state that a step moves for each request, without keys and values."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What this machine can do at best, measured: bytes read a second, and operations a second in products of matrices
    in the dtype of the engine."""

    bytes_per_s: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class PageTimes:
    """Whole pages, one after the other, with the options as they are. Seconds a page; `parts` are means."""

    pages: int
    seconds: tuple[float, ...]
    parts: dict[str, float]
    """`open`, `lines` (drawing, turning, finding lines), `encoder`, `prefill`, `steps`, `host` (the engine around
    them), `rest`."""
    tokens: int
    """Of all of them."""
    requests: int
    first_token_s: float
    """Median, from opening the page to its first token."""
    bandwidth_percent: float | None
    """Weights read in steps, of what the memory can do."""
    flops_percent: float | None
    """Products of encoder, prefill and steps, of what the machine can do, over the seconds of the engine."""
    cut: bool = False
    """Whether the time was over before a page was."""

    @property
    def pages_per_min(self) -> float:
        return 60 / median(self.seconds)

    @property
    def outside_s(self) -> float:
        """Seconds a page outside of the engine."""
        return sum(self.parts[name] for name in ("open", "lines", "rest"))


@dataclass(frozen=True, slots=True)
class Speed:
    """One variant, on the same requests as the others of its group and in turns with them."""

    group: str
    """`draft`, `batch`, `compile` or `threads`."""
    name: str
    """`none`, `32`, `on` …: the value of the option."""
    base: bool
    """Whether it is how the command would run without advice."""
    seconds: tuple[float, ...] = ()
    """Of each turn; none where the answers differ."""
    ratios: tuple[float, ...] = ()
    """How many times as fast as the base, in each turn."""
    tokens: int = 0
    requests: int = 0
    pages: float = 0.0
    """What the requests amount to."""
    different: int = 0
    """Answers that are not those of the first of the group, but for ties."""
    first_token_s: float | None = None
    """Median, from the start of a turn to the first token of any request."""
    accept_length: float | None = None
    pages_per_min: float | None = None
    """From file to text: with the seconds a page that are spent outside of the engine."""
    once_s: float = 0.0
    """What the first turn took beyond the others: compiling."""
    cached: bool | None = None
    """Of compiled code, whether all of it was there before."""

    @property
    def tokens_per_s(self) -> float | None:
        return self.tokens / median(self.seconds) if self.seconds else None

    @property
    def page_s(self) -> float | None:
        """Seconds of the engine for a page."""
        return median(self.seconds) / self.pages if self.seconds else None


@dataclass(frozen=True, slots=True)
class RecipeFact:
    """What a recipe of `ocria quantize` would come to; counted, not measured."""

    name: str
    file_bytes: int
    device_bytes: int
    """Weights as they would be held."""
    step_bytes: int
    """Read in every step."""
    fits: bool
    """Whether the weights and one request fit."""
    needs_pages: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Advice:
    about: str
    """`draft`, `batch`, `compile`, `threads` or `recipe`."""
    says: str
    option: str | None = None
    """For the command line of `ocria parse`; None: leave it as it is."""


@dataclass(slots=True)
class Report:
    """All of it. What was not measured is None, or missing from its list."""

    ocria: str
    budget_s: float
    machine: Machine | None = None
    model: ModelFacts | None = None
    source: str = "made"
    """Of the pages: `made`, or `files`."""
    limits: Limits | None = None
    page: PageTimes | None = None
    speeds: list[Speed] = field(default_factory=list)
    recipes: list[RecipeFact] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    verdict: str = ""
    seconds: float = 0.0
    interrupted: bool = False

    def group(self, name: str) -> list[Speed]:
        """The variants of one kind."""
        return [speed for speed in self.speeds if speed.group == name]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        told: dict[str, Any] = {"bench": "ocria bench", "version": VERSION, **asdict(self)}
        if self.page is not None:
            told["page"]["pages_per_min"] = self.page.pages_per_min
        for speed, data in zip(self.speeds, told["speeds"], strict=True):
            data["tokens_per_s"] = speed.tokens_per_s
        return told
