"""Processes that open, look at and draw files, so that a crash, a hang or a leak in there costs one page."""

from ocria.document.workers.pool import Workers

__all__ = ["Workers"]
