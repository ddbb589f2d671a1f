"""Pictures that stand out by their loss, with thumbnails."""

import json

from PIL import Image
from support.packable import add
from support.run_folder import Page, make_run

from lun.pack.command import run as pack
from lun.report.picture_list import StandingOut, keep_thumbnails
from lun.report.run_page import write_page
from lun.report.sample_tiles import TileCache


def entry(path, excess, split="train", **more):
    row = {"path": str(path), "set": None, "split": split, "n": 3, "loss": 0.5, "excess": excess, "first": 1.0}
    return row | {"trace": [[0, 1.0], [10, 0.5]]} | more


def put(run, *entries, copies=()):
    (run / "metrics").mkdir(exist_ok=True)
    told = {"step": 10, "pictures": list(entries), "copies": copies}
    (run / "metrics/pictures.json").write_text(json.dumps(told))
    return run


def picture(path, size=(400, 200)):
    Image.new("RGB", size, "red").save(path)
    return path


def names(lists):
    return {one.title: [picture.name for picture, _ in one.pictures] for one in lists}


def test_the_hardest_and_the_easiest_are_listed_with_small_thumbnails(tmp_path):
    run = put(
        make_run(tmp_path / "run"),
        entry(picture(tmp_path / "a.png"), -1.0),
        entry(picture(tmp_path / "b.png"), 2.5),
        entry(picture(tmp_path / "c.png"), 1.5),
        entry(tmp_path / "gone.png", 0.5, "val", set="second"),
    )
    page = Page(write_page(run, TileCache(), writing=True).read_text("utf-8"))
    lists = StandingOut.of(run).lists
    assert names(lists) == {
        "Hardest in training": ["b.png", "c.png"],
        "Easiest in training": ["a.png"],
        "Hardest held out": ["gone.png"],
    }
    shown = [image for image in page.attributes("img") if str(image["src"]).startswith("data:image/jpeg")]
    assert [image["alt"] for image in shown] == ["b.png", "c.png", "a.png"] and page.unbalanced == []
    with Image.open(next((run / "metrics/thumbnails").iterdir())) as thumbnail:
        assert max(thumbnail.size) == 96
    assert "+2.5 sd · 1 → 0.5 · 3 looks" in page.text and len(page.attributes("polyline")) == 4


def test_whoever_does_not_train_reads_no_picture_of_the_data(tmp_path):
    run = put(make_run(tmp_path / "run"), entry(picture(tmp_path / "a.png"), 1.0))
    write_page(run, TileCache())
    lists = StandingOut.of(run).lists
    assert [url for _, url in lists[0].pictures] == [None] and not (run / "metrics/thumbnails").exists()


def test_thumbnails_of_pictures_that_stand_out_no_more_go(tmp_path):
    run = put(make_run(tmp_path / "run"), entry(picture(tmp_path / "a.png"), 1.0))
    keep_thumbnails(run)
    put(run, entry(picture(tmp_path / "b.png"), 1.0))
    keep_thumbnails(run)
    assert len(list((run / "metrics/thumbnails").iterdir())) == 1


def test_a_link_in_the_place_of_a_thumbnail_is_not_followed(tmp_path):
    run = put(make_run(tmp_path / "run"), entry(picture(tmp_path / "a.png"), 1.0))
    keep_thumbnails(run)
    (kept,) = (run / "metrics/thumbnails").iterdir()
    kept.unlink()
    kept.symlink_to(picture(tmp_path / "secret.png", (20, 20)))
    assert StandingOut.of(run).lists[0].pictures[0][1] is None


def test_odd_entries_are_left_out_and_counted(tmp_path):
    odd = [None, [], {"path": 3}, entry("a", "high"), entry("b", 1.0, trace="x"), entry("c", 1.0, trace=[[1]])]
    run = put(
        make_run(tmp_path / "run"),
        *odd,
        entry("\0", float("nan"), trace=[[0, float("inf")], [1, 2]]),
        copies=[[], [1, 2], "ab"],
    )
    left_out = StandingOut.of(run).left_out
    assert left_out == ["8 pictures of metrics/pictures.json that cannot be read"]
    keep_thumbnails(run)
    assert Page(write_page(run, TileCache()).read_text("utf-8")).unbalanced == []


def test_pictures_held_out_that_are_trained_on_stand_beside_their_copies(tmp_path):
    names = ["held.png", "trained.png"]
    pairs = [[str(picture(tmp_path / name)) for name in names]] * 14
    run = put(make_run(tmp_path / "run"), copies=pairs)
    page = Page(write_page(run, TileCache(), writing=True).read_text("utf-8"))
    shown = StandingOut.of(run)
    assert (len(shown.copies), shown.count) == (12, 14)
    assert [image["alt"] for image in page.attributes("img") if str(image["alt"]).endswith(".png")] == names * 12
    assert "14 of the pictures held out look like one of training" in page.text and page.unbalanced == []


def test_what_is_memorised_is_a_list_of_its_own(tmp_path):
    falls = [[step, 1 / (1 + step)] for step in range(8)]
    rises = [[0, 1.0], [2, 0.5], [7, 0.6]]
    rows = [entry("known.png", -2.0, trace=falls), entry("other.png", -1.0, trace=[[step, 1.0] for step in range(8)])]
    run = put(make_run(tmp_path / "run"), *rows, entry("held.png", 0.0, "val", trace=rises))
    (memorised,) = [one for one in StandingOut.of(run).lists if one.title == "Memorised"]
    assert [one.name for one, _ in memorised.pictures] == ["known.png"]
    assert memorised.about.startswith(
        "their loss fell since step 2, while that of pictures held out rose from 0.5 to 0.6"
    )


def test_pictures_of_a_packed_set_have_thumbnails(tmp_path):
    add(tmp_path / "loose", range(3))
    assert pack([str(tmp_path / "loose"), "-o", str(tmp_path / "packed")]) == 0
    run = put(make_run(tmp_path / "run"), entry(f"{tmp_path}/packed/000000.tar#2", 1.0))
    keep_thumbnails(run)
    ((one, url),) = StandingOut.of(run).lists[0].pictures
    assert one.name == "000000.tar#2" and url.startswith("data:image/jpeg")
