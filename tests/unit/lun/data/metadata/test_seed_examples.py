"""The two YAML examples of the program of 2022, word for word, against a generated set with its outcome written out."""

import pytest
import yaml
from support.board import put_board
from support.runs import make_pictures

from ldm.diffusion.draws import Draws
from ldm.util import instantiate_from_config
from lun.config.check import check
from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import Merged, load_layers

FLAT = """
train:
  target: lun.data.local.Local
  params:
    size: 512
    flip_p: 0.333
    mode: "train"
    # no metadata_params set
"""

METADATA = """
train:
  target: lun.data.local.Local
  params:
    size: 512
    flip_p: 0.333
    metadata_params: &train_metadata_params # <&so can merge this into validation below!
      # only check every nth .json in the metadata dir
      # good for validation set
      #consider_every_nth: 8
      # shuffle tags randomly in half the dataset
      shuffle_tag_p: 0.5
      # ignoring images with these tags
      blacklist_tags:
      - animated
      - machine learning generated
      # removing some tags which have no impact on the image contents from the caption
      non_caption_tags:
      - high res
      - alternate version
      - derpibooru exclusive
      - color edit
      # shortening some common multi word tags to reduce
      # how many tokens are used
      replacements:
        princess cadance: cadance
        princess luna: luna
        'artist:': 'by='
        # recommended if your dataset uses : in any tags
        # as by convention : is used for weighted prompts in most stable diffusion
        # txt2img frontend
        ':': '='
        ' ': '_'
      tag_separator: ' '
      # if score's below this it gets filtered out immediately
      abs_min_score: 50
      # if score's below this after applying tag_bonus_scores gets filtered out
      min_score: 200
      # add a tag based on the imageboard score
      # >3200 = scr3200, >1600 = scr1600, and so on
      score_tags: [ 3200, 1600, 800, 600, 400, 300, 200, 150, 100, 50, 25, 5 ]
      # increase or decrease the score used to check min_score
      # used to increase or decrease prevalence of particular tags
      tag_bonus_scores:
        # want to include more images with 1/2 chars exactly in dataset
        solo: 100
        duo: 100
        pride flag: 50
        # preferring full color art
        monochrome: -75
        grayscale: -75
        sketch: -75
"""

KINDLE = ["oc:kindle", "oc", "kirin", "artist:lulubell", "oc only", "solo", "safe"]

RECORDS = {
    "12/a/1": {"tags": KINDLE, "score": 155, "path": "images/287/2877648.png", "id": 2877648},
    "12/a/2": {"tags": ["princess luna", "high res", "safe"], "score": 3300, "path": "images/1/2.png"},
    "12/b/3": {"tags": ["solo", "animated"], "score": 9000, "path": "images/1/3.png"},
    "12/b/4": {"tags": ["solo", "sketch", "grayscale", "safe"], "score": 249, "path": "images/1/4.png"},
    "12/b/5": {"tags": ["solo", "sketch", "grayscale", "safe"], "score": 250, "path": "images/1/5.png"},
    "13/6": {"tags": ["solo", "duo", "pride flag"], "score": 49, "path": "images/1/6.png"},
    "13/7": {"tags": ["solo", "duo", "pride flag", "princess cadance"], "score": 50, "path": "images/1/7.png"},
    "13/8": {"tags": ["safe"], "score": 199, "path": "images/1/8.png"},
    "13/9": {"tags": ["machine learning generated"], "score": 500, "path": "images/1/9.png"},
}

SORTED = {
    "images/287/2877648.png": "by=lulubell kirin oc oc_only oc=kindle safe scr150 solo",
    "images/1/2.png": "luna safe scr3200",
    "images/1/5.png": "grayscale safe scr200 sketch solo",
    "images/1/7.png": "duo pride_flag cadance scr50 solo",
}


def built(text: str, root: object) -> object:
    """The data set that a config of 2022 means: as the program reads it, in today's spelling."""
    merged, _, faults = upgrade(Merged({"data": {"params": yaml.safe_load(text)}}))
    assert faults == []
    recipe = merged.config["data"]["params"]["train"]
    return instantiate_from_config({**recipe, "params": {**recipe["params"], "data_root": str(root)}})


@pytest.fixture
def board(tmp_path):
    return put_board(tmp_path, RECORDS)


def test_the_metadata_example_keeps_the_pictures_that_its_comments_promise(board):
    assert built(METADATA, board).names() == list(SORTED)


def test_the_metadata_example_writes_the_captions_that_its_comments_promise(board):
    data = built(METADATA, board)
    assert {data.name(i): data.caption(i) for i in range(len(data))} == SORTED


def test_the_metadata_example_shuffles_about_half_of_the_accesses(board):
    data = built(METADATA, board)
    captions = [data.caption(0, Draws(0, slot)) for slot in range(200)]
    usual = SORTED["images/287/2877648.png"]
    assert 80 < captions.count(usual) < 120
    assert all(sorted(caption.split()) == sorted(usual.split()) for caption in captions)
    assert len(set(captions)) > 70


def test_the_waterfall_of_the_metadata_example_counts_each_filter(board):
    steps = {step.name: step.count for step in built(METADATA, board).selection.waterfall.steps if step.count}
    assert steps == {"abs_min_score": 1, "min_score": 2, "blacklist_tags": 2}


def test_the_flat_example_reads_a_flat_folder(tmp_path):
    data = built(FLAT, make_pictures(tmp_path, 2))
    assert [(data.name(i), data.caption(i)) for i in range(2)] == [
        ("img/000.png", "red noise 0"),
        ("img/001.png", "green noise 1"),
    ]
    assert data.example(0, Draws(0, 0))["image"].shape == (512, 512, 3)


@pytest.mark.parametrize("example", [FLAT, METADATA])
def test_the_config_check_accepts_both_examples(tmp_path, example):
    body = "\n".join("    " + line for line in example.replace("size: 512", "size: 512\n    data_root: x").splitlines())
    file = tmp_path / "seed.yaml"
    file.write_text(
        "data:\n  target: lun.data.module.DataModuleFromConfig\n  params:\n    batch_size: 1\n" + body + "\n"
    )
    faults = [fault for fault in check(upgrade(load_layers([str(file)]))[0]) if "model" not in fault.what]
    assert faults == []


def test_validation_merges_the_anchor_and_takes_every_eighth(board):
    recipe = yaml.safe_load(METADATA)["train"]
    params = {**recipe["params"]["metadata_params"], "consider_every_nth": 8, "min_score": 100}
    data = instantiate_from_config(
        {**recipe, "params": {"size": 512, "data_root": str(board), "metadata_params": params}}
    )
    assert data.selection.waterfall.steps[0].count == 7
    assert data.names() == ["images/287/2877648.png"]


def test_the_shipped_overlay_for_boards_fits_the_config_it_lies_over(repo_root):
    files = [str(repo_root / "configs" / name) for name in ("training-txt2img.yaml", "data/metadata.yaml")]
    merged = load_layers(files)
    assert check(merged) == []
    splits = merged.config["data"]["params"]
    assert splits["train"]["params"]["split"] == splits["validation"]["params"]["split"]
    assert splits["train"]["params"]["metadata_params"] == splits["validation"]["params"]["metadata_params"]
