"""Anything at all as a config, a command line, a description of pictures or a weights file: answered in words, soon."""

import json
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.board import put_board
from support.damage import flips
from support.fuzzing import FEW, MANY, SCALARS, VALUES, WORDS, places, require_answer
from support.runs import TINY

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.files.read import read_outline, read_state_dict
from lun.checkpoints.atomic import unreadable
from lun.data.index.store import index_path
from lun.data.local import Local
from lun.trainer import run


def few(function: Any) -> Any:
    return settings(max_examples=FEW, suppress_health_check=list(HealthCheck))(function)


def many(function: Any) -> Any:
    slow = settings(max_examples=MANY, suppress_health_check=list(HealthCheck))(function)
    return pytest.mark.timeout(3600)(pytest.mark.slow(slow))


CONFIG = yaml.safe_load(TINY.read_text())
PLACES = [path for path in places(CONFIG) if path]


def changed(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """The tiny config with values put in places of it, one after the other."""
    config = yaml.safe_load(TINY.read_text())
    for path, value in changes:
        place = config
        for key in path[:-1]:
            place = place[key] if isinstance(place, dict) and isinstance(place.get(key), dict) else {}
        place[path[-1]] = value
    return config


CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=4)
TEXTS = st.text(st.sampled_from(string.printable + "é\ufeff\x00→"), max_size=60) | st.lists(WORDS, max_size=8).map(
    " ".join
)


def check_config(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fuzz.yaml")
        path.write_bytes(content)
        require_answer(run, ["--base", str(TINY), str(path), "--data_root", folder, "--check"])


def dumped(config: Any) -> bytes:
    return yaml.safe_dump(config, allow_unicode=True).encode("utf-8", "surrogatepass")


@few
@given(CHANGES)
def test_any_change_of_a_config_is_answered(changes: list[Any]) -> None:
    check_config(dumped(changed(changes)))


@many
@given(CHANGES)
def test_thousands_of_changes_of_a_config_are_answered(changes: list[Any]) -> None:
    check_config(dumped(changed(changes)))


@few
@given(TEXTS | st.binary(max_size=40))
def test_any_text_is_answered_as_a_config(text: str | bytes) -> None:
    check_config(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))


@many
@given(TEXTS | st.binary(max_size=40))
def test_thousands_of_texts_are_answered_as_configs(text: str | bytes) -> None:
    check_config(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))


# fmt: off
FLAGS = st.sampled_from(
    [
        "--base", "-b", "--resume", "-r", "--name", "-n", "--init-from", "--seed", "-s", "--scale_lr", "--check",
        "--print-config", "--data_root", "--allow", "--logdir", "--time-limit", "--accept-change",
        "--max_steps", "--devices", "--precision", "--gpus", "--help", "--version", "-x", "--",
    ]
)
# fmt: on
LINES = st.lists(FLAGS | SCALARS.map(str) | st.sampled_from([str(TINY), "a.b=c", "~a", "a=[", "model.x=1"]), max_size=6)


def check_line(words: list[str], folder: Path) -> None:
    """In an empty folder, which stays so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LUN_DEBUG", "")
        require_answer(run, [word.replace("\0", "") for word in words] + ["--check"])
        assert list(folder.iterdir()) == []


@few
@given(LINES)
def test_any_command_line_is_answered(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    check_line(words, tmp_path_factory.mktemp("empty"))


@many
@given(LINES)
def test_thousands_of_command_lines_are_answered(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    check_line(words, tmp_path_factory.mktemp("empty"))


# fmt: off
KEYS = st.sampled_from(
    [
        "path", "file_name", "tags", "text", "caption", "score", "aspect_ratio", "width", "height", "date", "rating",
        "repeats", "weight", "prompt", "image",
    ]
)
# fmt: on
ODD = SCALARS | st.sampled_from(
    ["img/0.png", "../x", "a, b", "2022-09-01", "0001-01-01T00:00:00+23:59", 1e308, -0.0, 10**400, "\ud800", "||a||"]
)
RECORDS = st.dictionaries(KEYS, ODD | st.lists(ODD, max_size=3) | st.dictionaries(KEYS, ODD, max_size=2), max_size=6)
RULES = st.sampled_from(
    [
        {},
        {"min_score": 1, "tag_bonus_scores": {"a": 2.0}},
        {"aspect_range": [0.5, 2.0], "min_size": 2},
        {"ratings": ["s"], "min_date": "2000-01-01"},
        {"shuffle_tag_p": 0.5, "tag_dropout_p": 0.5, "words": "either", "score_tags": [1, 100]},
        {"blacklist_tags": [True], "require_tags": ["a"], "replacements": {"||a||": "b"}},
    ]
)


def check_records(records: list[Any], rules: dict[str, Any], by_line: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = put_board(Path(folder), {"0": {"path": "img/0.png", "tags": ["a"], "score": 5}})
        for number, record in enumerate(records):
            (root / "metadata" / f"x{number}.json").write_text(json.dumps(record))
        if by_line:
            lines = "\n".join(json.dumps({"file_name": "img/0.png", "text": "x"} | record) for record in records)
            (root / "metadata.jsonl").write_text(lines)
        try:
            layout = {"layout": "imagefolder"} if by_line else {"metadata_params": rules}
            found = Local(str(root), size=4, **layout)  # type: ignore[arg-type]
            found.fingerprint(), found.weights(), found.repeats()
            for index in range(len(found)):
                assert isinstance(found.caption(index, Draws(0, index)), str)
                found.example(index, Draws(0, index))
        except Fault:
            pass


@few
@given(st.lists(RECORDS | VALUES, max_size=3), RULES)
def test_any_description_is_read_or_told(records: list[Any], rules: dict[str, Any]) -> None:
    check_records(records, rules, by_line=False)


@few
@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_any_line_of_descriptions_is_read_or_told(records: list[Any]) -> None:
    check_records(records, {}, by_line=True)


@many
@given(st.lists(RECORDS | VALUES, max_size=3), RULES)
def test_thousands_of_descriptions_are_read_or_told(records: list[Any], rules: dict[str, Any]) -> None:
    check_records(records, rules, by_line=False)


def check_weights(whole: Path, copy: Path, count: int) -> None:
    for position in flips(whole, copy, count):
        for read in (read_outline, read_state_dict):
            try:
                read(copy)
            except Fault as fault:
                assert fault.id in ("MOD02", "MOD05"), (position, fault)


@pytest.mark.parametrize("ending", ["safetensors", "ckpt"])
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_any_flipped_bit_of_a_weights_file_is_read_or_told(tmp_path: Path, ending: str, count: int) -> None:
    state, whole = {"a.weight": torch.randn(40, 40), "b.bias": torch.ones(7)}, tmp_path / f"whole.{ending}"
    if ending == "ckpt":
        torch.save({"state_dict": state, "global_step": 3}, whole)
    else:
        from safetensors.torch import save_file

        save_file(state, whole, {"note": "hello"})
    check_weights(whole, tmp_path / f"copy.{ending}", count)
    if ending == "ckpt":
        assert unreadable(whole) is None


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_any_flipped_bit_of_an_index_is_of_no_consequence(tmp_path: Path, count: int) -> None:
    """What does not match its checksum is read again from the folder."""
    root = put_board(tmp_path / "board", {f"{i}": {"path": f"img/{i}.png", "tags": [f"t{i}"]} for i in range(5)})

    def facts() -> list[Any]:
        found = Local(str(root), metadata_params={})
        return [found.names(), [found.caption(index) for index in range(5)], found.sizes().tolist()]

    expected = facts()
    for kind in ("board", "sizes"):
        path = index_path(root, kind)
        whole = path.rename(tmp_path / "whole")
        for position in flips(whole, path, count):
            assert facts() == expected, position
