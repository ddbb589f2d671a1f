"""How a lone file's prediction becomes known."""

from pathlib import Path

import pytest
import torch
from support.small import FAMILIES

from ldm.convert.evidence import Evidence, evidence_of
from ldm.families.edm_marks import SIGMA_MAX
from ldm.families.sd2 import TELLTALE

FILE = Path("nowhere/x.safetensors")
ALIKE, SPREAD = torch.linspace(-0.05, 0.05, 100), torch.linspace(-1, 1, 100)


@pytest.mark.parametrize(
    ("state", "kind", "metadata", "prediction", "certain"),
    [
        ({}, "sd1", {}, "epsilon", True),
        ({}, "sd1", {"modelspec.prediction_type": "v"}, "v_prediction", True),
        ({"v_pred": SPREAD}, "sdxl", {"modelspec.predict_key": "epsilon"}, "epsilon", True),
        ({"v_pred": torch.zeros(0)}, "sdxl", {}, "v_prediction", True),
        ({TELLTALE: SPREAD}, "sd2", {}, "v_prediction", False),
        ({TELLTALE: ALIKE}, "sd2", {}, "epsilon", False),
        ({TELLTALE: SPREAD}, "sd2", {"modelspec.prediction_type": "epsilon"}, "epsilon", True),
        ({}, "sd2", {}, "epsilon", False),
        ({"v_pred": SPREAD}, "sdxl", {"modelspec.prediction_type": "flow"}, "flow_prediction", True),
    ],
)
def test_the_header_speaks_before_marks_and_marks_before_numbers(
    state: dict[str, torch.Tensor], kind: str, metadata: dict[str, str], prediction: str, certain: bool
) -> None:
    found = evidence_of(state, FAMILIES[kind], metadata, FILE)
    assert (found.prediction, found.certain) == (prediction, certain)


def test_the_yaml_beside_a_file_is_believed(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("model: {params: {parameterization: v}}")
    found = evidence_of({TELLTALE: ALIKE}, FAMILIES["sd2"], {}, tmp_path / "x.ckpt")
    assert found == Evidence("v_prediction", "x.yaml beside it", True)


@pytest.mark.parametrize("text", ["a: [", "just words", "model: 3", "model: {params: {parameterization: odd}}"])
def test_a_yaml_of_something_else_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert evidence_of({}, FAMILIES["sd1"], {}, tmp_path / "x.ckpt").reason == "what this family usually does"


def test_zero_terminal_signal_is_told_by_a_mark_or_the_header() -> None:
    zero = {"rescale_betas_zero_snr": True}
    assert evidence_of({"ztsnr": torch.zeros(0)}, FAMILIES["sdxl"], {}, FILE).scheduler == zero
    assert evidence_of({}, FAMILIES["sd1"], {"ss_zero_terminal_snr": "True"}, FILE).scheduler == zero
    assert not evidence_of({}, FAMILIES["sd1"], {}, FILE).scheduler


@pytest.mark.parametrize(
    ("state", "metadata", "prediction", "against"),
    [
        ({"v_pred": torch.zeros(0)}, {"modelspec.prediction_type": "epsilon"}, "epsilon", "its tensor v_pred"),
        ({"v_pred": torch.zeros(0)}, {"modelspec.prediction_type": "v"}, "v_prediction", ""),
        ({SIGMA_MAX: torch.tensor(80.0)}, {"modelspec.prediction_type": "epsilon"}, "v_prediction", "its metadata"),
        ({SIGMA_MAX: torch.tensor(80.0)}, {}, "v_prediction", ""),
    ],
)
def test_a_mark_and_a_header_that_disagree_are_told(
    state: dict[str, torch.Tensor], metadata: dict[str, str], prediction: str, against: str
) -> None:
    found = evidence_of(state, FAMILIES["sdxl"], metadata, FILE)
    assert found.prediction == prediction and found.against.startswith(against) and bool(found.against) == bool(against)
