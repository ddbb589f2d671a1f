"""Which pictures of a folder are used: its layout is read, then one filter after the other."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

import numpy as np

from ldm.errors import Fault
from lun.data.index.listing import CAPTION_EXTENSIONS, stem
from lun.data.index.missing_data import Unusable, log_left_out, no_captions, none_left
from lun.data.index.sizes import file_states, image_sizes
from lun.data.index.store import path_keys
from lun.data.layouts.folder_contents import Asked, FolderContents, LayoutName
from lun.data.layouts.recognise import read_layout
from lun.data.metadata import filters
from lun.data.metadata.caption_files import CaptionReader
from lun.data.metadata.columns import Ragged, Strings
from lun.data.metadata.compose import TAG_RULES, split_tags
from lun.data.metadata.filters import Filter, Kept, Sizes
from lun.data.metadata.picture_table import Table
from lun.data.metadata.presence import Presence, as_on_disk
from lun.data.metadata.scores import with_score_tags
from lun.data.metadata.table_builder import NO_WORDS
from lun.data.metadata.waterfall import Waterfall, run

log = logging.getLogger(__name__)

Subset = Literal["train", "validation"]


class Split(TypedDict, total=False):
    """Which pictures are held back for validation: a hash of each path decides, so that new files move no other."""

    fraction: Required[float]
    """share of the pictures for validation"""
    by: Literal["hash"]
    seed: int
    """another number, another choice"""


@dataclass(frozen=True)
class SelectionCriteria:
    """What a config says about the pictures to use; `rules` are those of `metadata_params` and `captions`."""

    rules: Mapping[str, Any] = field(default_factory=dict)
    layout: LayoutName | None = None
    described: bool = False
    captions_required: bool = True
    split: Split | None = None
    subset: Subset | None = None
    limit: int | None = None
    follow_links: bool = False
    masked: bool = False

    @property
    def speaks_of_tags(self) -> bool:
        return bool(TAG_RULES & self.rules.keys())


@dataclass(frozen=True)
class Selection:
    """The pictures of `contents`, `rows` of which are used; the tags of `table` have those of scores among them."""

    root: Path
    contents: FolderContents
    table: Table
    waterfall: Waterfall
    tags_from_text: bool

    @property
    def rows(self) -> np.ndarray:
        return self.waterfall.rows


def select(data_root: str, choice: SelectionCriteria) -> Selection:
    """Read the folder and choose from it.

    Raises `Fault` DAT01 (no such folder), DAT02 (no picture left), DAT03 (no layout), DAT04 (no captions), DEP01.
    """
    root = Path(data_root).expanduser()
    read = CaptionReader(several=True) if choice.described else None
    endings = choice.rules.get("files", CAPTION_EXTENSIONS)
    asked = Asked(read, choice.described, choice.follow_links, choice.masked, endings)
    contents = read_layout(root, choice.layout, asked)
    plain = contents.layout in ("flat", "sidecar", "kohya")
    tags_from_text = choice.speaks_of_tags and (plain or not len(contents.table.tags.values))
    table = as_on_disk(root, contents.table) if contents.paths_from_metadata else contents.table
    if plain and not choice.rules.get("several_captions"):
        table = dataclasses.replace(table, text=table.text.on_one_line())
    if tags_from_text:
        table = _with_tags_of_text(table, choice.rules)
    described = table
    if thresholds := choice.rules.get("score_tags"):
        table = with_score_tags(table, thresholds)
    chain = list(_chain(root, contents, described, choice))
    waterfall = run(table, chain)
    selection = Selection(root, contents, table, waterfall, tags_from_text)
    _log(selection)
    return selection


def _with_tags_of_text(table: Table, rules: Mapping[str, Any]) -> Table:
    """Captions that are lists of tags, as tags that filters can ask for."""
    separator, keep = rules.get("split_tags", ","), rules.get("keep_separator")
    numbers: dict[str, int] = {word: number for number, word in enumerate(table.words)}  # ratings stay what they are
    tags = [
        [
            numbers.setdefault(tag, len(numbers))
            for line in text.split("\n")
            for tag in split_tags(line, separator, keep)
        ]
        for text in table.text
    ]
    flat = np.array([number for row in tags for number in row], np.int32)
    return dataclasses.replace(table, tags=Ragged.of(flat, [len(row) for row in tags]), vocabulary=Strings.of(numbers))


def _chain(root: Path, contents: FolderContents, described: Table, choice: SelectionCriteria) -> list[Filter]:
    rules = choice.rules
    made: list[Filter] = []
    if nth := rules.get("consider_every_nth"):
        made.append(filters.every_nth(nth))
    if contents.paths_from_metadata:
        made += [*filters.whole(), *Presence(root, choice.follow_links).filters()]
    if choice.split is not None:
        made.append(_subset(choice.split, choice.subset))
    elif choice.subset is not None:
        what = f"subset: {choice.subset} says which part of a split, and there is no split"
        raise Fault("CFG08", what, fix="split: {fraction: 0.02}   beside it, or without subset")
    made += _by_metadata(rules, _sizes(root, described), described)
    if choice.captions_required and not rules.get("skip_caption"):
        made.append(Filter("no_caption", "without a caption", lambda table, _: has_caption(table)))
    if choice.limit is not None:
        made.append(_limited(choice.limit))
    return made


def _by_metadata(rules: Mapping[str, Any], sizes: Sizes, described: Table) -> list[Filter]:
    """The filters of `metadata_params` in the order in which they are asked."""
    makers: dict[str, Callable[[Any], Filter]] = {
        "aspect_range": lambda given: filters.aspect_range(given[0], given[1], sizes),
        "min_size": lambda given: filters.min_size(given, sizes),
        "abs_min_score": filters.abs_min_score,
        "ratings": filters.ratings,
        "dates": lambda _: filters.date_range(rules.get("min_date"), rules.get("max_date")),
        "custom_filter": lambda given: _blind_to_scores(filters.custom_filter(given), described),
        "min_score": lambda given: filters.min_score(given, rules.get("tag_bonus_scores", {})),
        "blacklist_tags": filters.blacklist_tags,
        "require_tags": filters.require_tags,
    }
    asked = {**rules, "dates": True} if rules.keys() & {"min_date", "max_date"} else rules
    first = {
        "aspect_range": filters.readable(sizes, "aspect_range" in asked, "min_size" in asked),
        "abs_min_score": filters.scored(),
        "ratings": filters.rated(),
        "dates": filters.dated(),
    }
    first |= {"min_size": first["aspect_range"], "min_score": first["abs_min_score"]}
    made: dict[str, Filter] = {}  # what lacks the value that a filter asks about is marked, once
    for name in makers:
        if name in asked:
            chain = [first[name]] if name in first else []
            made |= {one.name: made.get(one.name, one) for one in [*chain, makers[name](asked[name])]}
    return list(made.values())


def _blind_to_scores(one: Filter, described: Table) -> Filter:
    """A filter that is asked about the tags as described, before those of scores were added."""
    return dataclasses.replace(one, keep=lambda _, left: one.keep(described, left))


def _sizes(root: Path, table: Table) -> Sizes:
    known: dict[int, np.ndarray] = {}

    def sizes(rows: np.ndarray) -> np.ndarray:
        new = [row for row in rows.tolist() if row not in known]
        names = [table.path[row] for row in new]
        known.update(zip(new, image_sizes(root, names, file_states(root, names)), strict=True))
        return np.array([known[row] for row in rows.tolist()], np.int32).reshape(-1, 2)

    return sizes


def has_caption(table: Table) -> Kept:
    """(n,): whether there are words, or a file of the picture's own for them, which may be empty"""
    has_words = ~table.text.empty | (table.tags.lengths > 0)
    describes_many = bool(table.line.any())
    has: Kept = has_words if describes_many else has_words | (~table.source.empty & (table.problem != NO_WORDS))
    return has


def _subset(split: Split, subset: Subset | None) -> Filter:
    fraction = split["fraction"]
    if not 0 < fraction < 1:
        raise Fault("CFG08", f"split.fraction cannot be {fraction!r}", why="it takes a share between 0 and 1")
    if subset is None:
        raise Fault(
            "CFG08",
            "split needs to know which part is meant",
            why="train and validation share this folder",
            fix="subset: train   in data.params.train.params, subset: validation   in data.params.validation.params",
        )
    salt = f"split/{split.get('seed', 0)}/"

    def keep(table: Table, left: Kept) -> Kept:
        held = path_keys(salt + stem(path) for path in table.path) < np.uint64(int(fraction * 2**64))
        return held if subset == "validation" else ~held

    return Filter("subset", "held for validation" if subset == "train" else "of the training part", keep)


def _limited(limit: int) -> Filter:
    """A subset that depends on the names alone, so that it stays put when a few files come or go."""

    def keep(table: Table, left: Kept) -> Kept:
        rows = np.flatnonzero(left).tolist()
        lot = {
            row: hashlib.sha256(b"limit_images/" + table.path[row].encode("utf-8", "surrogatepass")).digest()
            for row in rows
        }
        kept = np.zeros(len(table), bool)
        kept[sorted(rows, key=lot.__getitem__)[:limit]] = True
        return kept

    return Filter("limit_images", "beyond limit_images", keep)


def _log(selection: Selection) -> None:
    """Layout and waterfall in short, or the `Fault` of a set in which nothing is left."""
    contents, waterfall = selection.contents, selection.waterfall
    hidden = f", {contents.skipped:,} hidden files skipped" if contents.skipped else ""
    log.info(
        "layout   %s: %s%s%s",
        selection.root,
        contents.words,
        hidden,
        " (known from an earlier start)" * contents.reused,
    )
    _warn_of_unread(contents)
    steps = {step.name: step for step in waterfall.steps}
    if "no_caption" in steps and steps["no_caption"].count:
        without = np.flatnonzero(waterfall.removed_by == list(steps).index("no_caption"))
        asked = len(without) + waterfall.left + (steps["limit_images"].count if "limit_images" in steps else 0)
        names = [selection.table.path[row] for row in without[:4].tolist()]
        if len(without) == asked:
            raise Unusable(no_captions(selection.root, asked, contents, names[0]), selection)
        log_left_out(asked, len(without), names, contents)
    if not waterfall.left:
        raise Unusable(none_left(selection.root, contents, waterfall, selection.table), selection)
    if waterfall.left < waterfall.total:
        log.info("usable   %s", waterfall.short())


def _warn_of_unread(contents: FolderContents) -> None:
    """How many files beside the pictures have no use, by reason, and one of each."""
    reasons = Counter(reason for _, reason in contents.unread)
    first = {reason: path for path, reason in reversed(contents.unread)}
    if reasons:
        reasons_in_words = ", ".join(
            f"{count:,} x {reason} ({first[reason]})" for reason, count in reasons.most_common()
        )
        log.info("unread   %s", reasons_in_words)
