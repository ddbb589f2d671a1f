"""How long a start takes until it answers, over what importing torch alone takes.

    python tests/bench/start.py [--rounds 5] [--json FILE]

CPU seconds of a process, user and system: medians over rounds in which all take turns, so that they see the same
machine, with compiled bytecode present and one thread. `diffusers' script` imports what diffusers' own text-to-image
example does; `imports of training` is torch, Lightning and the demo's networks, which no run can do without.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from report import Row, fingerprint, table

ROOT = Path(__file__).resolve().parents[2]
TORCH, SCRIPT, NEEDED = IMPORTS = "import torch", "diffusers' script", "imports of training"
NETWORKS = "from diffusers.models.unets.unet_2d import UNet2DModel"
EXAMPLE = """
import accelerate, diffusers, torch, transformers
from diffusers import AutoencoderKL, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr
from transformers import CLIPTextModel, CLIPTokenizer
"""
ENDS = (0, 2, 3)  # done; a fault of the configuration; of the data
DEMO = ("-b", "configs/demo/emoji.yaml")
SD15 = ("-b", "sd15", "bf16", "--data_root", "nowhere")


def lines(logs: str) -> dict[str, list[str]]:
    """What is started, by the name of its row."""
    step = (*DEMO, "-t", "-l", logs, "--max_steps", "1", "lightning.callbacks.image_logger=null")
    step = (*step, "data.params.batch_size=1", "data.params.num_workers=0", "data.params.validation=null")
    programs = {
        "--help": ("--help",),
        "--print-config": (*SD15, "--print-config"),
        "a misspelt setting": (*SD15, "model.params.image_sizee=64", "-t"),
        "a value of the wrong type": (*SD15, "model.params.image_size=wide", "-t"),
        "a folder that is not there": (*SD15,),
        "--check": (*DEMO, "--check"),
        "the plan": DEMO,
        "one step and its save": step,
    }
    imports = {TORCH: TORCH, SCRIPT: EXAMPLE, NEEDED: f"import torch, lightning.pytorch\n{NETWORKS}"}
    return {name: ["-c", code] for name, code in imports.items()} | {
        name: ["main.py", *words] for name, words in programs.items()
    }


def cost(words: list[str]) -> float:
    """CPU seconds of one process. Raises RuntimeError where it ended otherwise than it should."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in ENDS:
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> list[Row]:
    """A row for each start: its seconds, over `import torch` and over the imports of diffusers' script."""
    with tempfile.TemporaryDirectory() as logs:
        started = lines(logs)
        taken: dict[str, list[float]] = {name: [] for name in started}
        for turn in range(rounds + 1):  # the first writes the bytecode
            for name, words in started.items():
                seconds = cost(words)
                if turn:
                    taken[name].append(seconds)
    middle = {name: median(times) for name, times in taken.items()}
    ratios = {
        name: {f"over {other}": middle[name] / middle[other] for other in (TORCH, SCRIPT, NEEDED)} for name in middle
    }
    return [Row(name, middle[name], "CPU s", ratios[name]) for name in middle]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    rows = measure(told.rounds)
    print(table("Start", rows))
    if told.json:
        told.json.write_text(json.dumps({"machine": fingerprint(), "rows": [row._asdict() for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
