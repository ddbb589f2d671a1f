"""How long a start takes until it answers, over what importing torch alone takes.

    python tests/bench/start.py [--rounds 5] [--json FILE]

CPU seconds of a process, user and system: medians over rounds in which all take turns, so that they see the same
machine, with compiled bytecode present and one thread, after a first start. `imports of diffusers' script` is what
diffusers' own text-to-image example imports, without DeepSpeed; `imports of training` is torch, Lightning and the
demo's networks, which no run can do without. From disk: a model of 34.3 million parameters, one step of one small
picture, and its save.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from measurements import SCRIPT
from program import HERE, ROOT
from report import Row, present, times_of

TORCH, LIBRARIES, NEEDED = "import torch", f"imports of {SCRIPT}", "imports of training"
FROM_DISK, STEP = "34.3 M from disk", "one step and its save"
FIRST = ", the first time"
"""Of a row whose start finds nothing that an earlier one kept."""
NETWORKS = "from diffusers.models.unets.unet_2d import UNet2DModel"
EXAMPLE = """
import without_deepspeed
import accelerate, diffusers, torch, transformers
from diffusers import AutoencoderKL, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr
from transformers import CLIPTextModel, CLIPTokenizer
"""
ENDS = {"misspelt": 2, "wrong type": 2, "not there": 3}
"""Exit codes of the rows whose names hold these words: faults of the configuration and of the data; of all others 0."""
DEMO = ("-b", "configs/demo/emoji.yaml")
SD15 = ("-b", "sd15", "bf16", "--data_root", "nowhere")


def lines(folder: Path) -> dict[str, list[str]]:
    """What is started, by the name of its row; `folder` is `small_model.py`'s."""
    logs = str(folder / "logs")
    step = (*DEMO, "-t", "-l", logs, "--max_steps", "1", "lightning.callbacks.image_logger=null")
    step = (*step, "data.params.batch_size=1", "data.params.num_workers=0", "data.params.validation=null")
    small = ("data.params.batch_size=1", "data.params.train.params.size=64", "model.params.image_size=8")
    programs = {
        "--help": ("--help",),
        "--print-config": (*SD15, "--print-config"),
        "a misspelt setting": (*SD15, "model.params.image_sizee=64", "-t"),
        "a value of the wrong type": (*SD15, "model.params.image_size=wide", "-t"),
        "a folder that is not there": (*SD15, "-t"),
        "--check": (*DEMO, "--check"),
        "the plan": DEMO,
        f"--check{FIRST}": (*DEMO, "--check"),
        f"the plan{FIRST}": DEMO,
        f"the demo: {STEP}": step,
        f"{FROM_DISK}: {STEP}": (
            "-b",
            str(folder / "run.yaml"),
            "-t",
            "-l",
            logs,
            "--max_steps",
            "1",
            *small,
        ),
    }
    imports = {TORCH: TORCH, LIBRARIES: EXAMPLE, NEEDED: f"import torch, lightning.pytorch\n{NETWORKS}"}
    script = [str(HERE / "reference.py"), *(str(folder / name) for name in ("model", "data", "out"))]
    return (
        {name: ["-c", code] for name, code in imports.items()}
        | {name: ["main.py", *words] for name, words in programs.items()}
        | {f"{FROM_DISK}: {SCRIPT}": [*script, "--steps", "1", "--size", "64", "--batch", "1"]}
    )


def end_of(name: str) -> int:
    """The exit code that the start of a row has to end with."""
    return next((code for part, code in ENDS.items() if part in name), 0)


def cost(words: list[str], end: int = 0, cache: str | None = None) -> float:
    """CPU seconds of one process, with a cache of its own where `cache` names a folder.

    Raises RuntimeError where it ends with another code than `end`.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "LUN_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(HERE),
    } | ({"LUN_CACHE": cache} if cache else {})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != end:
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> list[Row]:
    """A row for each start: its seconds, over `import torch` and over what it has to be compared with."""
    with tempfile.TemporaryDirectory() as place:
        cost([str(HERE / "small_model.py"), place])
        started = lines(Path(place))
        taken: dict[str, list[float]] = {name: [] for name in started}
        cost(["-m", "compileall", "-q", "main.py", "lun", "ldm"])
        usual = str(Path(place, "cache"))
        for words in [started[name] for name in taken if end_of(name) == 0 and not name.endswith(FIRST)]:
            cost(words, cache=usual)  # writes the bytecode of all libraries, and what is kept for later starts
        for turn in range(rounds):
            for name, words in started.items():
                cache = str(Path(place, f"{name} {turn}")) if name.endswith(FIRST) else usual
                taken[name].append(cost(words, end_of(name), cache))
    middle = {name: median(times) for name, times in taken.items()}
    return times_of(middle, "CPU s", TORCH, LIBRARIES, NEEDED, f"{FROM_DISK}: {SCRIPT}")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    present("start", measure(told.rounds), told.json)


if __name__ == "__main__":
    main()
