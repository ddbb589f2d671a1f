"""What goes to the hub is what was exported, and what lies beside it for others to read."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.small import model

from ldm.convert.model_card import ModelCard
from ldm.convert.model_files import ExportSettings, export
from ldm.errors import Fault
from lun.publish.publication import Publication

CARD = ModelCard("---\n# license: FILL IN\n---\n# A\n", b"a picture")
METADATA = {"ss_tag_frequency": json.dumps({"a": {"cat": 1}}), "lun.run": "mine", "format": "pt"}


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Path]:
    """`exported(name) -> file`, with its card beside it."""

    def write(name: str = "a.safetensors") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file({"weight": torch.zeros(2)}, file, METADATA)
        CARD.beside(file)
        return file

    return write


def test_a_file_goes_with_its_card_its_picture_and_its_yaml_and_nothing_else(exported: Callable[..., Path]) -> None:
    file = exported()
    for name in ("a.yaml", "b.safetensors", "notes.txt", "a.ckpt"):
        (file.parent / name).write_text("x")
    found = Publication.of(str(file))
    assert sorted(found.files) == ["README.md", "a.png", "a.safetensors", "a.yaml"]
    assert found.files["README.md"] == file.with_suffix(".md") == found.card
    assert found.size == sum(path.stat().st_size for path in found.files.values())
    told = list(found.remarks())
    assert "licence waits to be filled in" in told[0] and "tags of the pictures" in told[1] and "a name" not in told[1]


def test_a_file_without_a_card_goes_and_that_is_said(exported: Callable[..., Path]) -> None:
    file = exported()
    for ending in (".md", ".png"):
        file.with_suffix(ending).unlink()
    found = Publication.of(str(file))
    assert list(found.files) == ["a.safetensors"] and "no card lies beside" in next(found.remarks())
    assert not found.lacks_a_licence


def test_of_a_run_its_newest_export_goes(exported: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    exported("exports/run-000002.safetensors")
    newest = exported("exports/run-000004.safetensors")
    (tmp_path / "exports/.run-000006.safetensors").write_text("half")
    assert Publication.of(str(tmp_path)).source == newest


def test_of_a_run_the_words_that_were_exported_with_the_adapters_go_along(
    exported: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "configs").mkdir()
    newest = exported("exports/run-000004.safetensors")
    for name in ("run-000004-cat", "run-000002-cat"):
        said = {"modelspec.architecture": "stable-diffusion-v1/textual-inversion"}
        save_file({"emb_params": torch.zeros(1, 2)}, newest.with_name(f"{name}.safetensors"), said)
    exported("exports/run-000003.safetensors")
    os.utime(newest, (2**31, 2**31))
    found = Publication.of(str(tmp_path))
    names = ["README.md", "run-000004-cat.safetensors", "run-000004.png", "run-000004.safetensors"]
    assert found.source == newest and sorted(found.files) == names


def test_of_a_folder_what_its_export_wrote_goes_and_a_page_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    export(model("sd1"), folder, ExportSettings("diffusers"))
    (folder / "README.md").write_text("# mine")
    (folder / "secret.txt").write_text("x")
    files = Publication.of(str(folder)).files
    assert {"README.md", "model_index.json", "unet/config.json"} <= set(files)
    assert not {"secret.txt", "lun.json"} & set(files)
    (folder / "unet/config.json").unlink()
    with pytest.raises(Fault, match="not whole") as fault:
        Publication.of(str(folder))
    assert fault.value.where == "unet/config.json"


def test_what_leads_out_of_a_folder_does_not_go(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").symlink_to(tmp_path / "secret")
    (tmp_path / "folder/lun.json").write_text('{"files": ["a"]}')
    with pytest.raises(Fault, match="no ordinary file"):
        Publication.of(str(tmp_path / "folder"))


@pytest.mark.parametrize(
    ("name", "id", "fix"),
    [
        ("nothing.safetensors", "MOD01", "available here: "),
        ("run", "MOD01", "python -m lun.convert "),
        ("last.ckpt", "MOD03", "python -m lun.convert "),
        ("empty.safetensors", "MOD02", ""),
        ("folder", "MOD03", "python -m lun.convert "),
    ],
)
def test_what_is_no_export_is_refused_with_what_makes_one(name: str, id: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "run/configs").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    for file in ("last.ckpt", "empty.safetensors"):
        (tmp_path / file).touch()
    with pytest.raises(Fault) as fault:
        Publication.of(str(tmp_path / name))
    assert fault.value.id == id and fault.value.fix.startswith(fix)
