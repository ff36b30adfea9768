"""The end."""

from __future__ import annotations

from ocria_tui.actions.view import View

ASK_SECONDS = 6.0
"""How long the second press is waited for."""


def quit_app(app: View) -> None:
    """End, at the second press where something is being read."""
    running = app.session.live and app.state.ended is None
    left = sum(not document.ended for document in app.state.documents.values()) if running else 0
    if not left or app.quit_asked:
        app.exit()
        return
    app.quit_asked = True
    app.set_timer(ASK_SECONDS, lambda: setattr(app, "quit_asked", False))
    what = "1 document is" if left == 1 else f"{left} documents are"
    app.notify(
        f"{what} not read to the end. Press the key again to quit; finished pages are kept.",
        severity="warning",
        timeout=ASK_SECONDS,
    )
