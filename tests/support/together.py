"""Whole runs of the program, alone or on all ranks of a group, and how far apart their weights end."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from support.runs import TINY, load, newest_run
from torch import Tensor

from ldm.files.rank_shards import with_tensors

STEPS = 4
SAME = ["model.params.unet_config.params.dropout=0.0", f"lightning.trainer.max_steps={STEPS}"]
GROUPS = [
    "model.params.training_config={target: ldm.training.rules.Rules, params: {rules: {"
    "bias: {match: '*.bias', weight_decay: 0.0}, attention: {match: 'unet.*attn*', lr: 0.5x, weight_decay: 0.1},"
    " still: {match: 'unet.time_embedding.*', train: false}}}}"
]
"""Groups of the optimizer with other rates and decays than the rest, and a part that is frozen."""
ONE = ["data.params.batch_size=4", "lightning.trainer.devices=1", "lightning.trainer.strategy=auto"]
STEP_NUMBERS = [
    "lightning.callbacks.gradients={target: lun.callbacks.GradientNorms}",
    "lightning.callbacks.changes={target: lun.callbacks.WeightChanges}",
]
"""What DeepSpeed keeps to itself."""
STILL = ["lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]
MICRO = ["data.params.batch_size=1", "lightning.trainer.accumulate_grad_batches=2"]

TOLD = ("train/", "val/", "grad_norm/", "update_ratio/", "moved/")
"""What is the same on any number of ranks."""


def until(step: int) -> str:
    """The setting that ends a run there."""
    return f"lightning.trainer.max_steps={step}"


def train(logs: Path, words: Sequence[str]) -> int:
    """The program in this process, on its own or, as a case of `Ranks`, on all ranks; returns the exit code."""
    from lun.trainer import run

    return run(["--logdir", str(logs), "-t", *words])


def goes_on(run: Path, words: Sequence[str]) -> int:
    """A resume of a run directory, likewise."""
    from lun.trainer import run as program

    return program(["-r", str(run), "-t", *words])


def tiny(data: Path, *words: str) -> list[str]:
    """The tiny program on `data` without Adam, clip and schedule, which would hide a wrong factor in a gradient."""
    plain = ["--base", str(TINY), "--data_root", str(data)]
    sgd = ["model.params.optimizer_config={target: torch.optim.SGD, params: {}}", "model.base_learning_rate=0.05"]
    free = ["lightning.trainer.gradient_clip_val=null", "model.params.scheduler_config=null"]
    return [*plain, *sgd, *free, *words]


def cache_in(folder: Path) -> str:
    """The setting that caches moments and captions there."""
    return f"data.params.cache={{folder: {folder / 'cache'}}}"


def last(logs: Path) -> dict[str, Any]:
    """The last checkpoint of the newest run, also where it lies in parts."""
    path = newest_run(logs) / "checkpoints/last.ckpt"
    return with_tensors(load(path), path)


def distance(found: dict[str, Tensor], wanted: dict[str, Tensor], start: dict[str, Tensor]) -> float:
    """||found - wanted|| / ||wanted - start|| over all floating weights: 1e-4 is rounding, 0.1 a wrong factor."""
    assert found.keys() == wanted.keys()
    names = [name for name, tensor in wanted.items() if tensor.is_floating_point()]
    off = sum(float((found[n].double() - wanted[n].double()).square().sum()) for n in names)
    move = sum(float((wanted[n].double() - start[n].double()).square().sum()) for n in names)
    return float(torch.tensor(off / move).sqrt())


def off(logs: Path, reference: Path) -> float:
    """`distance` of the newest run from `one` in a folder that holds `start`, too: of its weights, or of their averages
    where that is more; NaN where either is, which Python's own `max` may hide."""
    a, b, c = last(logs), last(reference / "one"), last(reference / "start")
    weights = distance(a["state_dict"], b["state_dict"], c["state_dict"])
    return float(torch.tensor([weights, distance(averaged(a), averaged(b), averaged(c))]).max())


def rows(logs: Path) -> dict[int, dict[str, float]]:
    """What the newest run logged, by step."""
    found: dict[int, dict[str, float]] = {}
    for line in (newest_run(logs) / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        found.setdefault(row["step"], {}).update({k: v for k, v in row.items() if k.startswith(TOLD)})
    return found


def averaged(checkpoint: dict[str, Any]) -> dict[str, Tensor]:
    """The EMA's weights in a checkpoint."""
    return {name: tensor for name, tensor in checkpoint["state_dict"].items() if name.startswith("model_ema.")}


def busy(validation: Path) -> list[str]:
    """Everything that happens beside a training step, often: validation, savers, samples, pictures, progress, speed."""
    recipes = {
        "callbacks.progress": "{target: lun.callbacks.SmoothedProgressBar}",
        "callbacks.image_logger": "{target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, max_images: 2, "
        "prompts: [red noise 0], log_images_kwargs: {ddim_steps: 1}}}",
        "callbacks.often": "{target: lun.callbacks.Checkpoint, params: {filename: often, every_n_train_steps: 4}}",
        "callbacks.best": "{target: lun.callbacks.Checkpoint, params: {filename: 'best-{step}', "
        "monitor: val/loss_simple_ema, dirpath: checkpoints/monitor}}",
        "callbacks.snapshots": "{target: lun.callbacks.EmaSnapshots, params: {count: 2}}",
        "callbacks.by_level": "{target: lun.callbacks.LossByNoiseLevel}",
        "callbacks.by_tag": "{target: lun.callbacks.LossByTag, params: {tags: [red]}}",
        "callbacks.by_picture": "{target: lun.callbacks.PictureLosses, params: {compare: 0}}",
        "callbacks.gap": "{target: lun.callbacks.HeldOutGap}",
        "callbacks.slots": "{target: support.slots.RecordSlots}",
        "trainer.val_check_interval": "2",
    }
    validated = f"data.params.validation={{target: lun.data.local.Local, params: {{data_root: {validation}, size: 8}}}}"
    widths = "model.params.ema_config.params.widths=[0.1]"
    return ["--allow", "support", validated, widths, *(f"lightning.{name}={value}" for name, value in recipes.items())]


def without_weights(ema: dict[str, Any]) -> dict[str, Any]:
    """The numbers of an EMA's state."""
    tracks = {name: {k: v for k, v in track.items() if k != "weights"} for name, track in ema.get("tracks", {}).items()}
    return {**ema, "tracks": tracks}


def snapshots(logs: Path) -> dict[str, dict[str, Tensor]]:
    """{file: its tensors} of the newest run's snapshots of the EMA, and of what they are differences to."""
    folder = newest_run(logs) / "ema-snapshots"
    return {path.name: load_file(path) for path in sorted(folder.glob("*.safetensors"))}


def assert_same_snapshots(found: Path, wanted: Path) -> None:
    """Both runs wrote the same files, and the same averages up to rounding."""
    two, one = snapshots(found), snapshots(wanted)
    assert list(two) == list(one) and len(one) == 3
    for name, tensors in one.items():
        assert two[name].keys() == tensors.keys()
        for key, tensor in tensors.items():
            off, size = (two[name][key].float() - tensor.float()).norm(), tensor.float().norm()
            assert off <= 2e-3 * size, f"{name}: {key} is {off / size:.1e} off"  # half precision rounds by 5e-4
