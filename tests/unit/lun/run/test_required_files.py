"""What is not there is said before anything is imported, in the words of those who read it."""

from pathlib import Path
from typing import Any

import pytest

from ldm.errors import Fault
from ldm.files.weights_location import find_source
from lun.data.building import build_dataset
from lun.run.required_files import require_files


def local(root: str) -> dict[str, Any]:
    return {"target": "lun.data.local.Local", "params": {"data_root": root}}


def config(model: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    return {
        "model": {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": model or {}},
        "data": {"target": "lun.data.module.DataModuleFromConfig", "params": data},
    }


@pytest.mark.parametrize("split", ["train", "validation", "train.sets.cats"])
def test_a_folder_that_is_not_there_is_told_as_its_reader_tells_it(split: str, tmp_path: Path) -> None:
    recipe, there = local(str(tmp_path / "gone")), local(str(tmp_path))
    sets = {"sets": {"cats": recipe, "dogs": there, "none": None}}
    data = {"train": sets} if "sets" in split else {"train": there, split: recipe}
    with pytest.raises(Fault) as early:
        require_files(config(**data), resumed=True)
    with pytest.raises(Fault) as late:
        build_dataset(recipe, split)
    assert early.value.id == "DAT01" and early.value.render() == late.value.render()


@pytest.mark.parametrize("model", [{}, {"unet_config": {}}, {"cond_stage_config": {"t5": "t5"}}])
def test_weights_that_are_not_there_are_told_as_their_reader_tells_it(model: dict[str, Any], tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.ckpt")
    paths = {name: {"params": {"ckpt_path": dict.fromkeys(one, gone) or gone}} for name, one in model.items()}
    with pytest.raises(Fault) as early:
        require_files(config(paths or {"ckpt_path": gone}), resumed=False)
    with pytest.raises(Fault) as late:
        find_source(gone, "unet")
    assert early.value.id == "MOD01" and early.value.render() == late.value.render()


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as told:
        require_files(config({"ckpt_path": "gone.ckpt"}, train=local(str(tmp_path / "gone"))), resumed=False)
    assert [fault.id for fault in told.value.exceptions] == ["DAT01", "MOD01"]


def test_a_run_that_goes_on_needs_no_weights_to_begin_with() -> None:
    require_files(config({"ckpt_path": "gone.ckpt"}, train=local(".")), resumed=True)


def test_what_is_there_and_what_only_its_owner_knows_is_left_to_its_owner(tmp_path: Path) -> None:
    of_ones_own = {"target": "lun.local.mine.Pictures", "params": {"data_root": "gone"}}
    model = {"ckpt_path": "org/name", "unet_config": {"params": {"ckpt_path": str(tmp_path)}}}
    require_files(config(model, train=of_ones_own, validation=None), resumed=False)
    own = {"model": {"target": "lun.local.mine.Model", "params": {"ckpt_path": "gone"}}}
    require_files({**config(), **own}, resumed=False)
