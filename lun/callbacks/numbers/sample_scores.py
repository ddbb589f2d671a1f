"""How well samples fit their captions during training, how far they are from the data, and what they copy of it."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ldm.diffusion.draws import Draws
from ldm.diffusion.number_limits import FROM_ONE, FROM_ZERO, Interval, require_limits
from ldm.errors import Fault
from ldm.files.replacing import replace_text, replacing
from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.diffusion.ddpm import DDPM
from lun.data.dataset_protocol import DatasetAccess
from lun.data.whole_pictures import whole_pictures
from lun.features.scoring import Encoders, Features, nearest_pictures, scores_of
from lun.loop.boundary import AtStepBoundary
from lun.loop.contract import data_of
from lun.loop.preserved_state import preserved_state
from lun.previews.grid import to_uint8

log = logging.getLogger(__name__)

FILE = "metrics/samples.json"
KEPT = "metrics/nearest"
"""The samples of the nearest pairs, for the run's page."""
MOST_KEPT = 12
KEPT_SIDE = 96
SIDE = 512
"""Pixels a side that pictures have at least, where their files do: more than encoders look at."""
AT_ONCE = 4
FROM_TWO = Interval(2)
"""A distance takes two pictures of either."""


class SampleScores(AtStepBoundary):
    """Draws samples every so often, with averaged weights where there are some, and logs `samples/...` of them.

    They are drawn for captions held out, or else of training, each with a seed of its own, the same ones each time, so
    that numbers can be compared over a run. What an encoder is not given for is not computed; they are folders on this
    machine, as of `python -m lun.measure`. `metrics/samples.json` has the numbers, and of each sample the training
    picture that it is nearest to; the run's page shows the nearest pairs. Training is not touched.

    clip       folder of a CLIP model: samples/clip_score, samples/cmmd
    dino       folder of a DINO model: samples/fd_dino, samples/nearest_dino
    features   folder of another image encoder: samples/fd_features
    pictures   samples drawn each time
    compare    training pictures that they are compared with, evenly spread, read once; 0 compares none
    steps, guidance   how they are drawn
    device     where encoders compute
    every_n_train_steps  optimizer steps from one drawing to the next
    """

    doing = "sampling"
    limits = {
        "every_n_train_steps": FROM_ONE,
        "pictures": FROM_TWO,
        "compare": FROM_ZERO,
        "steps": FROM_ONE,
        "guidance": FROM_ZERO,
    }

    def __init__(
        self,
        clip: str | None = None,
        dino: str | None = None,
        features: str | None = None,
        every_n_train_steps: int = 5_000,
        pictures: int = 64,
        compare: int = 1_000,
        steps: int = 25,
        guidance: float = 5.0,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        numbers = {"every_n_train_steps": every_n_train_steps, "pictures": pictures, "compare": compare}
        require_limits("SampleScores", self.limits, {**numbers, "steps": steps, "guidance": guidance})
        if compare == 1 or (clip is None and (compare == 0 or (dino is None and features is None))):
            raise Fault(
                "CFG08",
                "SampleScores has nothing to compute",
                where="SampleScores",
                why="CLIP scores take `clip`, and distances an encoder and two training pictures or more",
                fix="clip: FOLDER, dino: FOLDER, compare: 1000",
            )
        self.folders = {"clip": clip, "dino": dino, "features": features}
        self.every_n_train_steps = every_n_train_steps
        self.pictures = pictures
        self.compare = compare
        self.steps = steps
        self.guidance = guidance
        self.device = device
        self._encoders = Encoders()
        self._data: Features | None = None
        self._prompts: list[str] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raises `Fault` CFG08 for a model that draws nothing, MOD01 and others for what is no encoder."""
        super().on_fit_start(trainer, pl_module)
        if not isinstance(pl_module, DDPM):
            raise Fault(
                "CFG08", "SampleScores needs a model that draws", where="lightning.callbacks", fix="leave it out"
            )
        data = data_of(trainer)
        self._prompts = _captions(data.dataset("validation" if data.has("validation") else "train"), self.pictures)
        if trainer.is_global_zero:
            self._encoders = Encoders.load(**self.folders, device=self.device)

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        last = final and trainer.max_steps == step
        if (self.first and step) or not (step % self.every_n_train_steps == 0 or last):
            return
        with preserved_state(pl_module):
            drawn = self._draw(trainer, pl_module)
            if trainer.is_global_zero:
                self._log_scores(trainer, drawn, step)

    @property
    def _how(self) -> dict[str, Any]:
        return {"steps": self.steps, "guidance": self.guidance}

    def _draw(self, trainer: Trainer, model: Any) -> list[Image.Image]:
        """On all ranks, which may hold the weights together."""
        drawn: list[Tensor] = []
        with model.ema_scope():  # of a model without averages, the raw ones
            for start in range(0, len(self._prompts), AT_ONCE):
                captions = self._prompts[start : start + AT_ONCE]
                with trainer.precision_plugin.forward_context():
                    some = model.sample_prompts(captions, list(range(start, start + len(captions))), **self._how)
                drawn += some.float().cpu()
        return [Image.fromarray(pixels) for pixels in to_uint8(torch.stack(drawn))]

    def _log_scores(self, trainer: Trainer, drawn: list[Image.Image], step: int) -> None:
        dataset = data_of(trainer).dataset("train")
        places = range(0, len(dataset), -(-len(dataset) // self.compare)) if self.compare else range(0)
        if self._data is None and len(places) > 1:
            self._data = self._encoders.of_pictures(whole_pictures(dataset, places, SIDE))
        samples = self._encoders.of_pictures(drawn)
        numbers = scores_of(samples, self._data, self._encoders.of_captions(self._prompts))
        for logger in trainer.loggers:
            logger.log_metrics({f"samples/{name}": value for name, value in numbers.items()}, step)
        record: dict[str, Any] = {"step": step, "numbers": numbers}
        if self._data is not None:
            nearest, access = nearest_pictures(samples, self._data), DatasetAccess(dataset)
            rows = zip(self._prompts, nearest.cosine.tolist(), nearest.index.tolist(), strict=True)
            pairs = [
                {"cosine": cosine, "caption": text, "seed": seed, "picture": access.path(places[index])}
                for seed, (text, cosine, index) in enumerate(rows)
            ]
            record["nearest"] = sorted(pairs, key=lambda pair: -float(pair["cosine"]))
        try:
            _write(Path(trainer.default_root_dir), record, drawn)
        except OSError as error:
            log.warning("%s cannot be written for now: %s", FILE, error.strerror)


def _write(run: Path, record: dict[str, Any], drawn: Sequence[Image.Image]) -> None:
    """The record, and the nearest samples as small pictures; those of the step before stay until it is whole."""
    kept = set()
    for pair in record.get("nearest", ())[:MOST_KEPT]:
        pair["sample"] = f"{record['step']:09}-{pair['seed']:04}.jpg"
        kept.add(place := run / KEPT / pair["sample"])
        small = drawn[pair["seed"]].copy()
        small.thumbnail((KEPT_SIDE, KEPT_SIDE))
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            small.save(file, "JPEG", quality=82)
    replace_text(run / FILE, json.dumps(record, ensure_ascii=False, indent=1) + "\n")
    for place in (run / KEPT).glob("*.jpg"):
        if place not in kept:
            place.unlink(missing_ok=True)


def _captions(dataset: Any, most: int) -> list[str]:
    """One of each of so many examples, evenly spread, and again from the first where there are fewer."""
    access = DatasetAccess(dataset)
    places = [
        int(number * len(access) / most) if len(access) > most else number % len(access) for number in range(most)
    ]
    return [str(access.read(index, Draws(0, index))["caption"]) for index in places]
