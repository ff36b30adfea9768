"""What whoever runs the server may choose."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from ocria.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the server listens and what it bears.

    Raises:
        UsageError: a value out of its range.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes one that is free."""
    key: bytes | None = field(default=None, repr=False)
    """What clients must know; None lets everybody in."""
    names: tuple[str, ...] = ()
    """What the model is called beside its own name."""
    queue: int = 64
    """Most requests that wait."""
    concurrency: int = 4
    """Documents that are read at the same time."""
    max_bytes: int = 64 << 20
    """Of a body."""
    max_pages: int = 1000
    """That a request may ask for."""
    max_pixels: int = 100_000_000
    """Of an image."""
    timeout: float = 900.0
    """Seconds for a document, waiting included."""
    upload_timeout: float = 60.0
    """Seconds for a body to come."""
    grace: float = 30.0
    """Seconds to finish what runs when the server ends."""
    keep_jobs: int = 32
    """Most jobs that are kept when they are done."""
    keep_seconds: float = 600.0
    """How long."""
    log_format: str = "text"
    quiet: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("port", 0, 65535),
            ("queue", 0, 100_000),
            ("concurrency", 1, 256),
            ("max_bytes", 1, 1 << 40),
            ("max_pages", 1, 1_000_000),
            ("max_pixels", 1, 1 << 40),
            ("keep_jobs", 1, 10_000),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise UsageError(f"{name} must be a whole number between {low} and {high}, not {value!r}")
        for name in ("timeout", "upload_timeout", "grace", "keep_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} must be seconds above 0, not {getattr(self, name)!r}")
        if self.key is not None and not self.key.isascii():
            raise UsageError("the key must consist of ASCII characters")

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
