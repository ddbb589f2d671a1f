"""`python -m lun.pack`: which recipe it packs, and what it refuses."""

from pathlib import Path

import pytest
import yaml
from support.runs import make_pictures

from lun.data.packed import PackedSet
from lun.pack.command import run


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    local = {"target": "lun.data.local.Local"}
    named = {
        name: {**local, "params": {"data_root": str(make_pictures(tmp_path / name, 3 + n, n)), "size": 8}, "weight": 1}
        for n, name in enumerate(("cats", "dogs"))
    }
    path = tmp_path / "sets.yaml"
    path.write_text(yaml.safe_dump({"data": {"params": {"train": {"sets": named}}}}))
    return path


def test_a_folder_alone_and_one_of_several_sets(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(tmp_path / "cats"), "-o", str(tmp_path / "a")]) == 0
    assert "target: lun.data.packed.PackedSet" in capsys.readouterr().out
    assert run(["--base", str(sets), "--set", "dogs", "-o", str(tmp_path / "b")]) == 0
    assert [len(PackedSet(str(tmp_path / name))) for name in "ab"] == [3, 4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "out"], "there is nothing to pack"),
        (["cats"], "nothing says where the set goes"),
        (["cats", "--set", "cats", "-o", "out"], "and there is no config"),
        (["--base", "sets.yaml", "-o", "out"], "--set cats or --set dogs"),
        (["--base", "sets.yaml", "--set", "birds", "-o", "out"], "there is no set birds"),
        (["--base", "sets.yaml", "--set", "cats", "--split", "test", "-o", "out"], "has no data.params.test"),
        (["cats", "--shard-mb", "0", "-o", "out"], "--shard-mb cannot be 0"),
        (["cats", "--max-side", "-3", "-o", "out"], "--max-side cannot be -3"),
    ],
)
def test_bad_input_is_one_message(
    sets: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(sets.parent)
    assert run(words) in (2, 3)
    said = capsys.readouterr().err
    assert told in said and said.count("error[") == 1
