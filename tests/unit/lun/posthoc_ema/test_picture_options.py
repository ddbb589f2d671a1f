"""Options of drawn pictures: each has its effect on the metric of a sweep, or is refused by name."""

import argparse

import pytest

from ldm.errors import Fault
from lun.features.score_names import SCORES
from lun.posthoc_ema.arguments import parse
from lun.posthoc_ema.picture_options import add_picture_options

LINE = ["sweep", "RUN", "--width", "0.1"]
CHOICES = {"dtype": "fp32", "scheduler": "ddim"}
ENCODERS = ["--clip", "CLIP", "--dino", "DINO", "--features", "VIT"]


def options() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_picture_options(parser)
    return list(vars(parser.parse_args([])))


@pytest.mark.parametrize("name", options())
@pytest.mark.parametrize("metric", [[], ["--metric", "val/loss"]])
def test_beside_a_number_of_the_validation_each_is_refused(name: str, metric: list[str]) -> None:
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(Fault, match=f"{flag} has no effect"):
        parse([*LINE, *metric, flag, CHOICES.get(name, "1")])


@pytest.mark.parametrize("metric", SCORES)
def test_what_a_metric_lacks_is_named(metric: str) -> None:
    line = [*LINE, "--metric", metric]
    with pytest.raises(Fault, match=f"{metric} takes an encoder"):
        parse([*line, "--data", "DIR"])
    if SCORES[metric].of_data:
        with pytest.raises(Fault, match=f"{metric} compares pictures with data"):
            parse([*line, *ENCODERS])
    asked = parse([*line, *ENCODERS, "--data", "DIR"])
    assert (asked.count, asked.seed, asked.most, asked.dtype) == (1, 42, 10_000, "fp32")


@pytest.mark.parametrize("words", [["--dino", "DINO"], ["--features", "VIT"], ["--most", "5"]])
def test_what_only_compares_with_data_is_refused_without(words: list[str]) -> None:
    line = [*LINE, "--metric", "clip_score", "--clip", "CLIP"]
    with pytest.raises(Fault, match=f"{words[0]} has no effect"):
        parse([*line, *words])
    assert parse([*line, *words, "--data", "DIR"]).data == "DIR"


def test_one_picture_of_the_data_is_no_distance() -> None:
    with pytest.raises(Fault, match="--most cannot be 1"):
        parse([*LINE, "--metric", "cmmd", "--clip", "CLIP", "--data", "DIR", "--most", "1"])
