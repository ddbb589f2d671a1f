"""Anything at all in a run directory that was shared: every command that reads it answers in words, soon."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import strategies as st
from safetensors.torch import safe_open, save_file
from support.fuzzing import COUNTS, MANY, TORN, VALUES, fuzz, places, put, require_answer
from support.runs import TINY, load, make_pictures, newest_run

from ldm.files.ema_snapshot import _checksum
from lun.convert.command import run as convert
from lun.posthoc_ema.command import run as posthoc_ema
from lun.sample.command import run as sample
from lun.trainer import run as train

POWER = TINY.parents[2] / "configs/options/ema-power.yaml"
PREVIEWS = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, "
    "prompts: [red noise], log_images_kwargs: {ddim_steps: 1, unconditional_guidance_scale: 2.0}}}"
)
UNET = "model.params.unet_config.params"
ONE_BLOCK = {"block_out_channels": "[8]", "down_block_types": "[DownBlock2D]", "up_block_types": "[UpBlock2D]"}
TRAINED = "{target: ldm.training.rules.Rules, params: {rules: {"
TRAINED += "part: {match: unet.conv_in*, train: true}, rest: {match: '*', train: false}}}}"
ODD = VALUES | st.sampled_from([10**400, -1, "", [], {}, "../../x", "/", "\x1b[2J", "x" * 5000])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps with snapshots of its averages and pictures, and as few tensors as a family can have.

    What a case costs is to read them: several times, in Python, as pickles are looked through before they are trusted.
    """
    folder = tmp_path_factory.mktemp("runs")
    pictures = make_pictures(folder / "pictures", 3)
    line = ["--base", str(POWER), str(TINY), "--logdir", str(folder / "logs"), "--data_root", str(pictures), PREVIEWS]
    others = {f"data.params.validation.params.{k}": v for k, v in {"size": 8, "data_root": pictures}.items()}
    others |= {"data.params.validation.target": "lun.data.local.Local", "lightning.trainer.val_check_interval": 100}
    others |= {"lightning.callbacks.ema_snapshots.params.count": 2}
    others |= {f"{UNET}.{key}": value for key, value in ONE_BLOCK.items()}
    others |= {"model.params.cond_stage_trainable": "false", "model.params.training_config": TRAINED}
    settings = [f"{key}={value}" for key, value in others.items()]
    assert train([*line, *settings, "--max_steps", "2", "-t"]) == 0
    return newest_run(folder / "logs")


@pytest.fixture
def shared(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, as it was sent by somebody."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "run", symlinks=True))


def commands(run: Path) -> list[Callable[[], None]]:
    """Each command that reads a run directory."""
    out = run.parent / "out"
    lines: list[tuple[Callable[[list[str]], int], list[str]]] = [
        (train, ["-r", str(run), "--check"]),
        (convert, [str(run), str(out / "x.safetensors"), "--to", "ldm"]),
        (sample, [str(run), "--steps", "1", "-o", str(out / "drawn")]),
        (posthoc_ema, ["inspect", str(run)]),
        (posthoc_ema, ["export", str(run), "-o", str(out / "ema.safetensors")]),
    ]
    return [partial(require_answer, command, words) for command, words in lines]


def ask(run: Path, which: int) -> None:
    shutil.rmtree(run.parent / "out", ignore_errors=True)
    asked = commands(run)
    asked[which % len(asked)]()


WHICH = st.integers(0, 4)


def changes(value: Any) -> st.SearchStrategy[bytes]:
    """A stored map with another value in one of its places, as JSON."""
    changed = st.builds(partial(put, value), st.sampled_from(list(places(value))), ODD)
    return changed.map(lambda found: json.dumps(found).encode()) | TORN


Harm = tuple[str, Callable[[Path], object]]
"""A file of a run and what is done to its place, once it is gone."""

DESCRIBED = ("run.json", "configs/resolved.yaml", "checkpoints/last.ckpt.json")
# fmt: off
NAMES = (
    *DESCRIBED, "configs", "checkpoints", "checkpoints/last.ckpt", "images", "control", "images/samples/samples.jsonl",
    "ema-snapshots", "ema-snapshots/base.safetensors", ".lock",
)
# fmt: on


def _link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _endless(path: Path) -> None:
    path.symlink_to(path.name)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _nothing(path: Path) -> None:
    """As if it had never been there."""


def described(run: Path, name: str) -> st.SearchStrategy[Harm]:
    text = (run / name).read_text()
    known = yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)
    return changes(known).map(lambda found: (name, partial(_write, content=found)))


def noted(run: Path) -> st.SearchStrategy[Harm]:
    """The last checkpoint with something else in one place of what it holds beside weights."""
    checkpoint = load(run / "checkpoints/last.ckpt")
    spots = [(key,) for key in checkpoint] + [("lun", *path) for path in places(checkpoint["lun"]) if path]

    def save(path: Path, spot: tuple[Any, ...], value: Any) -> None:
        path.with_name(path.name + ".json").unlink()
        torch.save(put(checkpoint, spot, value), path)

    harm = st.builds(partial, st.just(save), spot=st.sampled_from(spots), value=ODD)
    return harm.map(lambda found: ("checkpoints/last.ckpt", found))


@pytest.mark.parametrize(("count", "texts_alone"), [(60, True), pytest.param(MANY, False, marks=COUNTS[1].marks)])
def test_anything_in_a_run_directory_is_answered(
    trained: Path, tmp_path: Path, count: int, texts_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values in what describes it, and folders, pipes, links and devices in the place of its files."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    makers = [Path.mkdir, os.mkfifo, _endless, _link_to_zeros, _nothing]
    replaced = st.tuples(st.sampled_from(NAMES), st.sampled_from(makers))

    def check(case: tuple[Harm, int]) -> None:
        (name, make), which = case
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(trained, run, symlinks=True, copy_function=os.link)  # which no command writes into
        place = run / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        make(place)
        ask(run, which)

    texts = [described(trained, name) for name in DESCRIBED]
    harms = st.one_of(*texts) if texts_alone else st.one_of(*texts, noted(trained), replaced)
    fuzz(count, st.tuples(harms, WHICH), check)


@pytest.mark.parametrize("count", COUNTS)
def test_any_snapshot_of_an_average_is_answered(shared: Path, count: int) -> None:
    """Also one whose header matches its own checksum."""
    file = sorted((shared / "ema-snapshots").glob("power-*.safetensors"))[-1]
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118, it is no mapping
    known = {**metadata, "about": json.loads(metadata["about"]), "exponents": json.loads(metadata["exponents"])}
    spots = [(key,) for key in known] + [("about", key) for key in known["about"]]
    spots += [("exponents", key) for key in list(known["exponents"])[:3]]

    def check(case: tuple[tuple[str, ...], Any, bool]) -> None:
        changed = put(known, case[0], case[1])
        said = {key: value if isinstance(value, str) else json.dumps(value) for key, value in changed.items()}
        save_file(tensors, file, {**said, "crc32": _checksum(said)})
        words = ["inspect", str(shared)]
        width = ["reconstruct", str(shared), "--width", "0.08", "-o", str(shared.parent / "out.safetensors"), "--force"]
        require_answer(posthoc_ema, width if case[2] else words)
        (shared.parent / "out.safetensors").unlink(missing_ok=True)

    fuzz(count, st.tuples(st.sampled_from(spots), ODD, st.booleans()), check)
