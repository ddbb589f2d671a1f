"""A folder in which every command of the pages can be typed as it stands: what they name is there, and tiny."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file
from support import bitsandbytes_stub, tiny_annotators, tiny_encoders
from support.compvis import config_of, file_of_zeros, full_size
from support.pages import ROOT, named_files
from support.runs import TINY, make_pictures
from support.small import single_file

from ldm.files.state import State
from ldm.modules.losses.vgg import PUBLIC_FILE, random_vgg
from lun.trainer import run

LINKS = ("main.py", "configs", "scripts", "docker", "docs", "pyproject.toml", "constraints.txt")
OWN = """\
extends: [tiny.yaml]
data:
  params:
    train: {{params: {{data_root: {data}}}}}
    validation: {{target: lun.data.local.Local, params: {{data_root: {data}, size: 8, flip_p: 0.0}}}}
lightning:
  trainer: {{max_steps: 4}}
  callbacks:
    image_logger:
      target: lun.callbacks.ImageLogger
      params: {{batch_frequency: 4, max_images: 1, prompts: [red noise], log_images_kwargs: {{ddim_steps: 1}}}}
    periodic_checkpoint_overwrite:
      target: lun.callbacks.Checkpoint
      params: {{filename: every-2k-steps, every_n_train_steps: 2}}
"""


def lora(layer: str, width: int) -> State:
    """A file of kohya's with a LoRA of rank 2 of one layer of a UNet, as wide as it is high."""
    factors = {"lora_down": torch.ones(2, width), "lora_up": torch.ones(width, 2)}
    tensors = {f"{name}.weight": value for name, value in factors.items()} | {"alpha": torch.tensor(2.0)}
    return {f"lora_unet_{layer}.{name}": value for name, value in tensors.items()}


class Desk:
    """The folder `at`, and how a layout of pictures is laid on it."""

    def __init__(self, at: Path) -> None:
        self.at = at
        for name in LINKS:
            (at / name).symlink_to(ROOT / name)
        self.flat = make_pictures(at / "flat", 8)
        self.kohya = at / "kohya"
        (self.kohya / "2_noise").mkdir(parents=True)
        shutil.copytree(self.flat / "img", at / "SAMPLES")
        for path in (self.flat / "img").iterdir():
            shutil.copy(path, self.kohya / "2_noise" / path.name)
        tiny = yaml.safe_load(TINY.read_text("utf-8"))
        del tiny["model"]["params"]["ema_config"]  # for options to set
        (at / "tiny.yaml").write_text(yaml.safe_dump(tiny))
        for name in ("CONFIGS.yaml", "YOURS.yaml"):
            (at / name).write_text(OWN.format(data=self.flat))
        self._weights()
        self._code()
        tiny_annotators.captioner(at / "models/blip")
        tiny_encoders.clip(at / "models/clip")
        tiny_encoders.dino(at / "models/dino")
        tiny_annotators.clipseg(at / "models/clipseg")
        tiny_annotators.tagger(at / "models/wd-tagger")
        tiny_annotators.head(at / "models/aesthetic.pth")

    def _weights(self) -> None:
        (self.at / "models").mkdir()
        self.published("sd15").rename(self.at / "sd.safetensors")
        small = single_file("sd1")
        for name in ("FILE", "models/a.safetensors"):
            save_file(small, self.at / name)
        for name in ("models/v1-5.ckpt", "sd-v1-4.ckpt"):
            torch.save({"state_dict": small}, self.at / name)
        torch.save(random_vgg(), self.at / PUBLIC_FILE)
        self._adapters(small)

    def _adapters(self, small: State) -> None:
        """A base with a model tuned from it, a LoRA of its width, and two of the published model's."""
        layer = "down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"
        tuned = {
            key: value + 0.1 * value.ndim if key.endswith("to_q.weight") else value for key, value in small.items()
        }
        for name, state in {
            "base": small,
            "tuned": tuned,
            **{name: lora(layer, width) for name, width in (("style", 32), ("a", 320), ("b", 320))},
        }.items():
            save_file(state, self.at / f"{name}.safetensors")

    def published(self, model: str) -> Path:
        """What the hub would give for a model of configs/models: a file of its names and shapes that takes no room."""
        file = self.at / "models" / f"{model}.safetensors"
        if not file.exists():
            file_of_zeros(file, full_size(config_of([ROOT / "configs/models" / f"{model}.yaml"], self.flat)))
        return file

    def _code(self) -> None:
        """What pages show as files to be written: a dataset, and a list of prompts."""
        blocks = {name: (ROOT / name).read_text("utf-8") for name in ("lun/README.md", "lun/sample/README.md")}
        (self.at / "lun" / "local").mkdir(parents=True)
        (dataset,) = re.findall(r"```python\n(.*?)```", blocks["lun/README.md"], flags=re.DOTALL)
        (self.at / "lun/local/colours.py").write_text(dataset)
        (prompts,) = re.findall(r"```\n(# n negative.*?)```", blocks["lun/sample/README.md"], flags=re.DOTALL)
        for long, short in (("--w 512 --h 768", "--w 64 --h 64"), ("--s 30", "--s 1")):
            assert long in prompts
            prompts = prompts.replace(long, short)
        (self.at / "prompts.txt").write_text(prompts)
        (self.at / "train.sh").write_text((ROOT / "tests/fixtures/foreign/kohya.sh").read_text())
        several, *_ = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/datasets.md").read_text("utf-8"), flags=re.DOTALL)
        (self.at / "sets.yaml").write_text(several)
        for name, text in named_files(ROOT / "docs/recipes.md").items():
            (self.at / name).write_text(text)
        for name in ("DIR1", "DIR2", "DIR3"):
            (self.at / name).symlink_to(self.flat)

    def lay(self, kohya: bool) -> None:
        """DIR becomes a folder of this kind, with its captions and nothing else."""
        (self.at / "DIR").unlink(missing_ok=True)
        (self.at / "DIR").symlink_to(self.kohya if kohya else self.flat)
        shutil.rmtree(self.flat / "mask", ignore_errors=True)  # what annotating has added
        (self.flat / "metadata.jsonl").unlink(missing_ok=True)

    def train(self) -> None:
        """logs/RUN, the newest run: four steps with snapshots of the averages."""
        words = ["--base", "CONFIGS", "configs/options/ema-power.yaml", "--data_root", str(self.flat)]
        words += ["model.params.ema_config.params.update_every=1", "lightning.callbacks.ema_snapshots.params.count=2"]
        assert run([*words, "-t"]) == 0
        (self.at / "logs/RUN").symlink_to((self.at / "logs/latest").resolve())


def desk_at(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The desk as working directory."""
    monkeypatch.setenv("LUN_THREADS", "1")
    monkeypatch.setenv("LUN_CACHE", str(place / "cache"))
    bitsandbytes_stub.install(monkeypatch)
    tiny_annotators.stand_for_onnxruntime(monkeypatch)
    desk = Desk(place)
    monkeypatch.chdir(place)
    desk.train()
    yield desk
    for name in [name for name in sys.modules if name.startswith("lun.local")]:
        del sys.modules[name]
