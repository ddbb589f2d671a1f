"""The page of a run, as a parser reads it."""

import json
import os
import time
from pathlib import Path

import pytest
from support.run_folder import RECORD, Page, add_samples, make_run

from lun.report.run_facts import RunFacts
from lun.report.run_page import run_page, size, write_page
from lun.report.sample_tiles import TileCache

EVIL = "</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


def page(run: Path) -> Page:
    return Page(run_page(RunFacts.of(run, TileCache())))


def test_the_page_tells_state_plan_curves_samples_warnings_files_and_how_to_go_on(tmp_path):
    run = make_run(tmp_path / "run")
    found = page(run)
    assert found.unbalanced == []
    assert "done exit code 0, 2026-11-20 11:20:00" in found.text and "100 steps of 200 (50 %)" in found.text
    assert (
        "UNet: 2.00 M numbers, trained" in found.text
        and "/pictures; 168 examples; 32 a step; 19.0 epochs" in found.text
    )
    assert f"python main.py -r {run} -t" in found.text
    assert "warning[DAT06]: two lines" in found.text and "checkpoints/last.ckpt 2.0 kB" in found.text
    assert [chart["title"] for chart in found.data["charts"]] == ["Loss", "perf/step_ms"]
    assert found.data["samples"]["steps"] == [0, 50, 100]
    shown = [image for image in found.attributes("img") if "data-weights" in image]
    assert [image["data-weights"] for image in shown] == ["raw", "ema", "raw", "ema"]
    assert all((image["src"] or "").startswith("data:image/png") for image in shown)


def test_weights_without_a_rule_are_called_by_their_network(tmp_path):
    run = make_run(tmp_path / "run", samples=False)
    group = {"rules": "", "learning_rate": 0.004, "numbers": 2_000_000, "names": ["unet.a.weight", "unet.b.bias"]}
    (run / "trains.json").write_text(json.dumps({"networks": [], "groups": [group]}))
    assert "trains unet: 2.00 M numbers at 0.004" in page(run).text


def test_the_page_stands_alone(tmp_path):
    path = write_page(make_run(tmp_path / "run"), TileCache())
    assert path.name == "report.html" and path.stat().st_size < 5e6
    found = Page(path.read_text("utf-8"))
    links = [value for _, attrs in found.tags for name, value in attrs.items() if name in ("src", "href")]
    assert all(link is not None and link.startswith(("data:", "#")) for link in links)


def test_what_people_wrote_stays_text(tmp_path):
    run = make_run(tmp_path / EVIL.replace("/", "|"), samples=False, argv=["main.py", EVIL], resumed_from=EVIL)
    add_samples(run, 1, "raw", prompts=(EVIL,))
    (run / "console.log").write_text(f"2026-11-20 11:13:02,001 WARNING {EVIL}\n")
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "time": 1.0, EVIL: 1.0}) + "\n")
    (run / "checkpoints" / EVIL.replace("/", "|")).write_text("")
    (run / "configs/resolved.yaml").write_text(json.dumps({"model": {"base_learning_rate": EVIL}}))
    clean, found = page(make_run(tmp_path / "clean")), page(run)
    assert found.unbalanced == [] and len(found.scripts) == len(clean.scripts)
    assert found.text.count(EVIL) >= 6
    assert all(not name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert found.data["samples"]["prompts"] == [{"text": EVIL, "seed": 42}]


def test_the_starts_tell_what_each_changed(tmp_path):
    earlier = RECORD | {"status": "stopped", "exit_code": 143, "steps": 50}
    run = make_run(tmp_path / "run", attempt=2, resumed_from="checkpoints/last.ckpt", earlier=[earlier])
    (run / "configs/2026-11-20T11-13-02-resolved.yaml").write_text("model: {base_learning_rate: 0.1}\n")
    (run / "configs/resolved.yaml").write_text("model: {base_learning_rate: 0.2}\n")
    text = page(run).text
    assert "went on from checkpoints/last.ckpt" in text and "stopped at step 50" in text
    assert "model.base_learning_rate: 0.1 -> 0.2" in text and text.index("0.1 -> 0.2") < text.index(
        "stopped at step 50"
    )


ODD = {
    "empty": b"",
    "null": b"null",
    "list": b'[1, {"a": 2}]',
    "word": b'"word"',
    "torn": b'{"step": 1, "networks": [{"na',
    "binary": bytes(range(256)) * 4,
    "nested": b"[" * 1500,
    "odd values": json.dumps(
        dict.fromkeys(("step", "time", "box", "scale", "seed", "networks", "groups", "earlier", "status"), 1e308)
    ).encode(),
    "odd lists": json.dumps(
        {key: [None, [], {}, -1, "x"] for key in ("networks", "groups", "earlier", "box")}
    ).encode(),
    "huge": b'{"step": 1' + b"0" * 400 + b', "time": 1e999, "train/loss": 1' + b"0" * 5000 + b"}\n",
}
FILES = (
    "run.json",
    "metrics.jsonl",
    "trains.json",
    "configs/resolved.yaml",
    "console.log",
    "images/samples/samples.jsonl",
)


@pytest.mark.parametrize("name", FILES)
def test_the_page_still_comes_whatever_a_file_holds(tmp_path, name):
    run = make_run(tmp_path / "run")
    file = run / name
    for content in ODD.values():
        file.write_bytes(content)
        assert page(run).unbalanced == []
    file.unlink()
    assert page(run).unbalanced == []
    os.mkfifo(file)
    assert page(run).unbalanced == []
    file.unlink()
    file.mkdir()
    assert page(run).unbalanced == []


@pytest.mark.parametrize(
    "change",
    [
        {"box": [0, 0, 10**9, 10**9]},
        {"box": [8, 8, 0, 0]},
        {"box": [0, 0, 0, 0]},
        {"scale": 0},
        {"scale": -3},
        {"scale": 10**6},
        {"step": -5},
        {"step": 10**30},
        {"seed": 10**30},
        {"weights": "other"},
        {"prompt": "x" * 100_000},
        {"file": "\0"},
        {"file": "x" * 5000},
    ],
    ids=str,
)
def test_the_page_still_comes_with_an_odd_sample(tmp_path, change):
    run = make_run(tmp_path / "run")
    row = {
        "step": 100,
        "prompt": "a",
        "seed": 1,
        "weights": "raw",
        "file": "raw-100.png",
        "box": [0, 0, 8, 8],
        "scale": 1,
    }
    with (run / "images/samples/samples.jsonl").open("a") as file:
        file.write(json.dumps(row | change) + "\n")
    assert page(run).unbalanced == []


def test_200_000_steps_take_less_than_two_seconds(tmp_path):
    run = make_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("w") as file:
        for step in range(1, 200_001):
            file.write(
                f'{{"step": {step}, "time": {1.8e9 + step}, "train/loss": 0.1234567, "train/loss_simple": 0.1}}\n'
            )
    began = time.process_time()
    html = run_page(RunFacts.of(run, TileCache()))
    assert time.process_time() - began < 2
    assert len(html) < 5e6 and "lines of metrics.jsonl are drawn" in html


def test_sizes_are_those_of_disks():
    assert [size(one) for one in (12, 1500, 2_300_000, 5e12)] == ["12 bytes", "1.5 kB", "2.3 MB", "5.0 TB"]
