"""Every setting of a folder of pictures, of its filters and of its captions changes what is trained on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.board import put_board
from support.described import described
from support.profiles import DISPLAY_P3

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.config.signature import accepted_by
from lun.data.local import Local
from lun.data.metadata.params import CaptionParams, MetadataParams
from lun.data.one_set import OneSet
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packed_captions import PackedCaptionParams
from lun.data.packs.packing import Packing, PackSettings

TAGS = ["solo", "artist:kim", "red fox", "snow"]
OTHER: Mapping[str, Any] = {
    "size": 4,
    "interpolation": "lanczos",
    "flip_p": 1.0,
    "crop": False,
    "metadata_params": {"min_score": 150},
    "limit_images": 3,
    "layout": "flat",
    "captions": {"prefix": "by hand, "},
    "split": {"fraction": 0.5},
    "subset": "train",
    "repeats": 3,
    "folder_weights": {"img": 0.5},
    "default_caption": "a picture",
    "allow_empty_captions": True,
    "mask": "alpha",
    "icc": "ignore",
    "decode": "exact",
    "colour_jitter": {"hue": 0.2},
    "rotate": 20.0,
    "follow_links": True,
    "caption_per_encoder": True,
}
"""Another value of each parameter of `Local`; the folder of `data_root` is the same."""
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "decode": {"size": 2},
    "split": {"subset": "train", "split": {"fraction": 0.01}},
    "subset": {"subset": "validation", "split": {"fraction": 0.5}},
}
RULES: Mapping[str, Any] = {
    "skip_caption": True,
    "words": "text+tags",
    "text_p": 0.0,
    "several_captions": True,
    "caption_separator": ",",
    "wildcards": True,
    "split_tags": " ",
    "non_caption_tags": ["snow"],
    "non_caption_tag_prefixes": ["artist:"],
    "tag_order": "as_written",
    "caption_sorter": len,
    "shuffle_tag_p": 1.0,
    "keep_tags": 2,
    "keep_separator": "red fox",
    "tag_dropout_p": 0.5,
    "tag_dropout": {"solo": 1.0},
    "prefix_dropout": {"artist:": 1.0},
    "tag_warmup_steps": 4,
    "tag_warmup_min": 2,
    "replacements": {"artist:": "by "},
    "tag_separator": " | ",
    "final_tag_separator": True,
    "trigger": "sks",
    "files": ["txt", "caption2"],
    "prefix": "x ",
    "suffix": " y",
    "consider_every_nth": 2,
    "aspect_range": [0.9, 1.1],
    "min_size": 9,
    "abs_min_score": 150,
    "ratings": ["safe"],
    "min_date": "2022-09-03",
    "max_date": "2022-09-03",
    "custom_filter": lambda tags: "number 2" not in tags,
    "score_tags": [100, 200],
    "tag_bonus_scores": {"number 1": 1000.0},
    "min_score": 150,
    "blacklist_tags": ["number 1"],
    "require_tags": ["number 1"],
}
"""A value of each filter and each rule for captions, none of which are there otherwise."""
RULES_BESIDE: Mapping[str, Mapping[str, Any]] = {
    "decode": {"size": 2},
    "text_p": {"words": "either", "text_p": 1.0},
    "keep_tags": {"shuffle_tag_p": 1.0},
    "tag_warmup_min": {"tag_warmup_steps": 4},
    "tag_bonus_scores": {"min_score": 350},
}
OF_TEXT = (
    "split_tags",
    "several_captions",
    "caption_separator",
    "wildcards",
    "files",
    "default_caption",
    "allow_empty_captions",
)
"""Settings of captions that are text, tried on a folder with text files."""


def picture(file: Path, number: int) -> None:
    pixels = np.random.default_rng(number).integers(0, 256, (12, 8 + 2 * number, 4), dtype=np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file, icc_profile=DISPLAY_P3)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several shapes, each with a description."""
    root = tmp_path_factory.mktemp("board")
    records = {}
    for number in range(6):
        name = f"img/{number}.png"
        about = {"score": 100 * number, "rating": "safe" if number % 2 else "other", "date": f"2022-09-0{number + 1}"}
        size = {"width": 8 + 2 * number, "height": 12}
        records[str(number)] = {
            "path": name,
            "tags": [*TAGS, f"number {number}"],
            "text": "A fox.",
            "caption_2": "A fox in snow.",
            **about,
            **size,
        }
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "6.png"
    picture(elsewhere, 6)
    (root / "6.png").symlink_to(elsewhere)
    records["6"] = {"path": "6.png", "tags": TAGS}
    put_board(root, records, pictures=False)
    for number in range(6):
        picture(root / f"img/{number}.png", number)
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with caption files of two lines, one picture without."""
    root = tmp_path_factory.mktemp("folder")
    for number in range(6):
        picture(root / f"{number}.png", number)
        if number:
            (root / f"{number}.txt").write_text(f"solo, {{red|grey}} fox, number {number}\nA fox.\n")
    (root / "1.caption2").write_text("another, caption")
    return root


def seen(root: Path, params: Mapping[str, Any]) -> Any:
    """What training would see of a folder: pictures, captions and how much each counts."""
    local = Local(str(root), **{"size": 8, "flip_p": 0.0, **params})
    turns = [(index, turn) for index in range(len(local)) for turn in range(3)]
    examples = [local.example(index, Draws(0, 10 * index + turn, step=turn)) for index, turn in turns]
    return described((local.names(), examples, local.repeats(), local.weights()))


def outcome(root: Path, params: Mapping[str, Any]) -> Any:
    try:
        return seen(root, params)
    except Fault as error:
        return str(error)


def test_every_setting_has_another_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert accepted_by(Local).parameters.keys() == {"data_root"} | OTHER.keys()
    assert MetadataParams.__annotations__.keys() | CaptionParams.__annotations__.keys() == RULES.keys()
    with capsys.disabled():
        print(f"\n{len(OTHER)} settings of a folder, {len(RULES)} of filters and captions tried")


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_of_a_folder_has_its_effect(name: str, board: Path, folder: Path) -> None:
    root = folder if name in OF_TEXT else board
    beside = {"metadata_params": {}, **BESIDE.get(name, {})} if root == board else dict(BESIDE.get(name, {}))
    plain = outcome(root, beside)
    assert not isinstance(plain, str), plain
    assert outcome(root, {**beside, name: OTHER[name]}) != plain


@pytest.mark.parametrize("name", RULES)
def test_a_filter_or_a_rule_for_captions_has_its_effect(
    name: str, board: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, where = (folder, "captions") if name in OF_TEXT else (board, "metadata_params")
    beside = {**({} if root == board else {"split_tags": ","}), **RULES_BESIDE.get(name, {})}
    caplog.set_level(logging.WARNING)
    plain = outcome(root, {where: beside})
    assert not isinstance(plain, str), plain
    assert outcome(root, {where: {**beside, name: RULES[name]}}) != plain
    assert "has no effect" not in caplog.text


OF_SHARDS = {"window": 2, "cache_dir": "cache", "cache_gb": 1.0}
"""Those of a packed set alone; a cache is refused for one in a folder."""
OF_PACKED = accepted_by(PackedSet).parameters.keys() - {"data_root"}


@pytest.fixture(scope="module")
def packed(board: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Both folders as packed sets."""
    root, small = tmp_path_factory.mktemp("packed"), PackSettings(1, "given")
    Packing(Local(str(board), metadata_params={}), FolderDestination(root / "board"), small).run()
    Packing(Local(str(folder), allow_empty_captions=True), FolderDestination(root / "folder"), small).run()
    return {"board": root / "board", "folder": root / "folder"}


def seen_packed(root: Path, params: Mapping[str, Any]) -> Any:
    """What training would see of a packed set, and whether it is the same to a resumed run."""
    try:
        found = PackedSet(str(root), **{"size": 8, "flip_p": 0.0, **params})
        indices = [index for index in range(len(found)) for _ in range(3)]
        examples = [
            found.example(index, Draws(0, 10 * index + turn, step=turn % 3)) for turn, index in enumerate(indices)
        ]
    except Fault as fault:
        return fault.id
    return described((examples, OneSet(found, None).fingerprint()))


@pytest.mark.parametrize("name", sorted(OF_PACKED))
def test_a_setting_of_a_packed_set_has_its_effect(name: str, packed: Mapping[str, Path]) -> None:
    root = packed["folder" if name in OF_TEXT else "board"]
    other, beside = {**OTHER, **OF_SHARDS}[name], BESIDE.get(name, {})
    assert seen_packed(root, {**beside, name: other}) != seen_packed(root, beside)


@pytest.mark.parametrize("name", sorted(PackedCaptionParams.__annotations__.keys() | CaptionParams.__annotations__))
def test_a_rule_for_captions_of_a_packed_set_has_its_effect(name: str, packed: Mapping[str, Path]) -> None:
    of_text = name in OF_TEXT
    beside = {**({"split_tags": ","} if of_text else {}), **RULES_BESIDE.get(name, {})}
    more: dict[str, Any] = {"allow_empty_captions": True}
    root = packed["folder" if of_text else "board"]
    plain = seen_packed(root, {**more, "captions": beside})
    assert not isinstance(plain, str), plain
    assert seen_packed(root, {**more, "captions": {**beside, name: RULES[name]}}) != plain
