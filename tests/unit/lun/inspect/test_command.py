"""`python -m lun.inspect` from the command line to its files."""

import csv
import json
import sys
from html.parser import HTMLParser

import pytest
import yaml
from PIL import Image
from support.board import put_board
from support.profiles import DISPLAY_P3
from support.runs import make_pictures, make_shapes

from lun.inspect.command import run

PARAMS = {"size": 16, "metadata_params": {"min_score": 5, "blacklist_tags": ["bad"], "shuffle_tag_p": 0.5}}


def config(path, params=None, target="lun.data.local.Local"):
    recipe = {"target": target, "params": PARAMS if params is None else params}
    data = {"target": "lun.data.module.DataModuleFromConfig", "params": {"batch_size": 1, "train": recipe}}
    path.write_text(yaml.safe_dump({"data": data}))
    return str(path)


@pytest.fixture
def board(tmp_path):
    records = {str(i): {"path": f"{i}.png", "tags": ["x", "<b>"], "score": i} for i in range(8)}
    records["bad"] = {"path": "bad.png", "tags": ["bad"], "score": 9}
    root = put_board(tmp_path / "set", records)
    (root / "7.png").write_bytes(b"<html>")
    return root


def test_everything_is_written_and_summed_up(board, tmp_path, capsys):
    out = tmp_path / "out"
    assert run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(out)]) == 0
    assert {file.name for file in out.iterdir()} == {"report.html", "report.json", "contact.png", "rejected.csv"}
    said = capsys.readouterr().out
    assert "layout    board JSON, 9 files" in said
    assert "usable    2 of 9" in said
    assert "1  unreadable image" in said
    assert "5  score below min_score 5" in said
    assert 'broken    7.png: not an image (starts with "<html>"' in said


def test_rejected_csv_has_each_picture_with_its_reason_and_source(board, tmp_path):
    run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "--json"])
    with (tmp_path / "out" / "rejected.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["path", "reason", "detail"]
    assert ["bad.png", "blacklisted tags", "metadata/bad.json"] in rows
    assert ["0.png", "score below min_score 5", "metadata/0.json"] in rows
    assert rows[-1][:2] == ["7.png", "unreadable image"]
    assert len(rows) == 1 + 5 + 1 + 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n# tags of the image\n"tags": ["solo"]}', "double quotes: line 2"),
        ("", "line 1 column 1"),
        ("[1]", "not a map"),
    ],
)
def test_a_description_that_is_no_json_is_rejected_with_the_reason(board, tmp_path, text, why):
    (board / "metadata" / "0.json").write_text(text)
    run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "--json"])
    rows = (tmp_path / "out" / "rejected.csv").read_text().splitlines()
    (told,) = [row for row in rows if "unreadable descriptions" in row]
    assert "metadata/0.json: " in told and why in told


def test_report_json_holds_the_waterfall(board, tmp_path):
    run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "--json"])
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (found["total"], found["usable"]) == (9, 2)
    assert {step["name"]: step["count"] for step in found["waterfall"] if step["count"]} == {
        "min_score": 5,
        "blacklist_tags": 1,
        "unreadable": 1,
    }
    assert found["top_tags"] == [["x", 3], ["<b>", 3]]
    assert not (tmp_path / "out" / "report.html").exists()


class Page(HTMLParser):
    """Counts pictures and keeps the text; anything that would be fetched from elsewhere is noted."""

    def __init__(self, text):
        super().__init__()
        self.images = 0
        self.fetched = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href"):
                self.images += tag == "img"
                if not value.startswith(("data:", "#")):
                    self.fetched.append(value)

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone_and_escapes_what_people_wrote(board, tmp_path):
    run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "--html"])
    page = Page((tmp_path / "out" / "report.html").read_text())
    assert page.fetched == []
    # two readable pictures on the sheet, each before and after its crop, and once more since both are the same file
    assert page.images == 2 + 2 * 2 + 2
    assert "<b>, x" in page.text


def test_the_page_tells_what_every_part_is_for(board, tmp_path):
    run([str(board), "--base", config(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"), "--html"])
    text = (tmp_path / "out" / "report.html").read_text()
    for title in ("What is left", "What the model will see", "Captions before and after", "Pictures that occur twice"):
        assert f">{title}" in text
    assert "<script" not in text
    assert "href='#out-score-below-min-score-5'" in text and "id='out-score-below-min-score-5'" in text


def test_the_sheet_shows_pictures_in_the_buckets_of_the_config(tmp_path):
    root = make_shapes(tmp_path / "set", [(16, 8)] * 3)
    buckets = "data.params.buckets={resolutions: [12], step: 4}"
    assert run([str(root), "--set", buckets, "data.params.batch_size=1", "-o", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert any("16 x 8 " in line for line in found["buckets"])
    assert found["cropped_away"] == 0
    with Image.open(tmp_path / "out" / "contact.png") as sheet:  # ten times enlarged, twice as wide as high
        assert sheet.getpixel((90, 4 + 79)) != (255, 255, 255) == sheet.getpixel((90, 4 + 81))


def test_the_sheet_shows_a_row_of_eight(tmp_path):
    root = make_pictures(tmp_path / "set", 9)
    assert run([str(root), "--png", "-o", str(tmp_path / "out")]) == 0
    with Image.open(tmp_path / "out" / "contact.png") as sheet:
        assert sheet.size == (8 * 172, 2 * 220)


def test_where_nothing_is_left_the_rejects_are_still_written(board, tmp_path, capsys):
    params = {"metadata_params": {"min_score": 100}}
    out = tmp_path / "out"
    assert run([str(board), "--base", config(tmp_path / "a.yaml", params), "-o", str(out)]) == 3
    assert len((out / "rejected.csv").read_text().splitlines()) == 10
    assert "error[DAT02]: 0 of 9 images are usable" in capsys.readouterr().err


def test_an_earlier_report_is_not_written_over(board, tmp_path, capsys):
    (tmp_path / "rejected.csv").write_text("mine")
    assert run([str(board), "-o", str(tmp_path)]) == 2
    assert (tmp_path / "rejected.csv").read_text() == "mine"
    assert "CLI04" in capsys.readouterr().err


def test_settings_are_checked_as_for_training(board, tmp_path, capsys):
    base = config(tmp_path / "a.yaml", {"metadata_params": {"min_scroe": 1}})
    assert run([str(board), "--base", base]) == 2
    assert "unknown setting data.params.train.params.metadata_params.min_scroe" in capsys.readouterr().err


def test_a_folder_for_a_class_that_reads_none_is_refused_by_name(board, tmp_path, capsys):
    base = config(tmp_path / "a.yaml", {}, target="torch.utils.data.TensorDataset")
    assert run([str(board), "--base", base]) == 2
    assert "torch.utils.data.TensorDataset takes no data_root" in capsys.readouterr().err


@pytest.mark.parametrize("folder", [True, False])
def test_a_class_that_a_config_may_not_name_is_not_even_imported(tmp_path, capsys, folder):
    base = config(tmp_path / "a.yaml", {}, target="antigravity.Data")
    assert run([*([str(tmp_path)] if folder else []), "--base", base]) == 2
    assert "cannot load target antigravity.Data" in capsys.readouterr().err
    assert "antigravity" not in sys.modules


def test_a_folder_that_is_not_there_is_told_as_in_training(tmp_path, capsys):
    (tmp_path / "nopf").mkdir()
    assert run([str(tmp_path / "nope")]) == 3
    said = capsys.readouterr().err
    assert "error[DAT01]" in said
    assert "where: DIR" in said and f"fix:   python -m lun.inspect {tmp_path / 'nopf'}" in said
    assert "--data_root" not in said


def test_settings_can_be_given_without_a_config(board, tmp_path, capsys):
    setting = "data.params.train.params.metadata_params.min_score=3"
    assert run([str(board), "--set", setting, "--json", "-o", str(tmp_path / "out")]) == 0
    assert "usable    5 of 9" in capsys.readouterr().out  # and one that is no picture


def report_of(root, tmp_path, *words):
    """(exit code, report.json, text of report.html, rows of rejected.csv)"""
    out = tmp_path / "out"
    code = run([str(root), "--json", "--html", "-o", str(out), *words])
    with (out / "rejected.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return code, json.loads((out / "report.json").read_text()), Page((out / "report.html").read_text()).text, rows


def test_a_folder_without_captions_is_shown_with_what_training_will_say(tmp_path, capsys):
    root = make_pictures(tmp_path / "set", 3)
    (root / "txt").rename(root / "texts")
    code, found, page, _ = report_of(root, tmp_path)
    assert (code, found["usable"], found["empty"]) == (3, 3, 3)
    assert "What the model will see" in page
    said = capsys.readouterr().err
    assert "error[DAT04]: none of the 3 images has a caption" in said
    assert f"mv {root / 'texts'} {root / 'txt'}" in said


def test_captions_that_are_lists_of_tags_have_a_section_of_tags(tmp_path):
    root = make_pictures(tmp_path / "set", 3)
    for number, text in enumerate(["fox, snow, solo", "fox, solo, night", "hen, snow, solo"]):
        (root / "txt" / f"{number:03}.txt").write_text(text)
    found, page = report_of(root, tmp_path)[1:3]
    assert found["top_tags"][:3] == [["solo", 3], ["fox", 2], ["snow", 2]]
    assert found["everywhere"] == ["solo"]
    assert "5 different" in page


def test_shuffled_captions_are_not_said_to_be_read_as_written_and_several_are_counted(tmp_path, capsys):
    root = make_pictures(tmp_path / "set", 3)
    for number in range(3):
        (root / "txt" / f"{number:03}.txt").write_text(", ".join("abcdefgh"))
    (root / "txt" / "001.caption2").write_text("a, b")
    shuffled = 'data.params.train.params.captions={split_tags: ",", shuffle_tag_p: 1.0, files: [txt, caption2]}'
    _, found, page, _ = report_of(root, tmp_path, "--set", shuffled)
    assert found["choices"] == {"1": 2, "2": 1} and "2 to draw from: 1" in capsys.readouterr().out
    assert "drawn anew" in page
    assert "as they were written" not in page


def test_what_lies_beside_the_pictures_without_use_is_counted_and_listed(tmp_path, capsys):
    root = make_pictures(tmp_path / "set", 2)
    (root / "txt" / "orphan.txt").write_text("x")
    (root / "img" / "loop").symlink_to("loop")
    Image.new("RGB", (8, 8)).save(root / "img" / "000.png", icc_profile=DISPLAY_P3)
    _, found, page, rows = report_of(root, tmp_path)
    assert found["unread"] == {"link that leads nowhere": 1, "caption without a picture": 1}
    assert found["looks"]["kinds"]["ICC profile (colours converted to sRGB)"] == 1
    assert ["txt/orphan.txt", "caption without a picture", ""] in rows
    assert "caption without a picture" in page
    assert "unread    link that leads nowhere 1" in capsys.readouterr().out


def test_what_a_header_shows_to_be_no_picture_is_rejected_for_that_reason(tmp_path):
    root = make_pictures(tmp_path / "set", 3)
    (root / "img" / "001.png").write_bytes(b"")
    rows = report_of(root, tmp_path, "--set", "data.params.train.params.metadata_params={min_size: 4}")[3]
    assert rows == [["img/001.png", "unreadable image", "empty file (0 bytes)"]]


def test_a_folder_that_there_is_not_leaves_none_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["nope"]) == 3
    assert "error[DAT01]" in capsys.readouterr().err
    assert run(["nope", "-o", "out"]) == 3
    assert list(tmp_path.iterdir()) == []


def test_several_sets_have_a_report_each_under_their_names(tmp_path, capsys):
    params = [{"data_root": str(make_pictures(tmp_path / name, 3)), "size": 8} for name in ("x", "y")]
    local = {"target": "lun.data.local.Local"}
    sets = {"cats": {**local, "params": params[0], "weight": 1}, "dogs": {**local, "params": params[1], "weight": 2}}
    base = tmp_path / "sets.yaml"
    data = {"target": "lun.data.module.DataModuleFromConfig", "params": {"batch_size": 1, "train": {"sets": sets}}}
    base.write_text(yaml.safe_dump({"data": data}))
    assert run(["--base", str(base), "--json", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "set       cats" in said and "set       dogs" in said
    assert all(json.loads((tmp_path / "out" / name / "report.json").read_text()) for name in ("cats", "dogs"))
    assert run(["DIR", "--base", str(base)]) == 2
    assert "DIR does not say of which set it is" in capsys.readouterr().err
