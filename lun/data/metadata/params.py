"""The keys of `metadata_params` and `captions`, with their types: what a config may say about filters and captions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from ldm.errors import Fault

log = logging.getLogger(__name__)

Words = Literal["tags", "text", "tags+text", "text+tags", "either"]


class CaptionParams(TypedDict, total=False):
    """How a caption is made of tags and text, anew at each access."""

    skip_caption: bool | None
    """every caption is empty"""
    words: Words | None
    """what captions are made of; `either` draws one"""
    text_p: float | None
    """with `either`: the chance of the text, 0.5"""
    files: list[str] | None
    """endings of caption files, such as `[txt, caption2]`: where a picture has several, a caption of one is drawn"""
    several_captions: bool | None
    """each line of a caption file is a caption of its own, one of which is drawn"""
    caption_separator: str | None
    """what stands between several captions in one text, one of which is drawn, such as `%%`"""
    wildcards: bool | None
    """`{red|blue}` in a text is one of both, drawn at each access; `{{` and `}}` are braces"""
    split_tags: str | None
    """what stands between tags in caption files; with it their text is a list of tags"""
    non_caption_tags: list[str | bool] | None
    """tags left out of captions"""
    non_caption_tag_prefixes: list[str | bool] | None
    """tags left out of captions by their beginning"""
    tag_order: Literal["sorted", "as_written"] | None
    """by default sorted where tags come as a list, as written where they come as text"""
    caption_sorter: Callable[[str], Any] | None
    """the key by which tags are sorted, as a recipe"""
    shuffle_tag_p: float | None
    """the chance that the tags come in a random order instead"""
    keep_tags: int | None
    """so many tags at the beginning stay in place and are never dropped"""
    keep_separator: str | None
    """a tag such as `|||`: what stands before it (and after a second one) stays in place and is never dropped"""
    tag_dropout_p: float | None
    """the chance of each tag to be left out"""
    tag_dropout: Mapping[str, float] | None
    """tag -> its own chance"""
    prefix_dropout: Mapping[str, float] | None
    """beginning of a tag -> the chance of each such tag"""
    tag_warmup_steps: int | None
    """optimizer steps over which the tags of captions grow from the first `tag_warmup_min` to all; before shuffling"""
    tag_warmup_min: int | None
    """how many tags captions begin with, 1, besides those that are kept"""
    replacements: Mapping[str, str] | None
    """text -> text, in this order; `||tag||` means a whole tag"""
    tag_separator: str | None
    """what stands between tags of a caption, `, `"""
    final_tag_separator: bool | None
    """one more separator at the end"""
    trigger: str | None
    """words that call a subject up: in the place of `[trigger]` in a text, else first unless it has them"""
    prefix: str | None
    """text before every caption"""
    suffix: str | None
    """text after every caption"""


class MetadataParams(CaptionParams, total=False):
    """Which pictures are used, and how their captions are made."""

    consider_every_nth: int | None
    """of all descriptions, in the order of their names, the first, then every nth"""
    aspect_range: list[float] | None
    """[least, most] width / height"""
    min_size: int | None
    """pixels of the shorter side"""
    abs_min_score: float | None
    """on the score as it is"""
    ratings: list[str | bool] | None
    """only these"""
    min_date: str | None
    """only pictures from this day or moment on, such as 2022-09-01"""
    max_date: str | None
    """only pictures before this day or moment"""
    custom_filter: Callable[[list[str]], bool] | None
    """a recipe for a function of the list of tags, false for pictures to leave out"""
    score_tags: list[int | float] | None
    """adds the tag `scr800` for the highest of these that the score reaches"""
    tag_bonus_scores: Mapping[str, float] | None
    """tag -> what it adds to the score that `min_score` looks at"""
    min_score: float | None
    """on the score with the bonuses of tags"""
    blacklist_tags: list[str | bool] | None
    """pictures with any of these are left out"""
    require_tags: list[str | bool] | None
    """pictures without one of these are left out"""


_SPELLINGS = {True: ("yes", "on", "true", "y"), False: ("no", "off", "false", "n")}
_LEAST = {"consider_every_nth": 1, "keep_tags": 0, "tag_warmup_steps": 1, "tag_warmup_min": 0}
_CHANCES = ("shuffle_tag_p", "tag_dropout_p", "text_p")


def checked(given: Mapping[str, Any] | None, of: type[CaptionParams], name: str) -> dict[str, Any]:
    """What was given without empty settings, lists of tags as text. Raises `Fault` CFG03 or CFG08."""
    params = {key: value for key, value in (given or {}).items() if value is not None}
    known = of.__annotations__.keys() | CaptionParams.__annotations__.keys()
    for key, value in params.items():
        if key not in known:
            raise Fault("CFG03", f"unknown setting {name}.{key}", why=f"it takes: {', '.join(sorted(known))}")
        if key in _TAGS:
            params[key] = tags_given(value, f"{name}.{key}")
        _check_value(key, value, f"{name}.{key}")
    _log_idle(params, name)
    return params


_NEEDS: Mapping[str, tuple[tuple[str, ...], Any]] = {
    "text_p": (("words",), "either"),
    "tag_bonus_scores": (("min_score",), None),
    "keep_tags": (("shuffle_tag_p", "tag_dropout_p", "tag_dropout", "prefix_dropout", "tag_warmup_steps"), None),
    "tag_warmup_min": (("tag_warmup_steps",), None),
}
"""Setting -> without which others it says nothing, and the value that these have to have (None: any)."""


def _log_idle(params: Mapping[str, Any], name: str) -> None:
    for key, (others, value) in _NEEDS.items():
        if key in params and not any(other in params and value in (None, params[other]) for other in others):
            wanted = " or ".join(others) if value is None else f"{others[0]}: {value}"
            log.warning("warning[CFG08]: %s.%s has no effect without %s", name, key, wanted)


_TAGS = ("ratings", "blacklist_tags", "require_tags", "non_caption_tags", "non_caption_tag_prefixes")


def tags_given(values: Sequence[Any], where: str) -> list[str]:
    """Tags as text. A truth value was a word such as `no` that YAML took for one: all its spellings are meant."""
    tags: list[str] = []
    for value in values:
        if isinstance(value, bool):
            spellings = _SPELLINGS[value]
            log.warning(
                "warning[CFG08]: %s: YAML reads a bare %s as %s, so that all of these are taken as tags; "
                'write "%s" in quotes for one of them',
                where,
                " or ".join(spellings[:3]),
                str(value).lower(),
                spellings[0],
            )
            tags += spellings
        else:
            tags.append(str(value))
    return tags


def _check_value(key: str, value: Any, where: str) -> None:
    chances = value.values() if key in ("tag_dropout", "prefix_dropout") else [value] if key in _CHANCES else []
    if not all(0 <= chance <= 1 for chance in chances):
        raise Fault("CFG08", f"{where} cannot be {value!r}", why="it takes probabilities, 0 to 1")
    if key in _LEAST and value < _LEAST[key]:
        raise Fault("CFG08", f"{where} cannot be {value!r}", why=f"it takes a number from {_LEAST[key]} on")
    if key == "files":
        _check_endings(value, where)
    if key == "aspect_range" and (len(value) != 2 or not 0 < value[0] <= value[1]):
        raise Fault("CFG08", f"{where} cannot be {value!r}", why="it takes [least, most] width / height")


def _check_endings(endings: Any, where: str) -> None:
    pictures = ("png", "jpg", "jpeg", "bmp", "webp", "avif", "tif", "tiff", "gif")
    sound = [one for one in endings if isinstance(one, str) and one.isidentifier() and one.islower()]
    if not endings or len(set(sound)) < len(endings) or set(sound) & set(pictures):
        why = "it takes endings of text files in small letters without a dot, each once: [txt, caption2]"
        raise Fault("CFG08", f"{where} cannot be {endings!r}", why=why)


def merged_rules(metadata: Mapping[str, Any] | None, captions: Mapping[str, Any] | None) -> dict[str, Any]:
    """Both maps in one. Raises `Fault` CFG08 where they say different things."""
    merged = checked(metadata, MetadataParams, "metadata_params")
    for key, value in checked(captions, CaptionParams, "captions").items():
        if merged.get(key, value) != value:
            raise Fault("CFG08", f"{key} stands in metadata_params and in captions", why="with different values")
        merged[key] = value
    if "files" in merged and metadata is not None:
        why = "descriptions have their captions in themselves, as a list where there are several"
        raise Fault("CFG08", "captions.files has no effect beside metadata_params", why=why, fix="one of both")
    return merged
