"""Which files and folders to read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, DirectoryTree, Input, Label
from textual.widgets.directory_tree import DirEntry
from textual.widgets.tree import TreeNode

from ocria.document.ranges import parse_ranges
from ocria.errors import UsageError
from ocria_tui.screens.dialog import Dialog, Name
from ocria_tui.screens.paths import PathSuggester, is_readable


class DocumentTree(DirectoryTree):
    """Folders, and files of kinds that can be read. What is chosen has a mark."""

    ICON_NODE = "+ "
    ICON_NODE_EXPANDED = "- "
    ICON_FILE = "  "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "choose", "Choose"),
        Binding("backspace", "up", "Parent folder"),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def __init__(self, folder: Path):
        super().__init__(folder, id="tree")
        self.chosen: dict[Path, None] = {}

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return [path for path in paths if path.name[0] != "." and (self._safe_is_dir(path) or is_readable(path))]

    def render_label(self, node: TreeNode[DirEntry], base_style: Style, style: Style) -> Text:
        label = super().render_label(node, base_style, style)
        marked = node.data is not None and node.data.path in self.chosen
        return Text.assemble(("[x] " if marked else "[ ] ", base_style), label)

    def action_choose(self) -> None:
        """Take the file or folder under the cursor, or put it back."""
        node = self.cursor_node
        if node is None or node.data is None:
            return
        if node.data.path in self.chosen:
            del self.chosen[node.data.path]
        else:
            self.chosen[node.data.path] = None
        self._invalidate()
        self.screen.tell_chosen()

    def action_up(self) -> None:
        """Show the folder above."""
        self.path = Path(self.path).absolute().parent


class Browse(Dialog[tuple[list[str], str | None]]):
    """Gives files, folders and globs, and the pages to read of them, None for those of the settings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+o", "take", "Open")]
    DEFAULT_CSS = """
    Browse #tree { height: 14; background: $surface; }
    """

    def __init__(self, pages: str | None, folder: Path | None = None):
        super().__init__()
        self.pages, self.folder = pages, folder or Path.cwd()

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Open"
            with Horizontal(classes="row"):
                yield Name("Path")
                yield Input(
                    placeholder="file, folder or pattern; right arrow completes",
                    id="path",
                    compact=True,
                    suggester=PathSuggester(),
                )
            yield DocumentTree(self.folder)
            with Horizontal(classes="row"):
                yield Name("Pages")
                hint = "all" if self.pages is None else f"{self.pages} (settings)"
                yield Input(placeholder=f"{hint}, or such as 1-3,8", id="pages", compact=True)
            yield Label("", id="chosen", classes="hint", markup=False)
            yield Label(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (escape)", id="cancel", compact=True)
                yield Button("Open (ctrl+o)", id="take", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.tell_chosen()
        self.query_one("#tree").focus()

    def tell_chosen(self) -> None:
        """Say what is chosen by now."""
        chosen = [self._shown(path) for path in self.query_one(DocumentTree).chosen]
        told = f"{len(chosen)} chosen: {', '.join(chosen)}" if chosen else "space chooses, enter opens the one file"
        self.query_one("#chosen", Label).update(told)

    @on(DirectoryTree.FileSelected)
    def take_file(self, event: DirectoryTree.FileSelected) -> None:
        """Enter on a file opens it, with all that were chosen before."""
        self.query_one(DocumentTree).chosen[event.path] = None
        self.action_take()

    @on(Input.Submitted)
    @on(Button.Pressed, "#take")
    def action_take(self) -> None:
        typed = self.query_one("#path", Input).value.strip()
        pages = self.query_one("#pages", Input).value.strip() or None
        paths = [self._shown(path) for path in self.query_one(DocumentTree).chosen]
        paths += [os.path.expanduser(typed)] if typed else []
        if not paths:
            self.complain("nothing is chosen: type a path, or choose with space")
            return
        if typed and not os.path.lexists(paths[-1]) and not glob.has_magic(typed):
            self.complain(f"{typed} is not there")
            return
        try:
            if pages is not None:
                parse_ranges(pages)
        except UsageError as error:
            self.complain(str(error))
            return
        self.dismiss((list(dict.fromkeys(paths)), pages))

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        self.dismiss(None)

    def _shown(self, path: Path) -> str:
        """Relative to where the app was started, if it lies below."""
        here = Path.cwd()
        return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)
