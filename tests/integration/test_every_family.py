"""Each command takes files of each family that is shipped, and tells in words what else a file may be."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from support import small, small_sd3
from support.sd3 import VOCABULARY

from ldm.convert.model import Model
from ldm.convert.model_files import ExportSettings, export
from ldm.families.record import Family
from ldm.families.registry import SHIPPED
from ldm.files.read import read_state_dict
from ldm.files.write import write_safetensors
from lun.convert.command import run as convert
from lun.sample.command import run as sample
from lun.trainer import run as train

ROOT = Path(__file__).parents[2]
MODELS: dict[str, Callable[[], Model]] = {
    "sd1": lambda: small.model("sd1"),
    "sd2": lambda: small.model("sd2"),
    "sdxl": lambda: small.model("sdxl"),
    "sd3": lambda: small_sd3.model("medium"),
}
DRAWS = {"sd3": ["--size", "32", "--tokenizer", str(VOCABULARY)]}
"""What else the small models of a family need; the table of positions of this one is as large as 32 pixels."""


@pytest.fixture(scope="module", params=[family.name for family in SHIPPED])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small whole model of one family, as a single file of its name."""
    path = tmp_path_factory.mktemp(request.param) / f"{request.param}.safetensors"
    export(MODELS[request.param](), path, ExportSettings("ldm"))
    return path


def test_a_file_becomes_a_folder_and_the_same_file_again(file: Path, tmp_path: Path) -> None:
    folder, back = tmp_path / "folder", tmp_path / "back.safetensors"
    assert convert([str(file), str(folder), "--to", "diffusers"]) == 0
    assert convert([str(folder), str(back), "--to", "ldm"]) == 0
    assert small.same(read_state_dict(back), read_state_dict(file))


def test_a_file_draws_pictures(file: Path, tmp_path: Path) -> None:
    words = [str(file), "a cat", "--steps", "1", "--size", "64", "-o", str(tmp_path / "drawn"), "--device", "cpu"]
    assert sample([*words, *DRAWS.get(file.stem, [])]) == 0
    assert list((tmp_path / "drawn").glob("*.png"))


@pytest.mark.parametrize("family", SHIPPED, ids=lambda family: family.name)
def test_each_kind_of_a_family_that_is_written_has_a_config_whose_parts_are_in_the_list_of_settings(
    family: Family, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    keys = (ROOT / "configs" / "KEYS.md").read_text()
    written = " ".join(variant.config for variant in family.variants if variant.spec)
    configs = re.findall(r"configs/\S+\.yaml", written)
    assert configs
    for config in configs:
        assert train(["--base", config, "--print-config"]) == 0
        params = yaml.safe_load(capsys.readouterr().out)["model"]["params"]
        for part in ("unet_config", "first_stage_config", "cond_stage_config"):
            target = params[part]["target"]
            assert f"`{target}`" in keys, target


@pytest.mark.parametrize("command", [convert, sample], ids=["convert", "sample"])
def test_a_file_of_another_kind_is_one_message_that_says_what_it_looks_like(
    command: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.safetensors"
    write_safetensors(path, {"double_blocks.0.img_attn.qkv.weight": torch.zeros(6, 2)}, {})
    words = {convert: [str(path), str(tmp_path / "out"), "--to", "diffusers"], sample: [str(path), "a cat"]}
    assert command(words[command]) in range(2, 9)
    said = capsys.readouterr().err
    assert "Flux" in said and said.count("error[") == 1
