"""The app: it takes what the session tells into the state ten times a second, and panes follow what changed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter, NoColor
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Footer

from ocria_tui.actions import Actions
from ocria_tui.actions.answers import tell
from ocria_tui.commands import ActionCommands
from ocria_tui.css import CSS
from ocria_tui.documents import DocumentState, PageState
from ocria_tui.kept import kept_theme
from ocria_tui.keymap import bindings
from ocria_tui.session import Session
from ocria_tui.settings import AppSettings
from ocria_tui.state import AppState, apply
from ocria_tui.theme import DARK, THEMES, Ascii, Palette
from ocria_tui.widgets.engine import EnginePane
from ocria_tui.widgets.lines import Headline, StatusLine
from ocria_tui.widgets.log import LogPane
from ocria_tui.widgets.page import PagePane
from ocria_tui.widgets.pane import Pane
from ocria_tui.widgets.queue import Queue
from ocria_tui.widgets.strip import PageStrip
from ocria_tui.widgets.text import TextPane

POLL_S = 0.1
DWELL_S = 0.5
"""So long a page is shown at least before the next that is read takes its place."""
PANES = (("queue", "Documents"), ("strip", "Pages"), ("text", "Text"), ("engine", "Engine"), ("log", "Log"))
"""By the keys 1 to 5."""


class OcriaApp(Actions, App[None]):
    """Shows a session. `document`, `page` and the switches below choose what is shown; all else is the state's."""

    CSS = CSS
    TITLE = "ocria"
    COMMANDS: ClassVar = {ActionCommands}
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (110, "-medium"), (150, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar = [(0, "-short"), (36, "-middling"), (50, "-tall")]
    BINDINGS: ClassVar = [
        *bindings(),
        *(Binding(str(key), f"pane('{name}')", label, show=False) for key, (name, label) in enumerate(PANES, 1)),
    ]

    document: reactive[str | None] = reactive(None, init=False)
    page: reactive[int | None] = reactive(None, init=False)
    following = reactive(True, init=False)
    raw = reactive(False, init=False)
    boxes = reactive(True, init=False)
    images = reactive(True, init=False)
    log_shown = reactive(True, init=False)
    search: reactive[Any] = reactive(None, init=False)

    def __init__(self, session: Session, settings: AppSettings, graphics: type[Widget] | None = None):
        """graphics: what `ocria_tui.graphics.image_widget` found before the app began."""
        super().__init__()
        self._graphics = graphics
        self.session, self.settings = session, settings
        self.state = AppState()
        self.quit_asked = False
        self._ascii = Ascii()
        self._no_color = NoColor()
        self._last_pages: dict[str, int] = {}
        """Of each document the page that was shown last."""
        self._shown_at = 0.0
        self._panes: list[Pane] = []
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = settings.theme or kept_theme() or DARK
        self.palette = Palette.of(self.current_theme)
        self.set_reactive(OcriaApp.images, settings.images)
        if not settings.animation:
            self.animation_level = "none"
        if settings.keymap:
            self.set_keymap(dict(settings.keymap))

    def compose(self) -> ComposeResult:
        yield Headline()
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Queue()
                yield EnginePane()
            with Vertical(id="centre"):
                yield PageStrip()
                with Horizontal(id="read"):
                    yield PagePane(self._graphics)
                    yield TextPane()
        yield LogPane()
        yield StatusLine()
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.screen.set_class(self.settings.ascii, "-ascii")
        self.query_one(PagePane).set_class(not self.images, "-hidden")
        self.query_one(TextPane).focus()
        self._panes = [widget for widget in self.screen.walk_children() if isinstance(widget, Pane)]
        self.session.start()
        self.set_interval(POLL_S, self.poll)

    def poll(self) -> None:
        """Take in what happened since the last time, and show it."""
        for at, event in self.session.drain():
            apply(self.state, at, event)
            tell(self, event)
        if self.following:
            self._follow()
        elif self.document is None and self.state.documents:
            self._choose(next(iter(self.state.documents)), None)
        elif self.page is None:
            self._choose(self.document, None)
        self.follow_panes()

    def follow_panes(self) -> None:
        """Have each pane look whether what it shows changed."""
        for pane in self._panes:
            pane.follow()

    @property
    def shown_document(self) -> DocumentState | None:
        return None if self.document is None else self.state.documents.get(self.document)

    @property
    def shown_page(self) -> PageState | None:
        return self.state.page(self.document, self.page)

    @property
    def draws(self) -> bool:
        """Whether page images are shown; else there is a map of the lines. Without colours nothing of an image is
        left."""
        return self.images and self.settings.images and not self.settings.ascii and not self.no_color

    def show(self, path: str, page: int | None = None) -> None:
        """Show a page, of a document its first or the last one shown; no longer follows."""
        self.following = False
        self._choose(path, page)

    def action_pane(self, name: str) -> None:
        """Go to a pane, and have it shown where there is room for one alone."""
        screen = self.screen_stack[0]
        for pane, _ in PANES:
            screen.set_class(pane == name, f"-show-{pane}")
        if name == "log":
            self.log_shown = True
        screen.query_one(f"#{name}").focus()

    def get_line_filters(self) -> list[LineFilter]:
        filters = list(super().get_line_filters())
        if self.no_color:
            filters.append(self._no_color)
        if self.settings.ascii:
            filters.append(self._ascii)
        return filters

    def _follow(self) -> None:
        """Show the page that is read, each for a while."""
        if self.state.reading is None:
            if self.page is None and self.state.documents:  # all that is there may be kept from an earlier run
                self._choose(self.document or next(iter(self.state.documents)), None)
        elif self.state.reading != (self.document, self.page) and time.monotonic() - self._shown_at >= DWELL_S:
            self._choose(*self.state.reading)

    def _choose(self, path: str | None, page: int | None) -> None:
        document = None if path is None else self.state.documents.get(path)
        if document is None:
            return
        if page is None:
            page = self._last_pages.get(path)
            if page not in document.pages:
                page = document.order[0] if document.order else None
        if (path, page) != (self.document, self.page):
            self._shown_at = time.monotonic()
            self.document, self.page = path, page
            if page is not None:
                self._last_pages[path] = page
            self._shown_changed()

    def _shown_changed(self) -> None:
        self.follow_panes()

    def watch_following(self) -> None:
        self._shown_changed()

    def watch_raw(self) -> None:
        self._shown_changed()

    def watch_boxes(self) -> None:
        self._shown_changed()

    def watch_search(self) -> None:
        self._shown_changed()

    def watch_images(self, images: bool) -> None:
        if self.is_running:
            self.screen_stack[0].query_one(PagePane).set_class(not images, "-hidden")

    def watch_log_shown(self, shown: bool) -> None:
        if self.is_running:
            self.screen_stack[0].query_one(LogPane).set_class(not shown, "-hidden")

    def _watch_theme(self, theme_name: str) -> None:
        super()._watch_theme(theme_name)
        self.palette = Palette.of(self.current_theme)
        self._shown_changed()
