"""Several runs on one page."""

from support.run_folder import Page, add_samples, log_metrics

from lun.board.runs_below import runs_below
from lun.board.side_by_side import compared, comparison_page
from lun.report.sample_tiles import TileCache


def page(logs) -> Page:
    runs, _ = runs_below(logs)
    return Page(comparison_page(compared(dict(sorted(runs.items())), TileCache())))


def test_settings_that_differ_stand_side_by_side_and_others_do_not(logs):
    (logs / "b/same/configs/resolved.yaml").write_text("model: {base_learning_rate: 0.5, new: {a: 1}}\n")
    found = page(logs)
    assert found.unbalanced == []
    assert "model.base_learning_rate 0.001 0.5" in found.text and "model.new.a — 1" in found.text
    (logs / "b/same/configs/resolved.yaml").write_text((logs / "a/same/configs/resolved.yaml").read_text())
    assert "base_learning_rate" not in page(logs).text


def test_a_metric_of_all_runs_is_one_plot_with_a_colour_for_each(logs):
    log_metrics(logs / "b/same", {120: {"extra": 1.0}})
    charts = {chart["title"]: chart["lines"] for chart in page(logs).data["charts"]}
    assert [line["label"] for line in charts["Loss"]] == ["A train/loss", "B train/loss"]
    assert len({line["colour"] for line in charts["Loss"]}) == 2
    assert [line["label"] for line in charts["extra"]] == ["B extra"]


def test_the_same_prompt_and_seed_share_a_row_at_the_step_that_each_run_drew_last(logs):
    add_samples(logs / "b/same", 120, "raw", prompts=("a fox", "a car"))
    found = page(logs).data["samples"]
    assert [(one["text"], one["seed"]) for one in found["prompts"]] == [("a fox", 42), ("a frog", 43), ("a car", 43)]
    assert found["weights"] == ["A raw", "A ema", "B raw", "B ema"] and found["steps"] == [0, 50, 100, 120]
    assert found["tiles"]["120"]["A raw"][0] == found["tiles"]["100"]["A raw"][0] is not None
    assert found["tiles"]["120"]["B raw"][2] is not None and found["tiles"]["120"]["A raw"][2] is None
