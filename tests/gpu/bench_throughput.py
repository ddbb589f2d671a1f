"""Pictures a second on one GPU, random weights of each family at its own size: the program as its presets say.

    python tests/gpu/bench_throughput.py [--steps 200] [--only SDXL] [--json FILE]

Each row is a run of the program in a process of its own: bfloat16, latents and captions from the cache, the average of
the weights on, compiled where the preset is there. Its rate is the one logged last, in steady state: chips are some
10 % faster in their first minute.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from program import ROOT
from report import Row, present

PARTS = ("unet_config", "first_stage_config", "cond_stage_config")
SCRATCH = tuple(f"model.params.{part}.params.from_scratch=true" for part in PARTS)
FAST = ("model.params.unet_config.params.gradient_checkpointing=false",)
COMPVIS = ("model.params.unet_config.params.use_checkpoint=false",)
WITHOUT_T5 = ("model.params.cond_stage_config.params.t5=null",)
CASES: dict[str, tuple[str, int, int, tuple[str, ...]]] = {
    "SD 1.5, 512 pixels, cached, batch 32": ("sd15", 512, 32, COMPVIS),
    "SD 1.5, 512 pixels, cached, batch 64": ("sd15", 512, 64, COMPVIS),
    "SD 1.5, 512 pixels, cached, batch 1": ("sd15", 512, 1, COMPVIS),
    "SDXL, 1024 pixels, cached, batch 8": ("sdxl", 1024, 8, FAST),
    "SD 3 Medium, 1024 pixels, cached, batch 8": ("sd3-medium", 1024, 8, (*FAST, *WITHOUT_T5)),
}
"""{row: (preset, pixels, batch, settings)}"""


def words(name: str, data: Path, logs: Path, steps: int) -> list[str]:
    """What starts the run of a row."""
    preset, _, batch, settings = CASES[name]
    options = ["bf16", "latent-cache"] + ["compile"] * (ROOT / "configs/options/compile.yaml").is_file()
    quiet = ("image_logger", "monitored_checkpoint", "periodic_checkpoint", "periodic_checkpoint_overwrite")
    return [
        *("--base", preset, *options, "--data_root", str(data), "--logdir", str(logs), "-t", "--max_steps", str(steps)),
        *SCRATCH,
        *settings,
        *(f"lightning.callbacks.{callback}=null" for callback in quiet),
        *("model.params.ckpt_path=null", "model.params.monitor=null", f"data.params.batch_size={batch}"),
        f"lightning.trainer.log_every_n_steps={max(1, steps // 4)}",
    ]


def pictures(folder: Path, side: int, count: int = 64) -> Path:
    """Smooth colours of `side` pixels with captions."""
    numbers = np.random.default_rng(0)
    for name in ("img", "txt"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        coarse.resize((side, side)).save(folder / "img" / f"{number}.png")
        (folder / "txt" / f"{number}.txt").write_text(f"colours {number}")
    return folder


def measure(name: str, steps: int, folder: Path) -> Row | None:
    """The last rate that was logged; None, and its last words on stderr, where the run fails."""
    logs, data = folder / "logs", pictures(folder / "data", CASES[name][1])
    line = [sys.executable, "main.py", *words(name, data, logs, steps)]
    environment = {**os.environ, "LUN_CACHE": str(folder / "cache")}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    lines = (logs / "latest" / "metrics.jsonl").read_text().splitlines()
    told = [row for row in map(json.loads, lines) if "perf/images_per_s" in row][-1]
    beside = {"ms a step": told["perf/step_ms"]}
    if "mem/gpu_peak_gib" in told:
        beside["GiB on the GPU"] = told["mem/gpu_peak_gib"]
    return Row(name, told["perf/images_per_s"], "images/s", beside)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, default=200)
    asked.add_argument("--only", default="", help="rows whose names contain this")
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    rows = []
    for name in CASES:
        if told.only in name:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(name, told.steps, Path(folder)))
    present("throughput", [row for row in rows if row], told.json)


if __name__ == "__main__":
    main()
