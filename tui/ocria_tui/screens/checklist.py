"""Several of a few things."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widgets import SelectionList


class Checklist(SelectionList[str]):
    """A list whose boxes are empty or crossed; Textual's own tells them apart by colour alone. Space changes a box,
    enter is for the form, as on all of its lines."""

    BINDINGS: ClassVar = [Binding("enter", "submit", show=False)]

    class Submitted(Message):
        """Enter was pressed."""

    def action_submit(self) -> None:
        self.post_message(self.Submitted())

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        segments = list(strip)
        option = segments[1].style.meta.get("option") if len(segments) > 4 and segments[1].style else None
        if option is None:
            return strip  # below the last option
        chosen = self.get_option_at_index(option).value in self.selected
        style = (segments[3].style or Style()) + Style(meta={"option": option})
        return Strip([Segment("[x]" if chosen else "[ ]", style), *segments[3:]])
