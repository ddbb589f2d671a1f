"""Configs that stand on others."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.config.reading.load_layers import load_layers


def write(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return [str(folder / f"{name}.yaml") for name in texts]


def test_what_a_file_extends_lies_below_it_and_is_gone_from_the_result(tmp_path: Path) -> None:
    write(tmp_path, low="seed: 1\nmodel: {a: 1, b: 1}\n", middle="extends: [low]\nmodel: {a: 2}\n")
    (top,) = write(tmp_path, top="extends: [middle]\nseed: 3\n")
    merged = load_layers([top])
    assert merged.config == {"seed": 3, "model": {"a": 2, "b": 1}}
    assert [Path(name).stem for name in merged.files] == ["low", "middle", "top"]


def test_a_file_that_was_named_already_is_not_laid_over_the_others_again(tmp_path: Path) -> None:
    low, own = write(tmp_path, low="seed: 1\n", own="seed: 2\n")
    (top,) = write(tmp_path, top="extends: [low]\n")
    assert load_layers([low, own, top]).config["seed"] == 2
    assert load_layers([own, top, low]).config["seed"] == 1  # named once more on purpose


def test_two_files_that_extend_each_other_come_once_each(tmp_path: Path) -> None:
    a, _ = write(tmp_path, a="extends: [b]\nseed: 1\n", b="extends: [a]\nseed: 2\n")
    assert load_layers([a]).config["seed"] == 1


@pytest.mark.parametrize(
    ("text", "fault", "told"),
    [("extends: [lo]\n", "CFG01", "did you mean"), ("extends: low\n", "CFG03", "expected a list of configs")],
)
def test_what_cannot_be_extended_is_told_with_its_line(text: str, fault: str, told: str, tmp_path: Path) -> None:
    write(tmp_path, low="seed: 1\n")
    (top,) = write(tmp_path, top="seed: 0\n" + text)
    with pytest.raises(Fault) as caught:
        load_layers([top])
    assert caught.value.id == fault and told in str(caught.value) and "top.yaml:2" in caught.value.where


def test_a_config_extends_no_file_that_is_no_yaml_so_that_no_error_shows_its_lines(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("password: [unclosed", encoding="utf-8")
    (tmp_path / "c.yaml").write_text(f"extends: [{secret}]\n", encoding="utf-8")
    with pytest.raises(Fault) as caught:
        load_layers([str(tmp_path / "c.yaml")])
    assert caught.value.id == "CFG01"
    assert "unclosed" not in str(caught.value) + caught.value.where + caught.value.why
