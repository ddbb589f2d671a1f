"""What no folder, file or machine could mend is refused by `--check` as a start refuses it."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from support import bitsandbytes_stub
from support.runs import TINY

from ldm.admission import OPTIMIZERS
from lun.config.unfit import NEEDS

Lun = Callable[..., int]
CONFIGS = Path(__file__).parents[2] / "configs"
VALIDATION = "data.params.validation"
OBJECTIVE = "model.params.objective={target: ldm.diffusion.objective.Objective, params: {%s}}"
ZERO = "path: {target: ldm.diffusion.path.DDPMPath, params: {zero_terminal_snr: true}}"
FUSED = "{target: lun.callbacks.FusedBackward}"
COMPILED = "{target: lun.callbacks.CompiledBlocks}"
HUBER = "loss: {target: ldm.diffusion.loss.Huber}"

SETTINGS = {
    "a strategy that there is not": ["lightning.trainer.strategy=dpp"],
    "a kind of DeepSpeed that there is not": ["lightning.trainer.strategy=deepspeed_stage_4"],
    "shards in float16": ["lightning.trainer.strategy=fsdp", "lightning.trainer.precision=16-mixed"],
    "weights in float16": ["lightning.trainer.precision=16-true"],
    "no step in a window": ["lightning.trainer.accumulate_grad_batches=0"],
    "clipping that turns gradients around": ["lightning.trainer.gradient_clip_val=-1"],
    "clipping by nothing known": ["--gradient_clip_val", "1.0", "lightning.trainer.gradient_clip_algorithm=median"],
    "no end": ["lightning.trainer.max_steps=-1"],
    "a schedule without an end": ["lightning.trainer.max_steps=-1", "--time-limit", "1:00"],
    "zero terminal SNR with eps": [OBJECTIVE % ZERO],
    "a weighting without pure noise": [
        "model.params.parameterization=v",
        OBJECTIVE % (ZERO + ", weighting: {target: ldm.diffusion.weighting.MinSNR}"),
    ],
    "an objective against CompVis' spelling": [
        "model.params.loss_type=l1",
        OBJECTIVE % HUBER,
    ],
    "an objective that is none": ["model.params.objective={target: torch.nn.Identity}"],
    "no picture in a batch": ["data.params.batch_size=0"],
    "fewer than no workers": ["data.params.num_workers=-1"],
    "all pictures may be bad, and more": ["data.params.max_bad_fraction=2.0"],
    "a cache in no type": ["data.params.cache={dtype: int4}"],
    "no training set": ["~data.params.train"],
    "pictures of no size": ["data.params.train.params.size=0"],
    "mirrored more than always": ["data.params.train.params.flip_p=2.0"],
    "no repeats": ["data.params.train.params.repeats=0"],
    "a validation set without a target": [f"{VALIDATION}.params.split.fraction=0.1"],
    "captions that contradict": [
        "data.params.train.params.captions={tag_separator: ';'}",
        "data.params.train.params.metadata_params={tag_separator: ','}",
    ],
    "averages of nothing": ["model.params.ema_config.params.decay=1.5"],
    "averages by two laws": ["model.params.ema_decay=0.99", "model.params.ema_config.params.span=100"],
    "averages by no number": ["model.params.ema_decay=.nan"],
    "averages every 0 steps": ["model.params.ema_config.params.update_every=0"],
    "guidance by no number": [
        "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger,"
        " params: {log_images_kwargs: {unconditional_guidance_scale: .nan}}}"
    ],
    "a shuffled validation set in buckets": [
        "data.params.shuffle_val_dataloader=true",
        "data.params.buckets={resolutions: [64]}",
    ],
    "an average for a schedule-free optimizer in shards": [
        "lightning.trainer.strategy=fsdp",
        "model.params.optimizer_config.target=schedulefree.AdamWScheduleFree",
    ],
    "an optimizer that refuses its settings": [
        "model.params.optimizer_config={target: torch.optim.AdamW, params: {betas: [2.0, 0.9]}}"
    ],
    "averaged weights on no device": ["model.params.ema_config.params.device=gpu"],
    "averaged weights without a thread": ["model.params.ema_config.params.threads=0"],
    "steps within the backward pass of two devices": [f"lightning.callbacks.mine={FUSED}", "--devices", "2"],
    "steps within the backward pass in float16": [f"lightning.callbacks.mine={FUSED}", "--precision", "16-mixed"],
    "compiled blocks under DeepSpeed": [f"lightning.callbacks.mine={COMPILED}", "lightning.trainer.strategy=deepspeed"],
    "streamed blocks on two devices": [
        "lightning.callbacks.mine={target: lun.callbacks.BlockSwap}",
        "lightning.trainer.devices=2",
    ],
    **{
        f"weights of {part} that nothing names": [f"~model.params.{part}.params.from_scratch"]
        for part in ("unet_config", "first_stage_config", "cond_stage_config")
    },
    "a saver that never saves": ["lightning.callbacks.mine={target: lun.callbacks.Checkpoint, params: {filename: a}}"],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_check_tells_what_a_start_would(settings: list[str], lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for mode in ("--check", "-t"):
        code = lun(*settings, mode)
        told.append((code, re.findall(r"^error\[(\w+)\]: (.*)", capsys.readouterr().err, flags=re.MULTILINE)))
    assert told[0] == told[1] and told[0][0] in (2, 3, 4) and told[0][1], told


def test_a_check_asks_no_folder_no_weights_and_no_device(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    missing = ["data.params.train.params.data_root=nowhere", "--init-from", "nowhere.ckpt", "--accelerator", "gpu"]
    missing += ["model.params.ema_config.params.device=cuda:99"]
    assert lun(*missing, "--check", data=None) == 0
    seen = capsys.readouterr()
    assert seen.out.endswith("the configuration has no faults\n")
    assert re.findall(r"^note\[(\w+)\]: (.*)", seen.err, flags=re.MULTILINE) == [
        ("DAT01", "data folder not found: nowhere"),
        ("MOD01", 'cannot find the weights "nowhere.ckpt"'),
    ]
    assert "error[" not in seen.err


# Packages and files that the settings name, and that are not here

EIGHT_BIT = "model.params.optimizer_config.target=bitsandbytes.optim.AdamW8bit"


def optional_targets() -> dict[str, tuple[str, str]]:
    """The setting and target of one shipped recipe for each package that not every installation brings."""
    found = {}
    for file in sorted(CONFIGS.rglob("*.yaml")):
        for place, target in recipes(yaml.safe_load(file.read_text()), ()):
            package = NEEDS.get(target.replace("loggers.T", "loggers.tensorboard.T"), target.partition(".")[0])
            if package in OPTIMIZERS or package in NEEDS.values():
                found[package] = (".".join(place), target)
    return found


def recipes(value: object, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        if isinstance(value.get("target"), str):
            yield place, value["target"]
        for name, inner in value.items():
            yield from recipes(inner, (*place, name))


def test_presets_name_the_optional_packages_that_are_tried() -> None:
    assert set(optional_targets()) >= {"bitsandbytes", "prodigyopt", "pytorch_optimizer", "schedulefree", "tensorboard"}


@pytest.mark.parametrize("package", optional_targets())
def test_a_package_that_is_missing_is_a_note_of_a_check_and_a_fault_of_a_plan(
    package: str, lun: Lun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    place, target = optional_targets()[package]
    setting = f"{place}={{target: {target}}}"
    assert lun(setting, "--check") == 0
    checked = capsys.readouterr()
    assert checked.out == "the configuration has no faults\n" and "error[" not in checked.err
    assert lun(setting) == 7
    planned = capsys.readouterr().err
    note = [line for line in checked.err.splitlines() if not line.startswith("  why:")]
    fault = [line for line in planned.splitlines() if not line.startswith("  why:")]
    assert note == [line.replace("error[DEP01]", "note[DEP01]") for line in fault] and note[0].startswith("note[DEP01]")
    assert "is not installed; what is built with it is not checked\n" in checked.err


@pytest.mark.parametrize(
    "wrong", ["lightning.trainer.precision=16-true", "model.params.ema_config.params.update_every=0"]
)
def test_what_is_wrong_beside_a_missing_package_is_still_refused(
    wrong: str, lun: Lun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert lun(EIGHT_BIT, wrong, "--check") == 2
    seen = capsys.readouterr()
    assert "note[DEP01]: " in seen.err and seen.err.count("error[") == 1 and not seen.out


def test_a_file_of_prompts_that_is_missing_is_a_note_of_a_check(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = "lightning.callbacks.mine={target: lun.callbacks.ImageLogger, params: {prompts: nowhere.txt}}"
    assert lun(prompts, "--check") == 0
    assert capsys.readouterr().err.startswith("note[CFG01]: prompts file not found: ")
    assert lun(prompts) == 2
    assert capsys.readouterr().err.startswith("error[CFG01]: prompts file not found: ")


@pytest.mark.parametrize("length", [["--max_epochs", "3", "lightning.trainer.max_steps=-1"], ["--max_steps", "3"]])
def test_a_check_knows_a_length_in_epochs_or_steps(length: list[str], lun: Lun) -> None:
    assert lun(*length, "--check") == 0


# Looking, where something is missing


def test_a_plan_without_pictures_shows_what_is_known_and_ends_in_the_fault(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("--data_root", str(tmp_path / "nowhere"), data=None) == 3
    seen = capsys.readouterr()
    assert "data     " + str(tmp_path / "nowhere") + ": not known yet" in seen.out
    assert "optim    torch.optim.AdamW" in seen.out and "memory   " in seen.out
    assert seen.err.startswith("error[DAT01]: ")


@pytest.mark.parametrize(
    ("missing", "code", "fault"),
    [
        (["~model.params.unet_config.params.from_scratch"], 4, "MOD06"),
        (["model.params.optimizer_config.target=bitsandbytes.optim.AdamW8bit"], 7, "DEP01"),
    ],
)
def test_a_plan_does_not_need_weights_or_packages(
    missing: list[str],
    code: int,
    fault: str,
    lun: Lun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert lun(*missing) == code
    seen = capsys.readouterr()
    assert "model    LatentDiffusion: UNet 0.06 M trained" in seen.out and seen.err.startswith(f"error[{fault}]: ")


def test_a_start_that_lacks_a_package_shows_no_plan(
    lun: Lun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert lun("-t", "model.params.optimizer_config.target=bitsandbytes.optim.AdamW8bit") == 7
    assert "model    " not in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    ["model.params.image_sze=8", "lightning.trainer.strategy=${model.params.nothing}", "model.target=ldm.Nothing"],
)
def test_the_configuration_is_printed_whatever_is_wrong_with_it(
    wrong: str, lun: Lun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun(wrong, "--print-config", data=None) == 0
    seen = capsys.readouterr()
    printed = yaml.safe_load(seen.out)
    for key in wrong.partition("=")[0].split("."):
        printed = printed[key]
    assert str(printed) == wrong.partition("=")[2]
    assert "warning[CFG07]: " in seen.err and len(re.findall(r"^warning\[", seen.err, flags=re.MULTILINE)) == 2


# The target of a model, and the metric that savers wait for


def told(lun: Lun, capsys: pytest.CaptureFixture[str], *settings: str) -> tuple[int, str]:
    code = lun("--base", "training-lightning", str(TINY), "--data_root", ".", *settings, "--check", base=False)
    seen = capsys.readouterr()
    return code, seen.out + seen.err


def test_a_wrong_target_of_the_model_is_one_error_that_names_it(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = told(lun, capsys, "model.target=ldm.models.diffusion.ddpm.LatentDifusion")
    assert code == 2 and message.count("error[") == 1
    assert "error[CFG04]: cannot load target ldm.models.diffusion.ddpm.LatentDifusion" in message
    assert "did you mean ldm.models.diffusion.ddpm.LatentDiffusion?" in message


def test_no_metric_is_asked_for_where_nothing_is_validated(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = told(lun, capsys, "~model.params.monitor")
    assert code == 0 and "monitored_checkpoint is off: nothing is validated" in message


def test_a_metric_that_is_missing_is_asked_for_by_its_own_name(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    validation = "data.params.validation={target: lun.data.local.Local, params: {data_root: .}}"
    code, message = told(lun, capsys, "~model.params.monitor", validation)
    assert code == 2 and "ema_config" not in message
    assert "fix:   give it a value: model.params.monitor=VALUE" in message


@pytest.mark.parametrize("mode", ["-t", "--check"])
def test_an_optimizer_made_for_gpus_is_refused_on_a_cpu_where_it_cannot_step(
    mode: str, lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    eight_bit = ["model.params.optimizer_config.target=bitsandbytes.optim.AdamW8bit", "--accelerator", "cpu"]
    bitsandbytes_stub.install(monkeypatch)
    assert lun(*eight_bit, "--check") == 0  # it can where it can
    bitsandbytes_stub.install(monkeypatch, refuses="no kernel for device cpu")
    capsys.readouterr()
    assert lun(*eight_bit, mode) == 5
    told = capsys.readouterr().err
    assert told.startswith("error[DEV06]: bitsandbytes.optim.AdamW8bit cannot step on a CPU")
    assert "no kernel for device cpu" in told and "torch.optim.AdamW" in told
    assert not (tmp_path / "logs").exists()
