"""Numbers in pages that the program can compute are what it computes today."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support import bitsandbytes_stub
from support.compvis import config_of
from support.pages import ROOT, rows
from support.runs import newest_run

from ldm.ema.profiles import PowerDecay, sigma_rel_of_gamma
from ldm.keys.split_checkpoint import UNET
from ldm.util import get_obj_from_str, instantiate_from_config
from lun.callbacks.divergence import Divergence
from lun.cli.parser import parse
from lun.cli.usage import usage
from lun.data.images.preparation import Preparation
from lun.memory.command import run as forecast
from lun.posthoc_ema.command import run as posthoc
from lun.trainer import run

GUIDANCE = "unconditional_guidance_scale"
DEMO = ROOT / "configs/demo"
Said = Callable[[Callable[[list[str]], int], str], str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command prints."""
    monkeypatch.chdir(ROOT)
    bitsandbytes_stub.install(monkeypatch)

    def ask(command: Callable[[list[str]], int], line: str) -> str:
        capsys.readouterr()
        assert command(line.split()) == 0
        return capsys.readouterr().out

    return ask


def subjects(split: str) -> set[str]:
    return {path.stem.rpartition("-")[0] for path in (DEMO / "data" / split / "img").iterdir()}


def backgrounds() -> set[str]:
    return {path.stem.rpartition("-")[2] for path in (DEMO / "data/train/img").iterdir()}


def pictures(split: str) -> int:
    return len(list((DEMO / "data" / split / "img").iterdir()))


def default(path: str, name: str) -> object:
    return inspect.signature(get_obj_from_str(path)).parameters[name].default


def shipped(*keys: str) -> object:
    found = yaml.safe_load((ROOT / "configs/training-lightning.yaml").read_text("utf-8"))["lightning"]["callbacks"]
    for key in keys:
        found = found[key]
    return found


def unet_size() -> float:
    model = instantiate_from_config(config_of([ROOT / "configs/models/sd15.yaml"], DEMO / "data/train")["model"])
    (part,) = [part for part in model.part_recipes().values() if part.prefix == UNET]
    return round(sum(weight.numel() for weight in part.build_on_meta().parameters()) / 1e6, 1)


# The page, its words around the number, and what they say.
NUMBERS: list[tuple[str, str, Callable[[], object]]] = [
    ("README.md", r"trains on (\d+) emoji pictures", lambda: pictures("train")),
    ("README.md", r"It learns (\d+) emoji on", lambda: len(subjects("train"))),
    ("README.md", r"emoji on (\d+) backgrounds", lambda: len(backgrounds())),
    ("README.md", r"background right in \d+ of (\d+)", lambda: pictures("held-out")),
    ("docs/ema.md", r"power law of\s+width ([\d.]+) until", lambda: round(sigma_rel_of_gamma(8), 2)),
    ("docs/ema.md", r"until step 9 / \(1 - decay\): ([\d,]+) steps for 0.9999", lambda: f"{9 / (1 - 0.9999):,.0f}"),
    ("docs/ema.md", r"and weights: ([\d.]+) % for 0.9999 and 10", lambda: f"{(10 - 1) * 1e-4 / 2 * 100 + 1e-9:.2f}"),
    ("docs/ema.md", r"\*\*`update_every`\*\* \((\d+)\)", lambda: default("ldm.modules.ema.LitEma", "update_every")),
    ("docs/ema.md", r"all ([\d.]+) million parameters of SD 1.x's UNet", unet_size),
    ("docs/ema.md", r"that is ([\d.]+) GB a file", lambda: round(unet_size() * 2 / 1e3, 1)),
    ("docs/ema.md", r"`auto` reckons ([\d.]+), [\d.]+, [\d.]+ %", lambda: auto_reckons(0.05)),
    ("docs/ema.md", r"`auto` reckons [\d.]+, ([\d.]+), [\d.]+ %", lambda: auto_reckons(0.10)),
    ("docs/ema.md", r"`auto` reckons [\d.]+, [\d.]+, ([\d.]+) %", lambda: auto_reckons(0.20)),
    ("configs/README.md", r"every_n_train_steps: (\d+), every_minutes", lambda: overwritten("every_n_train_steps")),
    ("configs/README.md", r"every_minutes: (\d+)`", lambda: overwritten("every_minutes")),
    ("configs/README.md", r"ddim_steps: (\d+), uncond", lambda: shown_pictures("ddim_steps")),
    (
        "configs/README.md",
        r"guidance_scale: ([\d.]+)}` says how",
        lambda: shown_pictures(GUIDANCE),
    ),
    ("docs/safety.md", r"skip_steps=(\d)` leaves out", lambda: 3 if "skip_steps" in keys_of(Divergence) else None),
    ("docs/migration.md", r"`--flip_aug` \| `[\w.]+flip_p=([\d.]+)`", lambda: keys_of(Preparation)["flip_p"].default),
]


def auto_reckons(width: float) -> float:
    return round(100 * PowerDecay(width).interval_error(10, 1000), 1)


def overwritten(name: str) -> object:
    return shipped("periodic_checkpoint_overwrite", "params", name)


def shown_pictures(name: str) -> object:
    return shipped("image_logger", "params", "log_images_kwargs", name)


def keys_of(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(target).parameters)


@pytest.mark.parametrize(("page", "words", "computed"), NUMBERS, ids=[words for _, words, _ in NUMBERS])
def test_a_number_is_what_the_program_says(page: str, words: str, computed: Callable[[], object]) -> None:
    found = re.findall(words, (ROOT / page).read_text("utf-8"))
    assert found, f"{page} no longer says {words}"
    assert set(found) == {str(computed())}


def test_the_sizes_of_snapshots_are_those_that_the_command_prints(said: Said) -> None:
    page = (ROOT / "docs/ema.md").read_text("utf-8")
    whole, planned = re.findall(r"(\d+) GB in all for the default; `(plan [^`]*)` prints (\d+) GB", page)[0][::2]
    assert f"{float(re.findall(r'([0-9.]+) GB', said(posthoc, 'plan'))[0]):.0f}" == whole
    (line,) = re.findall(r"`(plan --widths [^`]*)` prints", page)
    assert f"{float(re.findall(r'([0-9.]+) GB', said(posthoc, line))[0]):.0f}" == planned


FORECASTS = [(row[0].strip("`"), float(row[1])) for row in rows(ROOT / "docs/hardware.md", "Of single options")[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "peak"), FORECASTS)
def test_a_forecast_is_what_the_command_prints(line: str, peak: float, said: Said) -> None:
    assert re.findall(r"^peak +([\d.]+) GiB", said(forecast, line), re.MULTILINE) == [f"{peak:.1f}"]


@pytest.mark.slow
def test_what_adafactor_keeps_is_what_the_forecast_says(said: Said) -> None:
    said_of_it = Path("configs/options/adafactor.yaml").read_text("utf-8")
    (kept,) = re.findall(r"states of Stable Diffusion 1.5 take ([\d.]+) GiB", said_of_it)
    assert f"optimizer {kept}" in said(forecast, "--base sd15 bf16 adafactor")


def test_every_card_of_the_page_has_a_forecast_that_leaves_a_gibibyte() -> None:
    recipes = rows(ROOT / "docs/hardware.md", "Predicted memory")[1:]
    stated = {f"--base {model} {card}".replace("`", ""): float(peak) for card, model, peak in recipes} | dict(FORECASTS)
    for card, lines, *_ in rows(ROOT / "docs/hardware.md", "What runs on which card")[1:]:
        for line in re.findall(r"`(--base [^`]+)`", lines):
            size = int(re.findall(r"(\d+) GB", card)[0])
            assert stated[line] + 1 <= size, f"{line} takes {stated[line]} GiB, which {card} has not"


def test_the_tree_of_a_run_is_what_the_demos_line_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of `--help`, cut short."""
    monkeypatch.chdir(ROOT)
    (line,) = re.findall(r"the demo, on any computer:\n +python main.py (.*)", usage())
    short = ["lightning.trainer.max_steps=2", "lightning.trainer.val_check_interval=2"]
    for setting in ("batch_frequency=2", "log_images_kwargs.ddim_steps=1"):
        short.append(f"lightning.callbacks.image_logger.params.{setting}")
    assert run([*line.split(), *short, "-l", str(tmp_path), "-n", "again"]) == 0
    written = newest_run(tmp_path)
    (tree,) = re.findall(r"```\nlogs/latest -> .*?\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    named = [name for row in tree.splitlines()[1:] for name in re.split(r"  +", row.strip())[:-1]]
    assert len(named) > 8 and [name for name in named if not (written / name).exists()] == []
    tops = {name.partition("/")[0] for name in named}
    assert {path.name for path in written.iterdir() if path.name[0] != "."} - tops <= {"control"}
    assert parse(line.split()).train and json.loads((written / "run.json").read_text())["status"] == "done"
    assert not list(written.glob("tensorboard/version_*"))


def test_a_resumed_run_goes_on_in_the_same_folder_of_tensorboard(tmp_path: Path) -> None:
    from lun.run.run_loggers import build_loggers

    recipes = yaml.safe_load((ROOT / "configs/training-lightning.yaml").read_text("utf-8"))["lightning"]["logger"]
    for _ in range(2):
        (logger,) = build_loggers({"tensorboard": recipes["tensorboard"]}, tmp_path)
        logger.log_metrics({"loss": 1.0}, 1)
        logger.finalize("success")
    assert {path.parent for path in tmp_path.rglob("events.*")} == {tmp_path / "tensorboard"}
