"""What the rows of a drafter's block may see, layer by layer."""

from dataclasses import dataclass

from ocria.errors import ConfigError

MAX_WINDOW_LAYERS = 28
"""Layers before the first sliding one where a file does not say (Qwen3Config)."""
_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class LayerRule:
    """What the block's rows see in one layer, beside all of the context that the window reaches.

    window: rows that a query reaches back, itself included, None for all; causal: inside the block nothing behind the
    query, otherwise the rows behind it too, as far as the window reaches.
    """

    window: int | None
    causal: bool


def layer_rules(
    count: int,
    *,
    layer_types: list[str] | None = None,
    sliding_window: int | None = None,
    use_sliding_window: bool | None = None,
    max_window_layers: int = MAX_WINDOW_LAYERS,
    is_causal: bool | None = None,
    causal: bool | None = None,
    use_swa: bool | None = None,
    swa_window_size: int | None = None,
) -> tuple[LayerRule, ...]:
    """The rules of `count` layers from the keys of a configuration, None where a key is missing.

    The rule inside the block stands in three places. The first of them that is there decides: `is_causal`, then
    `causal` of dflash_config, both for all layers; then the layer type, where sliding means causal. `use_swa` makes
    all layers slide where no layer type does, and by their type these are not causal. Raises ConfigError for an
    unknown layer type and for keys that contradict each other.
    """
    if layer_types is None:  # the rule of Qwen3Config
        slides = bool(use_sliding_window) and sliding_window is not None
        layer_types = [_SLIDING if slides and i >= max_window_layers else _FULL for i in range(count)]
    odd = [kind for kind in layer_types if kind not in (_FULL, _SLIDING)]
    if odd:
        raise ConfigError(f"unknown layer type {odd[0]!r}", cure=f"Known types: {_FULL}, {_SLIDING}.")
    if len(layer_types) != count:
        raise ConfigError(f"{len(layer_types)} layer_types for {count} layers")

    sliding = [kind == _SLIDING for kind in layer_types]
    explicit = causal if is_causal is None else is_causal
    inside = sliding if explicit is None else [explicit] * count
    if any(sliding):
        for name, value in (("use_swa", use_swa), ("use_sliding_window", use_sliding_window)):
            if value is False:
                raise ConfigError(f"{name} is false, and layer_types has {_SLIDING}")
    elif use_swa:
        sliding = [True] * count
    window = _window(sliding_window, swa_window_size) if any(sliding) else None
    return tuple(LayerRule(window if slides else None, rule) for slides, rule in zip(sliding, inside, strict=True))


def _window(sliding_window: int | None, swa_window_size: int | None) -> int:
    given = {value for value in (sliding_window, swa_window_size) if value is not None}
    if len(given) > 1:
        raise ConfigError(f"sliding_window is {sliding_window}, and swa_window_size {swa_window_size}")
    if not given:
        raise ConfigError("layers slide, and neither sliding_window nor swa_window_size is given")
    (window,) = given
    if window < 1:
        raise ConfigError(f"a sliding window of {window} rows holds not even the query's own")
    return window
