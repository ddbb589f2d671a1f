"""A folder of the user's own: layouts, names, captions, subsets, fingerprint, and what is said when it is wrong."""

import json
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.board import put_board

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.dataset_protocol import FullDataset
from lun.data.index.listing import EXTENSIONS
from lun.data.local import Local
from lun.data.metadata.params import MetadataParams, checked
from lun.data.overlap import warn_of_overlap
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings


def put(root: Path, *names: str) -> Path:
    """Files below `root`: pictures for image names, the path as text for the others."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in {".png", ".jpg", ".jpeg", ".bmp", ".webp"}:
            Image.new("RGB", (6, 4)).save(path)
        else:
            path.write_text(name)
    return root


def fault(**params: object) -> Fault:
    with pytest.raises(Fault) as caught:
        Local(**params)
    return caught.value


def captions(data: Local) -> list[str]:
    return [data.caption(index) for index in range(len(data))]


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("img/a.png", "txt/a.txt"),
        ("images/a.png", "captions/a.txt"),
        ("a.png", "a.txt"),
        ("img/a.png", "img/a.txt"),
    ],
)
def test_each_flat_layout_pairs_image_and_caption(tmp_path, image, text):
    data = Local(str(put(tmp_path, image, text)), size=4)
    assert data.names() == [image]
    assert captions(data) == [text]


def test_extensions_count_in_any_case_and_others_do_not(tmp_path):
    names = ["a.PNG", "b.Jpg", "c.jpeg", "d.BMP", "e.webp"]
    put(tmp_path, *names, "f.mp4", "Thumbs.db", ".hidden.png", "._a.png", *(f"{stem}.txt" for stem in "abcdef"))
    assert Local(str(tmp_path)).names() == names


def test_the_stem_ends_at_the_last_dot(tmp_path):
    data = Local(str(put(tmp_path, "a.b.png", "a.txt", "a.b.txt")))
    assert captions(data) == ["a.b.txt"]


def test_the_spelling_up_to_the_first_dot_is_not_used(tmp_path):
    assert fault(data_root=str(put(tmp_path, "a.b.png", "a.txt"))).id == "DAT04"


def test_an_example_has_the_asked_size_and_its_caption(tmp_path):
    data = Local(str(put(tmp_path, "a.png", "a.txt")), size=8)
    example = data.example(0, Draws(0, 0))
    assert example["image"].shape == (8, 8, 3)
    assert example["image"].dtype == torch.uint8
    assert example["caption"] == "a.txt"


def test_the_slot_decides_about_the_flip(tmp_path):
    put(tmp_path, "a.txt")
    image = Image.new("RGB", (4, 4))
    image.paste("white", (0, 0, 2, 4))
    image.save(tmp_path / "a.png")
    data = Local(str(tmp_path), size=4)
    flipped = [data.example(0, Draws(0, slot))["image"][0, 0, 0].item() < 128 for slot in range(64)]
    again = [data.example(0, Draws(0, slot))["image"][0, 0, 0].item() < 128 for slot in range(64)]
    assert flipped == again
    assert 16 < sum(flipped) < 48


@pytest.mark.parametrize(("flip_p", "flipped"), [(0.0, False), (1.0, True)])
def test_flip_p_at_its_ends_is_certain(tmp_path, flip_p, flipped):
    put(tmp_path, "a.txt")
    image = Image.new("RGB", (2, 2))
    image.paste("white", (0, 0, 1, 2))
    image.save(tmp_path / "a.png")
    data = Local(str(tmp_path), size=2, flip_p=flip_p)
    assert all((data.example(0, Draws(0, slot))["image"][0, 0, 0].item() < 128) is flipped for slot in range(8))


def test_images_without_caption_are_left_out_and_told(tmp_path, caplog):
    put(tmp_path, "img/a.png", "img/b.png", "txt/a.txt")
    with caplog.at_level(logging.WARNING):
        assert Local(str(tmp_path)).names() == ["img/a.png"]
    assert caplog.records[0].getMessage() == (
        "warning[DAT04]: 1 of 2 images (50 %) have no caption and are left out\n"
        "  why:   img/b.png; looked for txt/b.txt\n"
        '  fix:   one text for them: data.params.train.params.default_caption="photo of sks cat"'
    )


def test_a_default_caption_serves_where_there_is_none(tmp_path):
    data = Local(str(put(tmp_path, "a.png", "b.png", "a.txt")), default_caption="a cat")
    assert captions(data) == ["a.txt", "a cat"]


def test_empty_captions_are_allowed_on_purpose(tmp_path):
    assert captions(Local(str(put(tmp_path, "a.png")), allow_empty_captions=True)) == [""]


def test_a_subset_is_the_same_whatever_the_order_of_the_listing(tmp_path, monkeypatch):
    put(tmp_path, *(f"{number}.png" for number in range(9)))
    first = Local(str(tmp_path), allow_empty_captions=True, limit_images=4).names()
    original = os.scandir

    class Backwards:
        def __init__(self, path: str) -> None:
            with original(path) as entries:
                self.entries = list(entries)[::-1]

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Backwards)
    assert Local(str(tmp_path), allow_empty_captions=True, limit_images=4).names() == first == sorted(first)
    assert len(first) == 4


def test_a_subset_is_not_just_the_first_names(tmp_path):
    put(tmp_path, *(f"{number:02}.png" for number in range(20)))
    data = Local(str(tmp_path), allow_empty_captions=True, limit_images=5)
    assert data.names() != [f"{number:02}.png" for number in range(5)]


def test_two_layouts_at_once_are_told(tmp_path, caplog):
    put(tmp_path, "img/a.png", "img/a.txt", "b.png", "b.txt")
    with caplog.at_level(logging.WARNING):
        assert Local(str(tmp_path)).names() == ["img/a.png"]
    assert f"1 images in {tmp_path} are not read" in caplog.text


def test_the_fingerprint_follows_names_and_sizes_but_not_place_time_or_captions(tmp_path):
    put(tmp_path / "one", "a.png", "a.txt")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    os.utime(tmp_path / "two" / "a.png", (1, 1))
    (tmp_path / "two" / "a.txt").write_text("other")
    known = Local(str(tmp_path / "one")).fingerprint()
    assert Local(str(tmp_path / "two")).fingerprint() == known
    with (tmp_path / "two" / "a.png").open("ab") as file:
        file.write(b"x")
    assert Local(str(tmp_path / "two")).fingerprint() != known
    (tmp_path / "one" / "a.png").rename(tmp_path / "one" / "b.png")
    (tmp_path / "one" / "a.txt").rename(tmp_path / "one" / "b.txt")
    assert Local(str(tmp_path / "one")).fingerprint() != known


def test_no_image_is_opened_for_the_index(tmp_path, monkeypatch):
    put(tmp_path, "a.png", "a.txt")
    monkeypatch.setattr(Image, "open", None)
    assert len(Local(str(tmp_path))) == 1


def test_a_missing_folder_names_its_nearest_parent(tmp_path):
    put(tmp_path, "pony/img/a.png", "test/x.txt")
    assert str(fault(data_root=f"{tmp_path}/derpi/sub")) == (
        f"error[DAT01]: data folder not found: {tmp_path}/derpi/sub\n"
        "  where: --data_root\n"
        f"  why:   the nearest existing parent is {tmp_path}, which contains: 2 folders (pony/ test/)\n"
        "  fix:   pass an existing folder; in a container, mount it first"
    )


def test_a_misspelt_folder_gets_a_suggestion(tmp_path):
    put(tmp_path, "pony/img/a.png")
    assert fault(data_root=f"{tmp_path}/pny/img").fix == f"--data_root {tmp_path}/pony/img"


def test_a_file_is_no_data_folder(tmp_path):
    put(tmp_path, "a.png")
    assert fault(data_root=f"{tmp_path}/a.png").what == f"data folder is a file: {tmp_path}/a.png"


def test_a_folder_of_other_things_is_described(tmp_path):
    put(tmp_path, "log/x.log", "clip.mp4", "clop.MP4", "notes/a.txt")
    assert str(fault(data_root=str(tmp_path))) == (
        f"error[DAT03]: no images in {tmp_path} (looked for {' '.join(EXTENSIONS)} at any depth)\n"
        "  where: --data_root\n"
        "  why:   found instead: 2 folders (log/ notes/), 2 .mp4 files\n"
        "  fix:   --data_root DIR, a folder with images"
    )


@pytest.mark.parametrize(
    ("folders", "why"),
    [
        ((), "the folder is empty"),
        (("img", "txt"), "it holds only empty folders: 2 folders (img/ txt/)"),
    ],
)
def test_an_empty_folder_is_nothing_to_train_on(tmp_path, folders, why):
    for name in folders:
        (tmp_path / name).mkdir()
    found = fault(data_root=str(tmp_path))
    assert (found.id, found.what, found.why) == ("DAT02", "0 images, so there is nothing to train on", why)


def test_no_caption_at_all_is_an_error_that_shows_three_ways_out(tmp_path):
    assert str(fault(data_root=str(put(tmp_path, "cat01.png", "cat02.png")))) == (
        "error[DAT04]: none of the 2 images has a caption\n"
        f"  where: {tmp_path}\n"
        "  why:   no .txt or .caption next to the images\n"
        "  fix:   put cat01.txt next to cat01.png, or use one text for all: "
        'data.params.train.params.default_caption="photo of sks cat"\n'
        "         or train without text: data.params.train.params.allow_empty_captions=true"
    )


def test_a_root_one_level_too_deep_is_recognised(tmp_path):
    put(tmp_path, "img/a.png", "txt/a.txt")
    assert fault(data_root=f"{tmp_path}/img").fix.startswith(f"--data_root {tmp_path} (which holds img/ and txt/)")


@pytest.mark.parametrize("params", [{"size": 0}, {"flip_p": 2.0}, {"limit_images": 0}, {"interpolation": "cubic"}])
def test_a_value_out_of_range_is_named(tmp_path, params):
    (name,) = params
    found = fault(data_root=str(tmp_path), **params)
    assert found.id == "CFG08"
    assert found.what.startswith(f"{name} of a data set cannot be")


@pytest.mark.parametrize(
    ("captions", "told"),
    [
        ({"tag_warmup_steps": 0}, "captions.tag_warmup_steps cannot be 0"),
        ({"tag_warmup_steps": 9, "tag_warmup_min": -1}, "captions.tag_warmup_min cannot be -1"),
        ({"keep_tags": -1}, "captions.keep_tags cannot be -1"),
        ({"tag_warmup_steps": 9}, "tag_warmup_steps has no effect on"),
        ({"tag_warmup_steps": 9, "split_tags": " ", "words": "text"}, "tag_warmup_steps has no effect on"),
    ],
)
def test_a_rule_of_tags_that_cannot_be_is_named(tmp_path, captions, told):
    put(tmp_path, "a.png", "a.txt")
    (tmp_path / "a.txt").write_text("a text of one piece")
    found = fault(data_root=str(tmp_path), captions=captions)
    assert found.id == "CFG08" and told in found.what and (found.fix or found.why)


def test_a_warm_up_of_tags_is_taken_where_some_captions_have_them(tmp_path):
    put(tmp_path, "a.png", "a.txt", "b.png", "b.txt")
    (tmp_path / "a.txt").write_text("a text of one piece")
    (tmp_path / "b.txt").write_text("one, two, three")
    data = Local(str(tmp_path), captions={"tag_warmup_steps": 2})
    assert [data.caption(1, Draws(0, 0, step)) for step in (0, 1, 2)] == ["one", "one, two", "one, two, three"]
    assert data.settled_captions(1) == ["one, two, three"] and not data.captions_settled


def picture(path: Path, size: tuple[int, int], **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path, **options)


def test_sizes_are_upright_and_zero_for_what_is_no_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(tmp_path / "a.jpg", (30, 20), exif=exif)
    picture(tmp_path / "b.png", (30, 20))
    (tmp_path / "c.png").write_bytes(b"<html>")
    data = Local(str(tmp_path), allow_empty_captions=True)
    assert data.sizes().tolist() == [[20, 30], [30, 20], [0, 0]]
    assert data.sizes().dtype == np.int32


def test_headers_are_read_once_for_all_starts_until_a_file_changes(tmp_path, monkeypatch):
    picture(tmp_path / "a.png", (30, 20))
    picture(tmp_path / "b.png", (30, 20))
    params = {"data_root": str(tmp_path), "allow_empty_captions": True}
    Local(**params).sizes()
    picture(tmp_path / "b.png", (7, 20))
    opened = []
    original = Image.open
    monkeypatch.setattr(Image, "open", lambda path, *rest: opened.append(path.name) or original(path, *rest))
    assert Local(**params).sizes().tolist() == [[30, 20], [7, 20]]
    assert opened == [str(tmp_path / "b.png")]


@pytest.mark.parametrize(
    ("size", "bucket", "crop", "told"),
    [
        (512, None, True, ((700, 1500), (0, 293), (512, 512))),
        (512, None, False, ((700, 1500), (0, 0), (512, 512))),
        (512, (640, 384), True, ((700, 1500), (0, 91), (384, 640))),
        (512, (640, 384), False, ((700, 1500), (0, 0), (384, 640))),
        (None, None, True, ((700, 1500), (0, 400), (700, 700))),
        (None, None, False, ((700, 1500), (0, 0), (700, 1500))),
    ],
)
def test_an_example_says_what_became_of_its_picture(tmp_path, size, bucket, crop, told):
    picture(tmp_path / "a.png", (1500, 700))
    data = Local(str(tmp_path), size=size, allow_empty_captions=True, crop=crop, flip_p=0)
    example = data.example(0, Draws(0, 0), **({"size": bucket} if bucket else {}))
    assert example["image"].shape == (*told[2], 3)
    assert (example["original_size"], example["crop"], example["target_size"]) == told


def test_the_crop_of_a_mirrored_picture_is_counted_from_its_own_left(tmp_path):
    picture(tmp_path / "a.png", (7, 4))
    data = Local(str(tmp_path), size=4, allow_empty_captions=True)
    assert [data.placement(0, flipped)["crop"] for flipped in (False, True)] == [(0, 1), (0, 2)]


def test_repeats_of_folder_and_set_multiply_and_change_the_fingerprint(tmp_path):
    picture(tmp_path / "10_cat" / "a.png", (4, 4))
    once, twice = Local(str(tmp_path)), Local(str(tmp_path), repeats=2)
    assert (once.repeats().tolist(), twice.repeats().tolist()) == ([10], [20])
    assert once.fingerprint() != twice.fingerprint()


def test_weights_are_those_of_the_nearest_folder(tmp_path):
    for name in ("a/1.png", "a/b/2.png", "c/3.png"):
        picture(tmp_path / name, (4, 4))
    params = {"data_root": str(tmp_path), "allow_empty_captions": True}
    assert Local(**params).weights() is None
    weights = Local(**params, folder_weights={"a": 2.0, "a/b": 0.5}).weights()
    assert weights is not None
    assert weights.tolist() == [2.0, 0.5, 1.0]


def test_descriptions_may_say_repeats_and_weights(tmp_path):
    put_board(tmp_path, {"1": {"path": "a.png", "tags": [], "repeats": 3, "weight": 0.5}})
    data = Local(str(tmp_path))
    assert (data.repeats().tolist(), data.weights().tolist()) == ([3], [0.5])


def test_descriptions_and_files_may_have_captions_for_further_encoders(tmp_path):
    put_board(tmp_path / "a", {"1": {"path": "a.png", "text": "a", "caption_2": "two\n words", "caption_3": 3}})
    put(tmp_path / "b", "a.png", "b.png", "a.txt", "b.txt", "a.txt3", "c.txt2")
    for name, told in (("a", [("a", "two words")]), ("b", [("a.txt", "a.txt", "a.txt3"), "b.txt"])):
        for _ in range(2):  # the second time from the index
            data = Local(str(tmp_path / name), caption_per_encoder=True)
            assert [data.settled_captions(index) for index in range(len(data))] == [[one] for one in told]
        example = data.example(0, Draws(0, 0))
        assert {key: example.get(key) for key in ("caption_2", "caption_3")} == {
            "caption_2": {"a": "two words"}.get(name),
            "caption_3": {"b": "a.txt3"}.get(name),
        }
    assert "caption_3" not in Local(str(tmp_path / "b")).example(0, Draws(0, 0))
    (tmp_path / "b" / "a.txt3").unlink()
    told_why = fault(data_root=str(tmp_path / "b"), caption_per_encoder=True)
    assert told_why.id == "DAT04" and "NAME.txt2" in told_why.why


def test_captions_of_files_follow_rules_for_tags_where_asked(tmp_path):
    put(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text("b c, a,\nd\n")
    plain = Local(str(tmp_path))
    assert plain.caption(0) == "b c, a, d"
    ruled = Local(str(tmp_path), captions={"tag_order": "sorted", "tag_separator": " | ", "replacements": {" ": "_"}})
    assert ruled.caption(0) == "a | b_c | d"


def test_a_prefix_alone_leaves_the_text_as_it_is(tmp_path):
    put(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text("b,  a")
    assert Local(str(tmp_path), captions={"prefix": "photo of "}).caption(0) == "photo of b, a"


def test_each_line_may_be_a_caption_of_its_own(tmp_path):
    put(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    data = Local(str(tmp_path), captions={"several_captions": True})
    assert {data.caption(0, Draws(0, slot)) for slot in range(20)} == {"one", "two"}


def test_one_rule_said_twice_differently_is_a_fault(tmp_path):
    put(tmp_path, "a.png", "a.txt")
    found = fault(data_root=str(tmp_path), captions={"prefix": "a"}, metadata_params={"prefix": "b"})
    assert (found.id, found.what) == ("CFG08", "prefix stands in metadata_params and in captions")


def test_a_split_by_hash_parts_the_set_and_stays_when_files_are_added(tmp_path):
    put(tmp_path, *(f"{number}.png" for number in range(40)))
    split = {"fraction": 0.25, "by": "hash"}

    def part(subset: str) -> set[str]:
        return set(Local(str(tmp_path), allow_empty_captions=True, split=split, subset=subset).names())

    train, validation = part("train"), part("validation")
    assert train | validation == {f"{number}.png" for number in range(40)}
    assert not train & validation
    assert 4 < len(validation) < 18
    put(tmp_path, *(f"more{number}.png" for number in range(40)))
    assert train <= part("train")
    assert validation <= part("validation")


def test_a_split_does_not_depend_on_the_kind_of_file(tmp_path):
    for folder, kind in (("one", "png"), ("two", "jpg")):
        put(tmp_path / folder, *(f"{number}.{kind}" for number in range(20)))
    parts = [
        {
            Path(name).stem
            for name in Local(
                str(tmp_path / folder), allow_empty_captions=True, split={"fraction": 0.5}, subset="train"
            ).names()
        }
        for folder in ("one", "two")
    ]
    assert parts[0] == parts[1]


def test_a_split_without_a_part_is_a_fault(tmp_path):
    found = fault(data_root=str(put(tmp_path, "a.png", "a.txt")), split={"fraction": 0.5})
    assert (found.id, found.what) == ("CFG08", "split needs to know which part is meant")


def test_validation_that_is_trained_on_is_told(tmp_path, caplog):
    put(tmp_path, "img/a.png", "img/b.png", "txt/a.txt", "txt/b.txt")
    whole = Local(str(tmp_path))
    deeper = Local(f"{tmp_path}/img", allow_empty_captions=True, limit_images=1)
    with caplog.at_level(logging.WARNING):
        warn_of_overlap(whole, deeper)
    assert "warning[DAT10]: 1 of the 1 images for validation are trained on" in caplog.text


def test_parts_of_a_split_do_not_overlap(tmp_path, caplog):
    put(tmp_path, *(f"{number}.png" for number in range(20)))
    train, validation = (
        Local(str(tmp_path), allow_empty_captions=True, split={"fraction": 0.5}, subset=subset)
        for subset in ("train", "validation")
    )
    with caplog.at_level(logging.WARNING):
        warn_of_overlap(train, validation)
    assert "DAT10" not in caplog.text


@pytest.mark.parametrize(("several", "seen"), [(False, {"a b, c d"}), (True, {"a b,", "c d"})])
def test_lines_mean_the_same_with_filters_as_without(tmp_path, several, seen):
    put(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text("a b,\nc d\n")
    for params in ({"captions": {"several_captions": several}}, {"metadata_params": {"several_captions": several}}):
        data = Local(str(tmp_path), **params)
        assert {data.caption(0, Draws(0, slot)) for slot in range(20)} == seen


def test_filters_by_tags_can_leave_the_text_alone(tmp_path):
    put(tmp_path, "a.png", "b.png")
    (tmp_path / "a.txt").write_text("b,a")
    (tmp_path / "b.txt").write_text("c")
    data = Local(str(tmp_path), metadata_params={"blacklist_tags": ["c"], "words": "text"})
    assert [data.caption(index) for index in range(len(data))] == ["b,a"]


def test_a_folder_answers_what_samplers_and_caches_ask(tmp_path):
    data = Local(str(put(tmp_path, "a.png", "a.txt")))
    members = [name for name in vars(FullDataset) if not name.startswith("_")]
    assert [name for name in members if not hasattr(data, name)] == []


def test_a_part_of_no_split_is_refused(tmp_path):
    with pytest.raises(Fault, match="there is no split"):
        Local(str(put(tmp_path, "a.png", "a.txt")), subset="train")


def test_masks_of_which_there_is_no_folder_are_refused(tmp_path):
    with pytest.raises(Fault, match="has no folder mask"):
        Local(str(put(tmp_path, "a.png", "a.txt")), mask="folder")


@pytest.mark.parametrize(
    "rules, told",
    [
        ({"text_p": 0.5}, "text_p has no effect without words: either"),
        ({"text_p": 0.5, "words": "either"}, ""),
        ({"keep_tags": 1, "tag_dropout_p": 0.1}, ""),
        ({"keep_tags": 1}, "keep_tags has no effect without shuffle_tag_p or"),
        ({"tag_warmup_min": 2}, "tag_warmup_min has no effect without tag_warmup_steps"),
        ({"tag_bonus_scores": {"a": 1.0}}, "tag_bonus_scores has no effect without min_score"),
    ],
)
def test_a_rule_that_says_nothing_without_another_is_told(caplog, rules, told):
    checked(rules, MetadataParams, "metadata_params")
    assert (told in caplog.text) if told else not caplog.text


def drawn(data: Local | PackedSet, index: int = 0) -> set[str]:
    return {data.caption(index, Draws(0, slot)) for slot in range(40)}


DESCRIBED = {"path": "a.png", "caption": ["one", " two\nlines ", ""], "tags": ["t"]}


@pytest.mark.parametrize("form", ["board", "jsonl", "csv", "parquet", "kohya-json", "files", "files, lines"])
def test_one_of_several_captions_is_drawn_and_all_are_kept(tmp_path, form):
    put(tmp_path, "a.png")
    captions = {"words": "text"}
    wanted = {"one", "two lines"}
    if form == "board":
        put_board(tmp_path, {"1": DESCRIBED}, pictures=False)
    elif form == "jsonl":
        (tmp_path / "rows.jsonl").write_text(json.dumps(DESCRIBED))
    elif form == "csv":
        (tmp_path / "metadata.csv").write_text('file_name,text\na.png,"[""one"", ""two\\nlines""]"\n')
    elif form == "parquet":
        arrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
        parquet.write_table(arrow.Table.from_pylist([DESCRIBED]), tmp_path / "rows.parquet")
    elif form == "kohya-json":
        (tmp_path / "meta_cap.json").write_text(json.dumps({"a": {**DESCRIBED, "caption": ["one", "two\nlines"]}}))
        wanted = {"one, t", "two lines, t"}
    else:
        (tmp_path / "a.txt").write_text("one")
        (tmp_path / "a.caption2").write_text("two\nlines")
        captions = {"files": ["txt", "caption2"]}
        if "lines" in form:
            captions["several_captions"] = True
            wanted = {"one", "two", "lines"}
    for _ in range(2):  # the second time from the index
        data = Local(str(tmp_path), captions=captions, size=4)
        assert drawn(data) == set(data.settled_captions(0)) == wanted
        assert data.captions_settled and data.caption_count(0) == len(wanted)
    Packing(data, FolderDestination(tmp_path.with_name(f"{tmp_path.name}-packed")), PackSettings()).run()
    rules = {name: value for name, value in captions.items() if name != "files"}
    packed = PackedSet(str(tmp_path.with_name(f"{tmp_path.name}-packed")), captions=rules, size=4)
    assert drawn(packed) == set(packed.settled_captions(0)) == wanted and packed.caption_count(0) == len(wanted)
    assert packed.caption(0, Draws(0, 5)) == data.caption(0, Draws(0, 5))


def test_a_picture_may_have_any_of_the_caption_files(tmp_path):
    put(tmp_path, "a.png", "a.txt", "b.png", "b.caption2", "c.png", "c.txt", "c.caption2", "d.png")
    data = Local(str(tmp_path), captions={"files": ["caption2", "txt"]})
    assert data.names() == ["a.png", "b.png", "c.png"]
    assert [data.caption_count(index) for index in range(3)] == [1, 1, 2]
    assert data.settled_captions(2) == ["c.caption2", "c.txt"]


def test_a_link_out_of_the_folder_is_no_caption_file_unless_links_are_followed(tmp_path):
    put(tmp_path / "out", "secret")
    put(tmp_path / "in", "a.png", "a.txt", "b.png", "b.txt", "b.caption2")
    (tmp_path / "in/a.caption2").symlink_to(tmp_path / "out/secret")
    (tmp_path / "in/a.txt2").symlink_to(tmp_path / "out/secret")
    (tmp_path / "in/b.txt2").write_text("b in full")
    for follow, expected in ((False, ["a.txt"]), (True, ["a.txt", "secret"])):
        files = {"captions": {"files": ["txt", "caption2"]}, "caption_per_encoder": True}
        data = Local(str(tmp_path / "in"), follow_links=follow, **files)
        assert [data.caption_count(0), "caption_2" in data.further_captions(0)] == [len(expected), follow]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"captions": {"files": []}}, "captions.files cannot be []"),
        ({"captions": {"files": [".txt"]}}, "captions.files cannot be ['.txt']"),
        ({"captions": {"files": ["txt", "txt"]}}, "captions.files cannot be"),
        ({"captions": {"files": ["png"]}}, "captions.files cannot be"),
        ({"captions": {"files": ["txt", "caption2"]}, "layout": "sidecar"}, "has a NAME.caption2"),
        (
            {"captions": {"files": ["txt"]}, "metadata_params": {}},
            "captions.files has no effect beside metadata_params",
        ),
        ({"captions": {"files": ["txt"]}, "layout": "jsonl"}, "captions.files has no effect on"),
    ],
)
def test_caption_files_that_cannot_be_are_named(tmp_path, params, told):
    put(tmp_path, "a.png", "a.txt")
    (tmp_path / "rows.jsonl").write_text('{"path": "a.png", "text": "a"}')
    found = fault(data_root=str(tmp_path), **params)
    assert found.id in ("CFG08", "DAT04") and told in found.what and (found.fix or found.why)


def test_trigger_words_reach_the_captions_of_every_encoder(tmp_path):
    put(tmp_path, "a.png", "a.txt")
    (tmp_path / "a.txt2").write_text("a photo of [trigger]")
    data = Local(str(tmp_path), caption_per_encoder=True, captions={"trigger": "sks", "suffix": "!"})
    assert data.settled_captions(0) == [("sks, a.txt!", "a photo of sks!")]
