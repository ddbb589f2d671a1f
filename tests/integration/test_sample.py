"""Pictures from a run and from published weights, as a person asks for them."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file
from support.parts import put_in_parts
from support.runs import TINY, load, newest_run
from support.small import contents, single_file

from ldm.keys.averaged import averaged_name
from ldm.keys.split_checkpoint import UNET
from ldm.models.diffusion.ddpm import DDPM
from lun.cli.arguments import Arguments
from lun.config.stored import read_stored
from lun.convert.command import run as convert
from lun.data.cache.cache_settings import Cache
from lun.data.local import Local
from lun.data.module import DataModuleFromConfig
from lun.memory.forecast import forecast
from lun.plan.plan import Plan
from lun.posthoc_ema.sweeping import Validation
from lun.run.build_model import build_model
from lun.run.caches_alone import frozen_networks
from lun.run.construction import build_parts
from lun.run.settings import read_settings
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint
from lun.sample.command import run as sample
from lun.sample.opened_model import open_source
from lun.strategies.execution import settle_execution_anywhere
from lun.trainer import run as train
from lun.weights.opening import open_model

PROMPTS = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, "
    "prompts: [red noise, {prompt: blue noise, scheduler: ddim}], "
    "log_images_kwargs: {ddim_steps: 3, unconditional_guidance_scale: 2.0}}}"
)
METRICS = "lightning.logger={metrics: {target: lun.loggers.JsonlLogger}}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """A run of two steps with two prompts of its own."""
    logs = tmp_path_factory.mktemp("logs")
    line = ["--base", str(TINY), "--logdir", str(logs), "--data_root", str(pictures), PROMPTS, "--max_steps", "2", "-t"]
    assert train(line) == 0
    return newest_run(logs)


def pixels(path: Path) -> bytes:
    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def drawn_in(folder: Path) -> list[str]:
    return [name for name in contents(folder) if name != "sheet.png"]


def told(path: Path) -> dict[str, object]:
    with Image.open(path) as picture:
        found: dict[str, object] = json.loads(picture.text["lun"])  # type: ignore[attr-defined]
    return found


def test_a_run_draws_what_it_drew_while_it_trained(trained: Path, tmp_path: Path) -> None:
    """Its own prompts, seeds and settings, with the averaged weights and with the raw ones."""
    lines = [json.loads(line) for line in (trained / "images/samples/samples.jsonl").read_text().splitlines()]
    for flag, weights in (("--ema", "ema"), ("--raw", "raw")):
        assert sample([str(trained), flag, "-o", str(tmp_path / weights)]) == 0
        drawn = [line for line in lines if line["step"] == 2 and line["weights"] == weights]
        assert drawn_in(tmp_path / weights) == ["0000-42.png", "0001-43.png"]
        for name, line in zip(drawn_in(tmp_path / weights), drawn, strict=True):
            with Image.open(trained / "images/samples" / line["file"]) as sheet:
                tile = sheet.crop(line["box"]).resize((8, 8), Image.Resampling.NEAREST)
            assert tile.tobytes() == pixels(tmp_path / weights / name)
    assert pixels(tmp_path / "raw/0000-42.png") != pixels(tmp_path / "ema/0000-42.png")


def test_the_same_line_writes_the_same_bytes_and_says_how(trained: Path, tmp_path: Path) -> None:
    line = [str(trained), "red noise", "--count", "3", "--seed", "7", "--steps", "2", "--size", "8x16"]
    line += ["--negative", "blue", "--scheduler", "euler", "--batch", "2"]
    for name in ("a", "b"):
        assert sample([*line, "-o", str(tmp_path / name)]) == 0
    assert contents(tmp_path / "a") == ["0000-7.png", "0001-8.png", "0002-9.png", "sheet.png"]
    for name in contents(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with Image.open(tmp_path / "a/0001-8.png") as picture:
        assert picture.size == (8, 16)
        text = picture.text["parameters"]  # type: ignore[attr-defined]
    assert text.startswith("red noise\nNegative prompt: blue\nSteps: 2, Sampler: Euler, CFG scale: 2, Seed: 8, ")
    assert told(tmp_path / "a/0001-8.png")["weights"] == "ema"


def test_what_guidance_leads_away_from_changes_the_picture(trained: Path, tmp_path: Path) -> None:
    for name, more in (("with", ["--negative", "blue"]), ("without", []), ("none", ["--guidance", "1"])):
        assert sample([str(trained), "red noise", "--steps", "2", *more, "-o", str(tmp_path / name)]) == 0
    assert len({pixels(tmp_path / name / "0000-42.png") for name in ("with", "without", "none")}) == 3


def test_class_pictures_are_a_data_set_that_training_reads(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pets/1_class"
    assert sample([str(trained), "a fox", "a cat, sitting", "--captions", "--steps", "1", "-o", str(folder)]) == 0
    assert contents(folder) == ["0000-42.png", "0000-42.txt", "0001-43.png", "0001-43.txt"]
    own = tmp_path / "pets/20_my fox"
    own.mkdir()
    shutil.copy(folder / "0000-42.png", own / "mine.png")
    data = Local(str(tmp_path / "pets"), size=8, folder_weights={"1_class": 0.5})
    weights = data.weights()
    assert weights is not None
    found = zip((data.caption(index) for index in range(3)), data.repeats().tolist(), weights.tolist(), strict=True)
    assert sorted(found) == [("a cat, sitting", 1, 0.5), ("a fox", 1, 0.5), ("my fox", 20, 1.0)]


def test_dreambooth_adds_the_classs_losses_times_their_weight_and_divides_by_all_pictures(
    trained: Path, pictures: Path, tmp_path: Path
) -> None:
    assert (
        sample([str(trained), "a fox", "--count", "2", "--captions", "--steps", "1", "-o", str(tmp_path / "fox")]) == 0
    )
    local = {"target": "lun.data.local.Local", "params": {"data_root": "???", "size": 8, "flip_p": 0.0}}
    sets = {"own": {**local, "weight": 1}, "class": {**local, "weight": 1, "kind": "class"}}
    (tmp_path / "sets.yaml").write_text(
        yaml.safe_dump({"data": {"params": {"train": {"sets": sets}, "batch_size": 4}}})
    )

    def first_loss(weight: float) -> float:
        line = ["--base", str(TINY), str(tmp_path / "sets.yaml"), "--logdir", str(tmp_path / "logs"), METRICS, "-t"]
        line += ["--data_root", f"own={pictures}", "--data_root", f"class={tmp_path / 'fox'}", "--max_steps", "1"]
        assert train([*line, "--init-from", str(trained), f"data.params.train.sets.class.loss_weight={weight}"]) == 0
        rows = map(json.loads, (newest_run(tmp_path / "logs") / "metrics.jsonl").read_text().splitlines())
        return next(float(row["train/loss"]) for row in rows if "train/loss" in row)

    alone, once, twice = map(first_loss, (0.0, 1.0, 2.0))
    assert alone < once
    assert twice - once == pytest.approx(once - alone, rel=1e-4)


def test_prompts_come_from_a_file_too(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("red --d 3 --s 2\nblue --w 16 --s 1 --l 1\n")
    assert sample([str(trained), "--prompts", str(tmp_path / "p.txt"), "-o", str(tmp_path / "x")]) == 0
    assert drawn_in(tmp_path / "x") == ["0000-3.png", "0001-43.png"]
    second = told(tmp_path / "x/0001-43.png")
    assert (second["width"], second["height"], second["steps"], second["guidance"]) == (16, 8, 1, 1.0)


def test_a_picture_depends_on_its_batch_by_rounding_and_alone_not_at_all(trained: Path, tmp_path: Path) -> None:
    line = [str(trained), "red noise", "--steps", "3", "--guidance", "4", "--negative", "blue"]
    for name, more in {"4": ["--count", "5"], "1": ["--count", "5", "--batch", "1"], "one": ["--seed", "44"]}.items():
        assert sample([*line, *more, "-o", str(tmp_path / name)]) == 0
    for name in drawn_in(tmp_path / "4"):
        together, alone = (torch.tensor(list(pixels(tmp_path / batch / name))) for batch in ("4", "1"))
        assert (together - alone).abs().max() <= 1
    assert pixels(tmp_path / "1/0002-44.png") == pixels(tmp_path / "one/0000-44.png")


def test_half_precision_draws_nearly_the_same(trained: Path, tmp_path: Path) -> None:
    for dtype in ("fp32", "bf16"):
        line = [str(trained), "red noise", "--steps", "2", "--dtype", dtype, "-o", str(tmp_path / dtype)]
        assert sample(line) == 0
    exact, half = (torch.tensor(list(pixels(tmp_path / dtype / "0000-42.png"))) for dtype in ("fp32", "bf16"))
    assert 0 < (exact - half).abs().float().mean() < 8


def test_a_file_that_the_run_exported_draws_by_the_runs_config(trained: Path, tmp_path: Path) -> None:
    (trained / "exports").mkdir()
    assert convert([str(trained), str(trained / "exports/x.safetensors"), "--to", "ldm"]) == 0
    for source, name in ((trained, "run"), (trained / "exports/x.safetensors", "file")):
        assert sample([str(source), "red noise", "--steps", "2", "-o", str(tmp_path / name)]) == 0
    assert pixels(tmp_path / "run/0000-42.png") == pixels(tmp_path / "file/0000-42.png")


def test_a_checkpoint_in_parts_draws_the_same_and_starts_another_run(
    trained: Path, pictures: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    parts, whole = run / "checkpoints/last.ckpt", trained / "checkpoints/last.ckpt"
    put_in_parts(parts)
    for source, name in ((whole, "whole"), (parts, "parts")):
        assert sample([str(source), "red noise", "--steps", "2", "-o", str(tmp_path / name)]) == 0
    assert pixels(tmp_path / "whole/0000-42.png") == pixels(tmp_path / "parts/0000-42.png")
    still = ["--logdir", str(tmp_path / "logs"), "--max_steps", "1", "model.base_learning_rate=0.0", "-t"]
    assert train(["--base", str(TINY), "--data_root", str(pictures), "--init-from", str(parts), *still]) == 0
    found, wanted = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt"), load(whole)
    names = [name for name in wanted["state_dict"] if not name.startswith("model_ema.")]
    assert all(torch.equal(found["state_dict"][name], wanted["state_dict"][name]) for name in names)


def test_every_layout_of_a_published_model_draws_the_same(tmp_path: Path) -> None:
    state = single_file("sd1")
    save_file(state, tmp_path / "a.safetensors")
    averaged = {averaged_name(key): value for key, value in state.items() if key.startswith(UNET)}
    raw = {key: value + 1 if key.startswith(UNET + "out") else value for key, value in state.items()}
    torch.save({"state_dict": raw | averaged}, tmp_path / "b.ckpt")
    assert convert([str(tmp_path / "a.safetensors"), str(tmp_path / "c"), "--to", "diffusers"]) == 0
    drawn = {}
    for name in ("a.safetensors", "b.ckpt", "c"):
        out = tmp_path / f"of {name}"
        assert sample([str(tmp_path / name), "a cat", "--steps", "2", "--size", "64", "-o", str(out)]) == 0
        drawn[name] = torch.tensor(list(pixels(out / "0000-42.png")))
    first = drawn.pop("a.safetensors")
    assert first.float().std() > 1
    assert all((first - other).abs().max() <= 1 for other in drawn.values())
    out = tmp_path / "raw"
    line = [str(tmp_path / "b.ckpt"), "a cat", "--steps", "2", "--size", "64", "--raw", "-o", str(out)]
    assert sample(line) == 0
    assert (first - torch.tensor(list(pixels(out / "0000-42.png")))).abs().max() > 1


def test_nothing_is_written_over(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "cat.png").write_text("mine")
    assert sample([str(trained), "red", "-o", str(tmp_path / "mine")]) == 2
    assert "error[CLI04]" in capsys.readouterr().err
    assert contents(tmp_path / "mine") == ["cat.png"]


def test_what_cannot_draw_says_why(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = single_file("sd1")
    save_file({key: value for key, value in state.items() if key.startswith(UNET)}, tmp_path / "unet.safetensors")
    silent = shutil.copytree(trained, tmp_path / "silent")
    config = silent / "configs" / "resolved.yaml"
    config.write_text(config.read_text().replace("image_logger:", "image_logger: null\n    spare:"))
    for line, code, message in (
        ([tmp_path / "unet.safetensors", "x"], 4, "it has no VAE and no text encoder"),
        ([silent], 2, "nothing says what to draw"),
        ([trained, "x", "--raw", "--device", "nonsense"], 5, "error[DEV01]"),
        ([trained / "no", "x"], 4, "error[MOD01]"),
        ([trained, "x", "--steps", "0"], 2, "error[CLI03]"),
    ):
        assert sample([str(word) for word in line]) == code
        assert message in capsys.readouterr().err


def test_whoever_builds_the_model_of_a_run_builds_the_same(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_stored(RunDirectory(trained).resolved_config)
    resume = find_checkpoint(str(trained))
    settings = read_settings(Arguments(resume=str(trained)), resume)
    callers: dict[str, Callable[[], object]] = {
        "lun.run.construction": lambda: build_parts(settings, settle_execution_anywhere, on_cpu=True),
        "lun.plan.plan": lambda: Plan(settings, 0).training_plan(),
        "lun.run.caches_alone": lambda: frozen_networks(config, Cache(text=True)),
        "lun.sample.opened_model": lambda: open_source(str(trained), None),
        "lun.weights.opening": lambda: open_model(str(trained), None),
        "lun.memory.forecast": lambda: forecast(config),
        "lun.posthoc_ema.sweeping": lambda: Validation(trained),
    }
    for name in ("setup", "has"):  # a sweep asks for a validation set
        monkeypatch.setattr(DataModuleFromConfig, name, lambda self, stage: True)
    built: dict[str, DDPM] = {}
    for caller, act in callers.items():

        def noted(given: Mapping[str, Any], caller: str = caller, **params: Any) -> DDPM:
            built[caller] = build_model(given, **params)
            raise InterruptedError("that is enough")

        monkeypatch.setattr(f"{caller}.build_model", noted)
        with pytest.raises(InterruptedError):
            act()
    kinds = {caller: (type(model), state_keys(model)) for caller, model in built.items()}
    assert kinds == dict.fromkeys(callers, kinds["lun.run.construction"])


def state_keys(model: DDPM) -> list[str]:
    """The names of all weights but averaged ones."""
    model.adopt({name: part.build_on_meta() for name, part in model.part_recipes().items()})
    return sorted(key for key in model.state_dict() if not key.startswith("model_ema"))
