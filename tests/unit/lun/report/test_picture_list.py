"""Pictures that stand out by their loss, with thumbnails."""

import json

from PIL import Image
from support.run_folder import Page, make_run

from lun.report.picture_list import keep_thumbnails, picture_lists
from lun.report.run_page import write_page
from lun.report.sample_tiles import TileCache


def entry(path, excess, split="train", **more):
    row = {"path": str(path), "set": None, "split": split, "n": 3, "loss": 0.5, "excess": excess, "first": 1.0}
    return row | {"trace": [[0, 1.0], [10, 0.5]]} | more


def put(run, *entries):
    (run / "metrics").mkdir(exist_ok=True)
    (run / "metrics/pictures.json").write_text(json.dumps({"step": 10, "pictures": list(entries), "copies": []}))
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
    lists, _ = picture_lists(run)
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
    (lists, _) = picture_lists(run)
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
    assert picture_lists(run)[0][0].pictures[0][1] is None


def test_odd_entries_are_left_out_and_counted(tmp_path):
    odd = [None, [], {"path": 3}, entry("a", "high"), entry("b", 1.0, trace="x"), entry("c", 1.0, trace=[[1]])]
    run = put(make_run(tmp_path / "run"), *odd, entry("\0", float("nan"), trace=[[0, float("inf")], [1, 2]]))
    left_out = picture_lists(run)[1]
    assert left_out == ["5 pictures of metrics/pictures.json that cannot be read"]
    keep_thumbnails(run)
    assert Page(write_page(run, TileCache()).read_text("utf-8")).unbalanced == []
