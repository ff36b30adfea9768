"""What a caller may choose for one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from ocria.document.ranges import parse_ranges
from ocria.errors import UsageError

MODES = ("auto", "model", "text")
UNITS = ("page", "line")
DIALECTS = ("markdown", "html", "json", "text")
DTYPES = ("float32", "bfloat16")
RULES = ("exact", "token", "block")
ACTIVATIONS = ("auto", "full", "quantised")
KV_CACHES = ("full", "fp8")
TABLE_FORMATS = ("auto", "md", "html", "csv")
IMAGES = ("none", "placeholder", "embed", "extract")
MOST_DRAFT_ROWS = 64
RINGS = (0, 2, 4, 8, 16, 32, 64, 128)
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
_SIZE = re.compile(r"(?P<number>\d{1,15}(\.\d{1,9})?)\s*((?P<unit>[kmgt])(i?b)?|b)?")


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Options of `ocria.parse` and `ocria.stream`; the command line has the same ones.

    Raises:
        UsageError: a value out of its range.
    """

    pages: str | Sequence[int] | None = None
    """1-based pages, as `"1-3,8"` or a sequence of numbers; None reads all."""
    mode: str = "auto"
    """`auto` takes a trustworthy text layer and reads the pixels elsewhere, `model` always reads the
    pixels, `text` only takes the text layer."""
    password: str | None = field(default=None, repr=False)
    """User's or owner's password of an encrypted PDF."""
    dpi: int | None = None
    """Resolution at which PDF pages are rendered for the model; None takes that of the scan, or 300."""
    model: str | None = None
    """Folder or name of a checkpoint; None takes the one that ships with ocria."""
    device: str | None = None
    """`cpu`, `cuda` or `cuda:N`; None takes a GPU if there is one."""
    dtype: str | None = None
    """`float32` or `bfloat16`; None takes float32 on the CPU, else bfloat16."""
    batch: int | None = None
    """Most requests that run at the same time."""
    threads: int | None = None
    memory: int | str | None = None
    """What the model and its state may take, in bytes or as `"4G"`, `"512M"` (powers of 1024); None takes what is
    free, on the CPU half of it."""
    timeout: float | None = None
    """Seconds that a document may take. Pages that are not done by then have the status `timeout`."""
    page_timeout: float | None = None
    """Seconds that a page may take to be rendered, and again once it is with the model, where pages that are read
    together share them. What was read until then is kept and the page has the status `timeout`."""
    jobs: int | None = None
    """Processes that open and draw files, so that a crash in there costs one page; 0 does it in this process, None
    takes one."""
    keep_headers_footers: bool = False
    """Whether running headers and footers are part of Markdown, HTML and text; in JSON they always are."""
    table_format: str = "auto"
    """How tables stand in Markdown: `md` (pipe tables), `html`, `csv` (in a code block), or `auto`, which takes HTML
    where cells span rows or columns."""
    merge_tables: bool = True
    """Whether a table that goes on over pages is one table, on the first of them."""
    images: str = "none"
    """What becomes of figures: `none`, `placeholder` (a comment says where one is), `embed` (in the output itself), or
    `extract` (as files beside the output)."""
    compile: bool = False
    """Run steps through torch.compile."""
    graph: bool | None = None
    """Replay steps as CUDA graphs; None does so on CUDA."""
    overlap: bool | None = None
    """Launch a step before the tokens of the one before are read; None does so on CUDA."""
    ring: int | None = None
    """Recent rows that are replayed over the state instead of writing it in every step: a power of two up to 128, or
    0; None chooses."""
    draft: str = "auto"
    """What proposes tokens for the model to verify: `lookup` (the text layer of a PDF, and what was written before),
    `vision` (a first reading of a line), `own` (the model's own drafter), the folder of another DFlash or DFlash2
    drafter, several of these joined by commas, `none`, or `auto`, which takes what suits the model. It decides how fast
    a page is read, not what is read."""
    draft_rows: int | None = None
    """Rows of every step with drafts, the last token and the drafts behind it; None chooses for each step."""
    verify: str = "exact"
    """How drafts are accepted where tokens are drawn: `exact` for the same tokens as without drafts, `token` or `block`
    for more of them from the same distribution."""
    activations: str = "auto"
    """What quantised weights are multiplied with: inputs as they are (`full`), or quantised where the checkpoint says
    so (`quantised`); `auto` quantises them on CUDA. It may change what is read."""
    kv_cache: str = "full"
    """Cached keys and values: `full` in the dtype of the model, `fp8` in half of its memory, rounded."""
    prompt: str | None = None
    unit: str | None = None
    max_output_tokens: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    dialect: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.pages, str):
            parse_ranges(self.pages)
        _one_of("mode", self.mode, MODES)
        for name, allowed in (("unit", UNITS), ("dialect", DIALECTS), ("dtype", DTYPES)):
            if getattr(self, name) is not None:
                _one_of(name, getattr(self, name), allowed)
        if self.device is not None and not _DEVICE.fullmatch(self.device):
            raise UsageError(f"device must be cpu, cuda or cuda:N, not {self.device!r}")
        _one_of("verify", self.verify, RULES)
        _one_of("activations", self.activations, ACTIVATIONS)
        _one_of("kv_cache", self.kv_cache, KV_CACHES)
        if self.ring is not None and self.ring not in RINGS:
            raise UsageError(f"ring must be one of {', '.join(map(str, RINGS))}, not {self.ring!r}")
        for name in ("compile", "graph", "overlap", "keep_headers_footers", "merge_tables"):
            value = getattr(self, name)
            if not isinstance(value, bool) and (value is not None or name not in ("graph", "overlap")):
                raise UsageError(f"{name} must be true or false, not {value!r}")
        for name in ("timeout", "page_timeout"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value < float("inf")):
                raise UsageError(f"{name} must be seconds above 0, not {value!r}")
        _one_of("table_format", self.table_format, TABLE_FORMATS)
        _one_of("images", self.images, IMAGES)
        if self.memory is not None:
            parse_size(self.memory)
        for name, low, high in (
            ("dpi", 36, 1200),
            ("batch", 1, 4096),
            ("threads", 1, 1024),
            ("jobs", 0, 256),
            ("draft_rows", 1, MOST_DRAFT_ROWS),
            ("max_output_tokens", 1, 1 << 20),
            ("min_pixels", 1, 1 << 30),
            ("max_pixels", 1, 1 << 30),
        ):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not low <= value <= high):
                raise UsageError(f"{name} must be a whole number between {low} and {high}, not {value!r}")
        if self.min_pixels is not None and self.max_pixels is not None and self.min_pixels > self.max_pixels:
            raise UsageError(f"min_pixels {self.min_pixels} is above max_pixels {self.max_pixels}")

    @property
    def profile_overrides(self) -> dict[str, object]:
        """The facts about the checkpoint that the caller stated, by name."""
        names = ("prompt", "unit", "max_output_tokens", "min_pixels", "max_pixels", "dialect")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else parse_size(self.memory)


def parse_size(text: int | str) -> int:
    """Bytes from `4G`, `1.5GiB`, `800 MB` or a plain number; units are powers of 1024. Raises UsageError."""
    match = None if isinstance(text, bool) else _SIZE.fullmatch(str(text).strip().lower())
    amount = int(float(match["number"]) * 1024 ** "bkmgt".index(match["unit"] or "b")) if match else 0
    if amount < 1:
        raise UsageError(f"memory must be a size such as 4G or 512M, not {text!r}")
    return amount


OPTION_NAMES = tuple(option.name for option in fields(ParseOptions))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
