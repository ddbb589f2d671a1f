"""Only what an encoder was given for is computed."""

import torch

from lun.features.score_names import SCORES
from lun.features.scoring import Encoders, nearest_pictures, scores_of

SAMPLES = {"dino": torch.randn(4, 6), "clip": torch.randn(4, 3)}
DATA = {"dino": torch.randn(5, 6), "clip": torch.randn(5, 3)}


def test_without_encoders_nothing_is_read_and_nothing_told() -> None:
    encoders = Encoders()
    assert encoders.of_pictures(iter([])) == {} and encoders.of_captions(["a"]) is None
    assert scores_of({}, {}, None) == {}


def test_without_data_there_is_the_clip_score_alone() -> None:
    assert scores_of(SAMPLES, None, torch.randn(4, 3)).keys() == {"clip_score"}


def test_each_encoder_makes_its_own_numbers() -> None:
    names = {"clip_score", "cmmd", "nearest_clip", "fd_dino", "nearest_dino"}
    assert scores_of(SAMPLES, DATA, torch.randn(4, 3)).keys() == names


def test_copies_are_looked_for_with_what_tells_them_best() -> None:
    data = {**DATA, "dino": torch.cat([DATA["dino"], 2 * SAMPLES["dino"][1:2]])}
    assert nearest_pictures(SAMPLES, data).index[1] == 5


def test_every_score_is_named_with_what_it_takes() -> None:
    for encoder in ("clip", "dino", "features"):
        samples, data = {encoder: torch.randn(4, 3)}, {encoder: torch.randn(5, 3)}
        told = torch.randn(4, 3) if encoder == "clip" else None
        alone = scores_of(samples, None, told).keys()
        assert alone == {name for name, score in SCORES.items() if score.encoder == encoder and not score.of_data}
        whole = scores_of(samples, data, told).keys()
        assert whole == {name for name, score in SCORES.items() if score.encoder == encoder}
