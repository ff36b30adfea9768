"""What the session answers to the user's commands, told where the user looks."""

from __future__ import annotations

from ocria.events import Event
from ocria_tui.actions.view import View
from ocria_tui.messages import Exported, Refused, SessionEnded


def tell(app: View, event: Event) -> None:
    """Show it for a while; the log keeps it."""
    match event:
        case Exported():
            app.notify(f"Wrote {', '.join(event.outputs)}", markup=False)
        case Refused() | SessionEnded(message=str()):
            cure = "" if event.cure is None else f". {event.cure}"
            about = f"{event.path}: " if isinstance(event, Refused) and event.path is not None else ""
            severity = "warning" if isinstance(event, Refused) else "error"
            app.notify(f"{about}{event.message}{cure}", severity=severity, timeout=10, markup=False)
