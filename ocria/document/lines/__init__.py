"""Text lines of a page image: `find_lines`."""

from .find import find_lines
from .result import Line, LinesResult

__all__ = ["Line", "LinesResult", "find_lines"]
