"""Flags in the place of settings, as a person reads them."""

import pytest

from ldm.convert.model_files import ExportSettings, require_free
from ldm.errors import Fault
from ldm.files.sniff import bare_pickle
from lun.console import fault_report
from lun.console.fault_flags import with_flags


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ("model.params.ckpt_path=FILE, or on purpose: x", "--init-from FILE, or on purpose: x"),
        ("dtype=bf16, or dtype=fp32", "--dtype bf16, or --dtype fp32"),
        ("(to=diffusers)", "(--to diffusers)"),
        ("add one with vae=FILE", "add one with --vae FILE"),
        ("weights=raw, or leave ema=true out", "--raw, or leave --ema out"),
        ("ema=false", "--no-ema"),
        ("named: family=dit, family=MODULE.DIT", "named: --family dit, --family MODULE.DIT"),
        (
            "text_encoder.t5=a/t5.safetensors text_encoder.clip=null",
            "--text-encoder t5=a/t5.safetensors --text-encoder clip=null",
        ),
        ("tokenizer=FOLDER, of a pipeline", "--tokenizer FOLDER, of a pipeline"),
    ],
)
def test_a_setting_is_worded_as_the_flag_that_changes_it(setting: str, flag: str) -> None:
    assert with_flags(setting) == flag


@pytest.mark.parametrize(
    "text", ["data.params.cache.dtype=fp16", "model.params.ckpt_path=sd.ckpt", "use_ema=false", "/my/to=it/force=true"]
)
def test_settings_of_a_configuration_stay(text: str) -> None:
    assert with_flags(text) == text


def test_a_fault_is_shown_with_the_flags(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    settings = ExportSettings(to="ldm")
    (tmp_path / "out.safetensors").touch()
    with pytest.raises(Fault) as taken:
        require_free(tmp_path / "out.safetensors", settings)
    fault_report.show([taken.value, bare_pickle(tmp_path / "a b.ckpt")])
    shown = capsys.readouterr().err
    assert "name another place, or --force to replace it" in shown
    assert "-m lun.convert '" in shown and "a b.safetensors' --to ldm --trust-pickle" in shown
