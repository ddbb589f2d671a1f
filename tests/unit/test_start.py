"""What a start imports before it answers, and when it looks for garbage."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lun.console.collecting import collect_from_here, put_off_collecting
from lun.console.ending import leave
from lun.run.lightning_trainer import CollectOnceBuilt

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "lightning", "diffusers", "transformers", "torchmetrics", "numpy", "PIL", "safetensors")
SD15 = ("-b", "sd15", "bf16", "--data_root", "pictures")
DEMO = ("-b", "configs/demo/emoji.yaml", "lightning.logger.tensorboard=null", "data.params.num_workers=0")
RIGHT = (*DEMO, "--check")
LINES = (
    ("--help",),
    ("--version",),
    ("--list-presets",),
    ("--not-a-flag",),
    ("-b", "no-such.yaml", "-t"),
    (*SD15, "--print-config"),
    (*SD15, "model.params.image_sizee=64", "-t"),
    (*SD15, "model.params.image_size=wide", "-t"),
    (*SD15, "model.params.unet_config.params.model_channel=8", "-t"),
    (*SD15, "data.params.train.params.flipp=1", "--check"),
    (*SD15, "model.target=ldm.models.diffusion.ddpm.LatentDifusion"),
    (*SD15, "lightning.trainer.max_step=3"),
    (*SD15, "lightning.callbacks.lr={target: lightning.pytorch.callbacks.LearningRateMonitor, params: {logg: 1}}"),
    (*SD15, "model.params.optimizer_config={target: torch.optim.AdamW, params: {weight_decy: 0.1}}"),
    ("-b", "sdxl", "8gb-lora", "model.params.adapter_config.params.rule=1", "-t"),
    ("-b", "sd35-medium", "12gb-sd3", "model.params.unet_config.params.depht=1", "-t"),
    ("-b", "configs/demo/emoji.yaml", "model.params.objective.params.lost=1", "-t"),
    RIGHT,
)
MISSING = {
    (*SD15, "-t"): 3,
    ("-b", "sd15", "--data_root", "lun", "--init-from", "no-such.safetensors", "-t"): 4,
    ("-b", "sd15", "--data_root", "lun", "model.params.first_stage_config.params.ckpt_path=no-such.ckpt", "-t"): 4,
    ("-r", "no-such-run", "-t"): 2,
    ("-m", "lun.convert.command", "no-such.ckpt", "out.safetensors", "--to", "ldm"): 4,
    ("-m", "lun.convert.command", "main.py", "out.safetensors", "--to", "ldm", "--vae", "no-such.ckpt"): 4,
    ("-m", "lun.sample.command", "no-such.ckpt", "a cat"): 4,
    ("-m", "lun.inspect.command", "no-such-folder"): 3,
    ("-m", "lun.pack.command", "no-such-folder", "-o", "out"): 3,
    ("-m", "lun.annotate.command", "no-such-folder", "--with", "caption", "--model", "lun"): 3,
    ("-m", "lun.posthoc_ema.command", "reconstruct", "no-such-run", "--width", "0.1"): 4,
    ("-m", "lun.board.command", "no-such-folder"): 2,
    ("-m", "lun.publish.command", "no-such.safetensors", "org/name"): 4,
    ("-m", "lun.measure.command", "no-such-folder", "lun", "--clip", "lun"): 3,
    ("-m", "lun.measure.command", "docs/img", "no-such-folder", "--clip", "lun"): 3,
    ("-m", "lun.compare.command", "no-such-run"): 4,
    ("-m", "lun.sweep.command", "--queue", "no-such-file"): 2,
    ("-m", "lun.run.caches_alone", "-b", "sd15", "--data_root", "no-such-folder"): 3,
}
"""What names a file or folder that is not there, and the exit code."""
LINES = (*LINES, *MISSING)
UNUSED = (
    *("torchvision", "deepspeed", "bitsandbytes", "schedulefree", "prodigyopt", "pytorch_optimizer", "wandb", "mlflow"),
    *("tensorboard", "torch.utils.tensorboard", "pyarrow", "obstore", "pandas", "scipy", "sklearn", "matplotlib"),
    *("datasets", "aiohttp", "IPython", "diffusers.pipelines.stable_diffusion", "transformers.pipelines"),
    *("lightning.pytorch.demos", "lightning.pytorch.cli", "torch._inductor.compile_fx", "torch.onnx.utils"),
    *("lun.convert", "lun.sample", "lun.inspect", "lun.pack", "lun.migrate", "lun.posthoc_ema", "lun.doctor"),
    *("lun.board", "lun.compare", "lun.publish", "lun.sweep", "werkzeug"),
)
"""What no plan needs, and no step of a run that names none of it."""
LIBRARIES = ("lightning", "diffusers", "transformers", "peft", "torchmetrics", "torch._dynamo", "sympy")
"""What no plan needs that is not the first of its networks, captions and optimizer."""
CHILD = """
import importlib, json, sys
def run(line):
    module, words = (line[1], line[2:]) if line[0] == "-m" else ("lun.trainer", line)
    return importlib.import_module(module).run(words)
lines, heavy, unused, more = json.loads(sys.argv[1])
answers = [(run(line), [name for name in heavy if name in sys.modules]) for line in lines]
for name in [name for name in sys.modules if f"{name}.".startswith(tuple(f"{one}." for one in unused))]:
    del sys.modules[name]  # of a command that was started above
answers += [(run(line), [name for name in names if name in sys.modules]) for line, names in more]
print("answers", json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, list[str]]]:
    """The exit code of each line, a check, a plan and a step, and what had been imported by then, in one process."""
    logs = tmp_path_factory.mktemp("logs")
    step = (*DEMO, "-t", "--max_steps", "1", "-l", str(logs), "data.params.batch_size=1", "data.params.validation=null")
    more = [(DEMO, [*UNUSED, *LIBRARIES]), (step, UNUSED)]
    for first in (DEMO, RIGHT):  # whose answers are kept
        subprocess.run([sys.executable, "main.py", *first], capture_output=True, cwd=ROOT, check=True)
    words = [sys.executable, "-c", CHILD, json.dumps([LINES, HEAVY, UNUSED, more])]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    found: list[tuple[int, list[str]]] = json.loads(done.stdout.splitlines()[-1].removeprefix("answers "))
    return found


@pytest.mark.parametrize("at", range(len(LINES)), ids=lambda at: " ".join(LINES[at]))
def test_information_what_is_wrong_with_a_configuration_and_what_is_not_there_need_no_heavy_package(
    answers: list[tuple[int, list[str]]], at: int
) -> None:
    code, imported = answers[at]
    is_right = LINES[at] == RIGHT or {"--help", "--version", "--list-presets", "--print-config"}.intersection(LINES[at])
    assert (code, imported) == (0 if is_right else MISSING.get(LINES[at], 2), [])


@pytest.mark.parametrize("at", range(len(LINES), len(LINES) + 2), ids=["plan", "step"])
def test_nothing_is_imported_that_a_run_does_not_use(answers: list[tuple[int, list[str]]], at: int) -> None:
    assert answers[at] == [0, []]


def test_a_start_looks_for_no_garbage_until_its_networks_are_built() -> None:
    before = gc.get_freeze_count()
    built: Any = CollectOnceBuilt()
    try:
        put_off_collecting()
        assert not gc.isenabled()
        built.on_fit_start(None, None)
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_process_that_never_trained_ends_without_looking_for_garbage_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)  # beside ranks it would end the test runner
    before = gc.get_freeze_count()
    try:
        put_off_collecting()
        with pytest.raises(SystemExit):
            leave(2)
        assert gc.get_freeze_count() > before
    finally:
        gc.enable()
        gc.unfreeze()


def test_what_was_made_by_a_run_within_another_program_is_still_collected() -> None:
    before = gc.get_freeze_count()
    collect_from_here()
    assert gc.get_freeze_count() == before
