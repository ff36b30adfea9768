"""Processes that open, look at and draw files, so that a crash, a hang or a leak in there costs one page."""

from ocria.document.workers.pool import Workers
from ocria.document.workers.warm import end_workers, warm_workers

__all__ = ["Workers", "end_workers", "warm_workers"]
