"""The command palette: every action by its name and by what it does."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from ocria_tui.keymap import ACTIONS, Action

_HIDDEN = ("command_palette",)


class ActionCommands(Provider):
    """Offers what a keymap can name; without a word, all of it."""

    async def discover(self) -> Hits:
        for action in self._offered():
            yield DiscoveryHit(action.label, self._run(action), help=action.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._offered():
            text = f"{action.label}: {action.help}"
            if score := matcher.match(text):
                yield Hit(score, matcher.highlight(text), self._run(action), text=text)

    def _offered(self) -> list[Action]:
        return [action for action in ACTIONS if action.name not in _HIDDEN]

    def _run(self, action: Action) -> partial[object]:
        return partial(self.app.run_action, action.name)
