"""Chat templates: the checkpoint's own Jinja template turns messages into prompt text.

The environment equals the one of transformers (`utils/chat_template_utils.py`), so that a template written
for it renders to the same characters. Templates come from downloaded folders: they run in Jinja's immutable
sandbox and see plain data only.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ocria.errors import ConfigError
from ocria.model.strict import read_json

Message = Mapping[str, Any]
"""`{"role": ..., "content": text or [{"type": "image"}, {"type": "text", "text": ...}]}`"""


class ChatTemplate:
    """A compiled template. `path` is the file it came from, for error messages."""

    def __init__(self, source: str, path: Path | None = None, variables: Mapping[str, str] | None = None):
        """The template sees `variables` such as eos_token. Raises ConfigError on a syntax error."""
        self.path = path
        self._variables = dict(variables or {})
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            message = f"the chat template has a syntax error in line {error.lineno}: {error.message}"
            raise ConfigError(message, path=path) from error

    @classmethod
    def from_folder(cls, folder: Path, variables: Mapping[str, str] | None = None) -> "ChatTemplate | None":
        """The default template of a checkpoint: the first of `chat_template.jinja`, `chat_template.json` and
        `tokenizer_config.json` that has one, None when none has."""
        plain = folder / "chat_template.jinja"
        if plain.is_file():
            return cls(plain.read_text(encoding="utf-8"), plain, variables)
        for name in ("chat_template.json", "tokenizer_config.json"):
            path = folder / name
            source = read_json(path).get("chat_template") if path.is_file() else None
            if isinstance(source, list):  # several named templates
                source = {entry["name"]: entry["template"] for entry in source}.get("default")
            if source is not None:
                return cls(source, path, variables)
        return None

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, **kwargs: Any) -> str:
        """The prompt text. `kwargs` are the template's own switches, such as `enable_thinking=False`.

        Raises ConfigError when the template refuses the messages or fails.
        """
        chat = [{key: value for key, value in message.items() if value is not None} for message in messages]
        try:
            # Through JSON, so that the template gets nothing but plain data.
            names = {**self._variables, **json.loads(json.dumps(kwargs))}
            names |= {"messages": json.loads(json.dumps(chat)), "tools": names.get("tools")}
            names |= {"documents": names.get("documents"), "add_generation_prompt": add_generation_prompt}
            return self._template.render(names)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ConfigError(f"the chat template fails on this prompt: {error}", path=self.path) from error


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks what the model wrote, for training; here it is plain."""

    tags = frozenset({"generation"})

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class _Namespace(jinja2.utils.Namespace):
    """Jinja's `namespace`, minus attributes that could stand in for Python's own."""

    def __init__(*args, **kwargs):  # so that a template may name an attribute `self`
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            _refuse_private(name)
        jinja2.utils.Namespace.__init__(args[0], attributes)

    def __setitem__(self, name, value):
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: str) -> None:
    if name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a chat template may not store {name!r} on a namespace")


def _raise_exception(message: str):
    raise jinja2.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
    # Jinja's own filter escapes HTML characters, which a prompt must not.
    options = {"ensure_ascii": ensure_ascii, "indent": indent, "separators": separators}
    return json.dumps(value, sort_keys=sort_keys, **options)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["namespace"] = _Namespace
    return environment
