"""Tags of a WD tagger: which are told, in which order, from which pixels."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.tiny_annotators import SIDE, stand_for_onnxruntime, tagger

from ldm.errors import Fault
from lun.annotate.tagger import Tagger, squared

PICTURE = Image.new("RGB", (4, 2), (255, 0, 0))


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_for_onnxruntime(monkeypatch)


def test_a_network_is_run_by_onnxruntime_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pytest.importorskip("onnxruntime")
    assert (
        Tagger(str(tagger(tmp_path)), device="cpu")([PICTURE] * 2) == [{"tags": ["mary (a)", "^_^", "long hair"]}] * 2
    )
    (tmp_path / "model.onnx").write_text("no")
    with pytest.raises(Fault, match="MOD02.*cannot be read by onnxruntime"):
        Tagger(str(tmp_path))


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, ["mary (a)", "^_^", "long hair"]),
        ({"underscores": True}, ["mary_(a)", "^_^", "long_hair"]),
        ({"threshold": 0.6}, ["mary (a)", "^_^"]),
        ({"characters": 0.9}, ["^_^", "long hair"]),
        ({"rating": True, "exclude": ["^_^"]}, ["mary (a)", "long hair", "explicit"]),
    ],
)
def test_tags_above_their_threshold_are_told_characters_first(tmp_path: Path, params: dict, told: list[str]) -> None:
    assert Tagger(str(tagger(tmp_path)), **params)([PICTURE, PICTURE]) == [{"tags": told}] * 2


def test_the_network_sees_a_white_square_in_bgr(tmp_path: Path) -> None:
    pixels = squared(PICTURE, 8)
    assert pixels.shape == (8, 8, 3) and pixels.dtype == np.float32
    assert pixels[0, 0].tolist() == [255, 255, 255] and pixels[4, 4].tolist() == [0, 0, 255]
    annotator = Tagger(str(tagger(tmp_path)))
    annotator([PICTURE] * 3)
    assert [one.shape for one in annotator.session.seen] == [(3, SIDE, SIDE, 3)]


def test_a_missing_package_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Fault, match="DEP01") as caught:
        Tagger(str(tagger(tmp_path)))
    assert "pip install" in caught.value.fix


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("model.onnx", "no", "MOD02.*cannot be read by onnxruntime"),
        ("selected_tags.csv", "a,b\n1,2\n", "MOD02.*is not that of a WD tagger"),
        ("selected_tags.csv", "name,category\nx,0\n", "MOD02.*are not of one tagger"),
        ("selected_tags.csv", None, "MOD01.*the tagger has no selected_tags.csv"),
    ],
)
def test_files_that_do_not_fit_are_one_message(tmp_path: Path, file: str, content: str | None, told: str) -> None:
    tagger(tmp_path)
    (tmp_path / file).unlink() if content is None else (tmp_path / file).write_text(content)
    with pytest.raises(Fault, match=told):
        Tagger(str(tmp_path))([PICTURE])


def test_a_device_that_onnxruntime_has_not_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="DEV01"):
        Tagger(str(tagger(tmp_path)), device="cuda")
