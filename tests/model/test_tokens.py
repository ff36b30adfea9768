"""Tokenizer, streaming and chat templates, against transformers where it does the same."""

import json
import random

import pytest

from ocria.errors import ConfigError, InputError
from ocria.model.tokens import StreamDecoder, Tokenizer, expand_image_tokens

transformers = pytest.importorskip("transformers")

TEXTS = [
    "The quick brown fox — naïve 文档, 🙂🙂 and “quotes”.",
    "e\u0301 is composed; 12,345.67 is split into digits\n\n\ttabs  and   spaces ",
    "",
    "<|im_start|>user\nhello<|im_end|>\n<think>\n\n</think>\n",
]


def reference(folder):
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


class TestTokenizer:
    @pytest.mark.parametrize("text", TEXTS)
    def test_encode_and_decode_equal_transformers(self, tokenizer, text):
        theirs = reference(tokenizer.folder)
        ids = tokenizer.encode(text)
        assert ids == theirs.encode(text, add_special_tokens=False)
        for skip in (True, False):
            assert tokenizer.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)

    def test_special_tokens_are_left_out_unless_asked_for(self, tokenizer):
        ids = tokenizer.encode("a<|im_end|>b<think>")
        assert tokenizer.decode(ids) == "ab<think>"
        assert tokenizer.decode(ids, skip_special=False) == "a<|im_end|>b<think>"

    def test_saved_truncation_and_padding_are_ignored(self, tokenizer_folder, tokenizer_json):
        data = json.loads(tokenizer_json)
        data["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        tokenizer = Tokenizer(tokenizer_folder(**{"tokenizer.json": data}))
        assert tokenizer.decode(tokenizer.encode("The quick brown fox jumps")) == "The quick brown fox jumps"

    def test_tokens_only_in_the_config_are_added(self, tokenizer_folder, tokenizer):
        config = json.loads((tokenizer.folder / "tokenizer_config.json").read_text())
        config["added_tokens_decoder"] = {str(len(tokenizer)): {"content": "<box>", "special": True}}
        more = Tokenizer(tokenizer_folder(**{"tokenizer_config.json": config}))
        assert more.encode("a<box>b")[1] == len(tokenizer)
        assert more.decode(more.encode("a<box>b")) == "ab"
        config["added_tokens_decoder"] = {"3": {"content": "<box>", "special": True}}
        with pytest.raises(ConfigError, match="<box>"):
            Tokenizer(tokenizer_folder(**{"tokenizer_config.json": config}))

    def test_end_tokens_are_the_union(self, tokenizer_folder, tokenizer):
        im_end, text_end, vision_end = (
            tokenizer.id_of(t) for t in ("<|im_end|>", "<|endoftext|>", "<|vision_end|>")
        )
        assert tokenizer.eos_ids == (im_end,)
        files = {"generation_config.json": {"eos_token_id": [im_end, vision_end]}}
        files["config.json"] = {"eos_token_id": None, "text_config": {"eos_token_id": text_end}}
        assert Tokenizer(tokenizer_folder(**files)).eos_ids == tuple(sorted((im_end, text_end, vision_end)))

    def test_missing_or_broken(self, tmp_path):
        with pytest.raises(ConfigError, match="not found"):
            Tokenizer(tmp_path)
        (tmp_path / "tokenizer.json").write_text('{"model": 3}')
        with pytest.raises(ConfigError, match="not a tokenizer"):
            Tokenizer(tmp_path)


class TestStreamDecoder:
    def pieces(self, tokenizer, ids, chunk=1, **options):
        stream = StreamDecoder(tokenizer, **options)
        return [stream.push(ids[i : i + chunk]) for i in range(0, len(ids), chunk)] + [stream.finish()]

    @pytest.mark.parametrize("text", [*TEXTS, "🙂文🙂档é" * 3, "\ufffd real replacement \ufffd"])
    @pytest.mark.parametrize("chunk", [1, 3, 50])
    def test_pieces_join_to_the_whole(self, tokenizer, text, chunk):
        ids = tokenizer.encode(text)
        assert "".join(self.pieces(tokenizer, ids, chunk)) == tokenizer.decode(ids)
        whole = "".join(self.pieces(tokenizer, ids, chunk, skip_special=False))
        assert whole == tokenizer.decode(ids, skip_special=False)

    def test_no_half_characters(self, tokenizer):
        ids = tokenizer.encode("x𝛼𝛽y")  # four bytes each, not in the training text
        assert len(ids) > 4
        pieces = self.pieces(tokenizer, ids)
        assert not any("\ufffd" in piece for piece in pieces)
        assert [piece for piece in pieces if piece] == ["x", "𝛼", "𝛽", "y"]

    def test_random_bytes(self, tokenizer):
        for _ in range(200):
            ids = random.choices(range(len(tokenizer)), k=random.randint(1, 25))
            pieces = self.pieces(tokenizer, ids, random.randint(1, 4))
            assert "".join(pieces) == tokenizer.decode(ids)

    def test_finish_gives_the_rest(self, tokenizer):
        ids = tokenizer.encode("𝛼")[:-1]
        assert self.pieces(tokenizer, ids) == [""] * len(ids) + ["\ufffd"]


def test_expand_image_tokens():
    assert expand_image_tokens([1, 9, 2, 9, 3], 9, [3, 1]) == [1, 9, 9, 9, 2, 9, 3]
    assert expand_image_tokens([1, 2], 9, []) == [1, 2]
    for counts in ([3], [1, 1, 1]):
        with pytest.raises(InputError, match="2 places"):
            expand_image_tokens([9, 9], 9, counts)


QWEN_LIKE = """\
{%- set image_count = namespace(value=0) %}
{%- macro render_content(content, system) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if item.type == 'image' or 'image' in item %}
                {%- if system %}{{- raise_exception('System message cannot contain images.') }}{%- endif %}
                {%- set image_count.value = image_count.value + 1 %}
                {%- if add_vision_id %}{{- 'Picture ' ~ image_count.value ~ ': ' }}{%- endif %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif 'text' in item %}
                {{- item.text }}
            {%- else %}
                {{- raise_exception('Unexpected item type in content.') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}{{- raise_exception('No messages provided.') }}{%- endif %}
{%- if tools and tools is iterable %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = render_content(message.content, message.role == 'system') | trim %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('System message must be at the beginning.') }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}{{- content + '<|im_end|>\\n' }}{%- endgeneration %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

PLAIN = """\
{{ bos_token }}
{% for message in messages %}
    {% if message['role'] == 'tool' %}
        {% continue %}
    {% endif %}
[{{ message['role'] | upper }}] {{ message['content'] }} {{ message | tojson(indent=2) }}
    {% if loop.index >= 3 %}
        {% break %}
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}-> {{ eos_token }}{% endif %}

"""

DATED = "{{ strftime_now('%Y') }} {{ messages[0].content }} {{ image_token }} {{ dict(a=1) | tojson }}\n"

CHATS = {
    "page": [
        {"role": "system", "content": "You read pages & <tables>.\n"},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "  Read “this”.  "}]},
    ],
    "only image": [{"role": "user", "content": [{"type": "image"}]}],
    "turns": [
        {"role": "user", "content": "one", "name": None},
        {"role": "assistant", "content": "zwölf"},
        {"role": "user", "content": [{"type": "image"}, {"type": "image"}, {"type": "text", "text": "?"}]},
        {"role": "assistant", "content": "four"},
    ],
}


NAMED_TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|endoftext|>",
    "eos_token": {"content": "<|im_end|>", "__type": "AddedToken"},
    "image_token": "<|image_pad|>",
}
SWITCHES = [{}, {"enable_thinking": False}, {"add_vision_id": True, "tools": [{"a": "<&>"}]}]


class TestTemplate:
    @pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
    @pytest.mark.parametrize("source", [QWEN_LIKE, PLAIN, DATED], ids=["qwen", "plain", "dated"])
    def test_equals_transformers(self, tokenizer_folder, source, chat):
        folder = tokenizer_folder(**{"chat_template.jinja": source, "tokenizer_config.json": NAMED_TOKENS})
        ours, theirs = Tokenizer(folder), reference(folder)
        for add in (True, False):
            for switches in SWITCHES:
                options = {"add_generation_prompt": add, **switches}
                expected = theirs.apply_chat_template(chat, tokenize=False, **options)
                text = ours.render(chat, **options)
                assert text == expected
                assert ours.encode(text) == theirs.encode(expected, add_special_tokens=False)

    def test_a_page_prompt(self, tokenizer_folder):
        tokenizer = Tokenizer(tokenizer_folder(**{"chat_template.jinja": QWEN_LIKE}))
        assert tokenizer.render(CHATS["only image"], enable_thinking=False) == (
            "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\n"
        )

    def test_where_it_is_found(self, tokenizer_folder):
        def render(**files):
            return Tokenizer(tokenizer_folder(**files)).render([{"role": "user", "content": "x"}])

        named = [{"name": "rag", "template": "rag"}, {"name": "default", "template": "named"}]
        assert render(**{"tokenizer_config.json": {"chat_template": "config"}}) == "config"
        assert render(**{"tokenizer_config.json": {"chat_template": named}}) == "named"
        assert render(**{"chat_template.json": {"chat_template": "json"}}) == "json"
        assert render(**{"chat_template.jinja": "jinja"}) == "jinja"

    def test_none_is_an_error_with_a_cure(self, tokenizer):
        with pytest.raises(ConfigError, match=r"chat_template\.jinja"):
            tokenizer.render(CHATS["page"])

    def test_refusals_are_typed(self, tokenizer_folder):
        tokenizer = Tokenizer(tokenizer_folder(**{"chat_template.jinja": QWEN_LIKE}))
        with pytest.raises(ConfigError, match="cannot contain images"):
            tokenizer.render([{"role": "system", "content": [{"type": "image"}]}])
        with pytest.raises(ConfigError, match="JSON serializable"):
            tokenizer.render([{"role": "user", "content": [{"type": "image", "image": object()}]}])

    def test_syntax_error_names_the_line(self, tokenizer_folder):
        with pytest.raises(ConfigError, match="line 2") as caught:
            Tokenizer(tokenizer_folder(**{"chat_template.jinja": "x\n{% if %}"}))
        assert caught.value.path.endswith("chat_template.jinja")

    @pytest.mark.parametrize(
        "source",
        [
            "{{ messages.__class__.__mro__ }}",
            "{{ ''.__class__.__base__.__subclasses__() }}",
            "{% set ns = namespace(__class__='x') %}",
            "{% set ns = namespace() %}{% set ns._x = 1 %}",
            "{{ messages.append(1) }}",
        ],
    )
    def test_the_sandbox_holds(self, tokenizer_folder, source):
        tokenizer = Tokenizer(tokenizer_folder(**{"chat_template.jinja": source}))
        with pytest.raises(ConfigError):
            tokenizer.render(CHATS["page"])
