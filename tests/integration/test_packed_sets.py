"""A packed set through whole runs: the same as its folder, killed between, beside another set, from a cache."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.equality import differences, final_state
from support.runs import make_pictures, newest_run

from lun.pack.command import run as pack

Lun = Callable[..., int]
STEPS = "lightning.trainer.max_steps="
HORIZON = "model.params.scheduler_config.params.total_steps=4"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("folders")
    loose = make_pictures(root / "loose", 7)
    assert pack([str(loose), "-o", str(root / "packed"), "--order", "given", "--shard-mb", "0.003"]) == 0
    return {"loose": loose, "packed": root / "packed", "other": make_pictures(root / "other", 3, 5)}


def recipe(root: Path, **params: object) -> dict[str, object]:
    target = "lun.data.packed.PackedSet" if root.name == "packed" else "lun.data.local.Local"
    return {"target": target, "params": {"data_root": str(root), "size": 8, **params}}


def config(tmp_path: Path, train: object, **data: object) -> list[str]:
    path = tmp_path / "data.yaml"
    path.write_text(yaml.safe_dump({"data": {"params": {"train": train, **data}}}))
    return ["--base", str(path), "-t", HORIZON]


def trained(lun: Lun, tmp_path: Path, words: list[str], steps: int = 4) -> object:
    assert lun(*words, f"{STEPS}{steps}", data=None) == 0
    return final_state(newest_run(tmp_path / "logs"))


def test_training_on_a_packed_set_is_training_on_its_folder(lun: Lun, tmp_path: Path, folders: dict[str, Path]) -> None:
    packed = trained(lun, tmp_path, config(tmp_path, recipe(folders["packed"], window=None)))
    loose = trained(lun, tmp_path, config(tmp_path, recipe(folders["loose"])))
    assert [one for one in differences(packed, loose) if "data" not in one] == []


@pytest.mark.parametrize("beside", [False, True])
def test_a_run_in_windows_that_is_stopped_goes_on_as_one_that_was_not(
    lun: Lun, tmp_path: Path, folders: dict[str, Path], beside: bool
) -> None:
    packed = recipe(folders["packed"], window=2)
    sets = {"packed": {**packed, "weight": 2}, "other": {**recipe(folders["other"]), "weight": 1}}
    buckets = {"resolutions": [8], "step": 4}
    words = config(tmp_path, {"sets": sets} if beside else packed, buckets=buckets, cache=not beside)
    straight = trained(lun, tmp_path, words)
    trained(lun, tmp_path, words, 2)
    run = newest_run(tmp_path / "logs")
    assert lun("-r", str(run), "-t", f"{STEPS}4", base=False) == 0
    assert differences(straight, final_state(run)) == []


def test_a_damaged_shard_ends_the_run_by_name(
    lun: Lun, tmp_path: Path, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "packed"
    broken.mkdir()
    for file in folders["packed"].iterdir():
        data = bytearray(file.read_bytes())
        if file.suffix == ".tar":
            data[600] ^= 1
        (broken / file.name).write_bytes(data)
    assert lun(*config(tmp_path, recipe(broken)), f"{STEPS}2", data=None) == 3
    said = capsys.readouterr().err
    assert "error[DAT14]" in said and ".tar#" in said and said.count("error[") == 1
