"""Text to token ids and back, from the checkpoint's own `tokenizer.json`, and the prompt around an image."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from ocria.errors import ConfigError, InputError
from ocria.model.strict import read_json
from ocria.model.template import ChatTemplate, Message

REPLACEMENT = "\ufffd"


class Tokenizer:
    """The tokenizer of a checkpoint folder.

    `eos_ids`: every token that ends an answer. Fine-tunes disagree on where they name it, so it is the union
    of `generation_config.json`, `config.json` and the tokenizer's own end token. `eos_id`: the tokenizer's own, which
    a model of turns writes; else any of them, or None.
    """

    def __init__(self, folder: Path | str):
        """Reads `tokenizer.json` and what lies beside it. Raises ConfigError naming the file at fault."""
        self.folder = Path(folder)
        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise ConfigError("file not found", path=path, cure="A model needs its tokenizer beside it.")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises plain Exception for every fault of the file
            raise ConfigError(f"not a tokenizer: {error}", path=path, cure="Fetch the file again.") from error
        # A tokenizer saved during training may carry these; a prompt must be neither cut nor padded.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = self._read_optional("tokenizer_config.json")
        self._add_missing(config.get("added_tokens_decoder") or {})
        self.special_tokens = _named_tokens(config, self._read_optional("special_tokens_map.json"))
        self.eos_ids = self._find_eos()
        own = self.id_of(self.special_tokens.get("eos_token", ""))
        self.eos_id = own if own is not None else next(iter(self.eos_ids), None)
        self.template = ChatTemplate.from_folder(self.folder, self.special_tokens)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Special tokens written in it are recognised, and none is added around it."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Text of token ids. Bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)

    def id_of(self, token: str) -> int | None:
        """The id of exactly this token, None when the vocabulary lacks it."""
        return self._tokenizer.token_to_id(token)

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, **kwargs: Any) -> str:
        """Prompt text by the checkpoint's chat template. Raises ConfigError when it has none or fails."""
        if self.template is None:
            raise ConfigError(
                "the checkpoint has no chat template",
                path=self.folder,
                cure="Put the model's chat_template.jinja into the folder.",
            )
        return self.template.render(messages, add_generation_prompt=add_generation_prompt, **kwargs)

    def _read_optional(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return read_json(path) if path.is_file() else {}

    def _add_missing(self, added: dict[str, dict]) -> None:
        """Add the tokens that only `tokenizer_config.json` names; they must get the ids it gives them."""
        for token_id, entry in sorted(added.items(), key=lambda item: int(item[0])):
            content = entry["content"]
            if self.id_of(content) is None:
                options = {name: entry[name] for name in ("lstrip", "rstrip", "single_word") if name in entry}
                token = tokenizers.AddedToken(content, special=entry.get("special", False), **options)
                self._tokenizer.add_tokens([token])
            if self.id_of(content) != int(token_id):
                raise ConfigError(
                    f"token {content!r} is {token_id} here and {self.id_of(content)} in tokenizer.json",
                    path=self.folder / "tokenizer_config.json",
                    cure="The two files come from different models.",
                )

    def _find_eos(self) -> tuple[int, ...]:
        config = self._read_optional("config.json")
        places = [self._read_optional("generation_config.json"), config, config.get("text_config") or {}]
        found = [place.get("eos_token_id") for place in places]
        found.append(self.id_of(self.special_tokens.get("eos_token", "")))
        lists = [entry if isinstance(entry, list) else [entry] for entry in found if entry is not None]
        return tuple(sorted({token_id for entry in lists for token_id in entry}))


class StreamDecoder:
    """Text as it arrives, token by token. The pieces joined equal `decode` of all ids.

    A character may be spread over several tokens: its bytes are held back until it is whole, or `finish`.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True):
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._context: list[int] = []  # tokens before: some decoders treat a first token in its own way
        self._pending: list[int] = []  # tokens since the last character boundary
        self._sent = 0  # characters of the pending tokens that are out already

    def push(self, ids: Sequence[int]) -> str:
        """Take tokens, return the text that is certain now."""
        self._pending.extend(ids)
        text = self._text()
        if not text.endswith(REPLACEMENT):
            piece = text[self._sent :]
            if self._pending:
                self._context, self._pending, self._sent = self._pending, [], 0
            return piece
        # An unfinished character decodes to exactly one U+FFFD at the end; all before it is settled.
        piece = text[self._sent : -1]
        self._sent += len(piece)
        return piece

    def finish(self) -> str:
        """The rest: what never became whole comes out as U+FFFD."""
        piece = self._text()[self._sent :]
        self._context, self._pending, self._sent = [], [], 0
        return piece

    def _text(self) -> str:
        before = self._tokenizer.decode(self._context, self._skip_special)
        return self._tokenizer.decode(self._context + self._pending, self._skip_special)[len(before) :]


def expand_image_tokens(ids: Sequence[int], image_token_id: int, counts: Sequence[int]) -> list[int]:
    """Repeat the placeholder of each image to its number of tokens.

    `counts`: image tokens, an entry an image, in order. Raises InputError when there are more or fewer
    placeholders than images.
    """
    places = sum(token == image_token_id for token in ids)
    if places != len(counts):
        raise InputError(f"the prompt has {places} places for an image, and {len(counts)} images were given")
    remaining = iter(counts)
    expanded: list[int] = []
    for token in ids:
        expanded.extend([token] * next(remaining) if token == image_token_id else [token])
    return expanded


def _named_tokens(*sources: dict[str, Any]) -> dict[str, str]:
    """The tokens with a role (`eos_token` ...), which templates may refer to. The first source wins."""
    named: dict[str, str] = {}
    for source in sources:
        extra = source.get("extra_special_tokens")
        entries = {**source, **(extra if isinstance(extra, dict) else {})}
        for key, value in entries.items():
            if isinstance(value, dict):
                value = value.get("content")
            if key.endswith("_token") and isinstance(value, str):
                named.setdefault(key, value)
    return named
