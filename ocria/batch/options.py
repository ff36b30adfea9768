"""What a caller may choose for a run over many documents, beside how each of them is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ocria.errors import UsageError

FORMATS = ("md", "html", "json", "jsonl", "text", "pdf")
FAIL_ON = ("failure", "partial", "never")


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of `run_batch`.

    Raises:
        UsageError: a value out of its range, or two that exclude each other.
    """

    output_dir: Path | None = None
    """Folder of the outputs and of what resuming needs; None writes nothing, documents come with their events alone."""
    formats: tuple[str, ...] = ("md",)
    page_markers: bool = False
    overwrite: bool = False
    """Replace files that ocria did not write, or that were changed since."""
    resume: bool = True
    """Pass over what is done already, and go on with what is half done."""
    retry_failed: bool = False
    """Read pages and documents again that failed in an earlier run."""
    keep_pages: bool = False
    """Keep the pages of documents that are done as well, for who shows them later."""

    def __post_init__(self) -> None:
        for name in self.formats:
            if name not in FORMATS:
                raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {name!r}")
        if self.retry_failed and not self.resume:
            raise UsageError("give either --retry-failed or --no-resume")
        if self.retry_failed and self.output_dir is None:
            raise UsageError("--retry-failed needs a folder of outputs", cure="Give it with --output-dir")
