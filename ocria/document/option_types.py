"""The fields of `ParseOptions` as keyword arguments, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class OptionTypes(TypedDict, total=False):
    """What each of them means stands in `ocria.document.options.ParseOptions`."""

    pages: str | Sequence[int] | None
    mode: str
    password: str | None
    dpi: int | None
    model: str | None
    device: str | None
    dtype: str | None
    batch: int | None
    threads: int | None
    memory: int | str | None
    timeout: float | None
    page_timeout: float | None
    jobs: int | None
    keep_headers_footers: bool
    table_format: str
    merge_tables: bool
    images: str
    compile: bool
    graph: bool | None
    overlap: bool | None
    ring: int | None
    draft: str
    draft_rows: int | None
    verify: str
    activations: str
    kv_cache: str
    prompt: str | None
    unit: str | None
    max_output_tokens: int | None
    min_pixels: int | None
    max_pixels: int | None
    dialect: str | None
