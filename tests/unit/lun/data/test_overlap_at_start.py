"""What the program says of data sets at its start, through the command that a person uses."""

from pathlib import Path

import yaml
from support.runs import TINY, make_pictures

from lun.trainer import run


def plan(tmp_path: Path, validation: dict[str, object], capsys) -> str:
    root = make_pictures(tmp_path / "set", 20)
    recipe = {"target": "lun.data.local.Local", "params": {"data_root": "???", "size": 8, **validation}}
    train = {"params": {"split": {"fraction": 0.3}, "subset": "train"} if validation else {}}
    file = tmp_path / "over.yaml"
    file.write_text(yaml.safe_dump({"data": {"params": {"train": train, "validation": recipe}}}))
    assert run(["--base", str(TINY), str(file), "--data_root", str(root)]) == 0
    said = capsys.readouterr()
    return said.out + said.err


def test_the_layout_is_said_and_validation_on_training_pictures_is_told(tmp_path, capsys):
    said = plan(tmp_path, {}, capsys)
    assert f"layout   {tmp_path}/set: flat (img/ + txt/), 20 images" in said
    assert "warning[DAT10]: 20 of the 20 images for validation are trained on" in said


def test_a_split_by_hash_shares_one_folder_without_a_warning(tmp_path, capsys):
    said = plan(tmp_path, {"split": {"fraction": 0.3}, "subset": "validation"}, capsys)
    assert "DAT10" not in said
    assert "held for validation" in said
