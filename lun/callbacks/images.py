"""Pictures during training: inputs, reconstructions and samples, as files and in the loggers."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.diffusion.ddpm import DDPM
from lun.loggers.logged_pictures import log_picture
from lun.loop.boundary import AtStepBoundary
from lun.loop.preserved_state import preserved_state
from lun.previews.drawable import require_previewable, sides_of
from lun.previews.grid import fitted, grid, layout, on_one_size, to_uint8, write
from lun.previews.options import SAMPLED, UNCHANGED, at_least_one, chosen, for_model, known, not_again
from lun.previews.prompts import Prompts, drawn_at_once, how_of, labels_of, seeds_of
from lun.previews.samples import SampleRecord
from lun.previews.strip import draw_strip

log = logging.getLogger(__name__)

SMALLEST_TILE = 96


class ImageLogger(AtStepBoundary):
    """Draws pictures at step 0, every `batch_frequency` optimizer steps and at the last one.

    All ranks compute, rank 0 writes `images/{train,val,samples}/...png` below the run directory, those of batches with
    their captions. What a frozen first stage makes of pictures is drawn once at each start. Training is not
    touched: weights after N steps are the same, bit for bit, with and without this callback.

    max_images           pictures of a batch that are shown; also how many prompts are sampled at once
    val_batch_frequency  every how many validation runs their first batch is shown
    clamp, rescale       how values become bytes, see `to_uint8`
    prompts              fixed prompts, drawn from seeds 42, 43, ... with the raw and with the averaged weights;
                         captions of batches are then not sampled; a file (one a line, or YAML) is read again each time.
                         Each may say more, as prompts of `lun.sample` do: `a fox --n blurry --w 512 --h 768 --d 7 --l 7
                         --s 30 --ss euler` (negative, width, height, seed, guidance, steps, scheduler), or a map
    log_images_kwargs    for the model: N, sample, ddim_steps (50), ddim_eta, unconditional_guidance_scale (1.0, which
                         is none), guidance_rescale, guidance_low, guidance_high (`ldm.diffusion.sampling.guidance`),
                         and which further pictures are drawn (`ldm.models.diffusion.preview_rows.Wanted`):
                         plot_diffusion_rows, plot_denoise_rows, plot_progressive_rows, inpaint, ...; n_row (pictures
                         across), use_ema_scope (false: only the raw weights), return_keys (only these pictures)
    batch_frequency  optimizer steps from one drawing to the next
    disabled  draw nothing
    log_images_to_loggers  hand pictures to loggers that take them, beside the files
    """

    doing = "sampling"

    def __init__(
        self,
        batch_frequency: int = 750,
        max_images: int = 4,
        val_batch_frequency: int = 1,
        clamp: bool = True,
        rescale: bool = True,
        disabled: bool = False,
        prompts: Sequence[str | Mapping[str, Any]] | str = (),
        log_images_kwargs: Mapping[str, Any] | None = None,
        log_images_to_loggers: bool = True,
    ) -> None:
        super().__init__()
        self.batch_frequency = at_least_one("batch_frequency", batch_frequency)
        self.max_images = at_least_one("max_images", max_images)
        self.val_batch_frequency = at_least_one("val_batch_frequency", val_batch_frequency)
        self.clamp = clamp
        self.rescale = rescale
        self.disabled = disabled
        self.options = known(log_images_kwargs or {})
        self._prompts = Prompts(prompts, self._guidance)
        self._drawn = self._prompts.current
        self.log_images_to_loggers = log_images_to_loggers
        self.real: dict[str, Image.Image] = {}
        self._train_batch: Any = None
        self._val_batch: Any = None
        self._validations = 0
        self._drawn_at: int | None = None
        self._reconstructed: set[str] = set()
        self._asked = False

    def draw_next(self) -> None:
        """Draw at the next step boundary, whether or not it is due."""
        self._asked = True

    @property
    def drawn_at(self) -> int | None:
        """The step at which it drew last."""
        return self._drawn_at

    @property
    def prompts(self) -> list[str]:
        """What the prompts that are drawn are called: see `labels_of`."""
        return labels_of(self._drawn)

    @property
    def seeds(self) -> list[int]:
        """One fixed seed for each prompt."""
        return seeds_of(self._drawn)

    # What Lightning hands over

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Raises `Fault` CFG03 for a picture that this model does not draw, before anything is computed."""
        if not self.disabled and hasattr(pl_module, "log_images"):
            self._model_options(pl_module)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raises `Fault` for a prompt that this model cannot draw, before the first step."""
        if not self.disabled and isinstance(pl_module, DDPM):
            self._prompts.require(lambda prompt: require_previewable(prompt, self.options, pl_module))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._train_batch = batch
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validations += 1

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Keep the first batch until the validation is over: within it the model may hold other weights."""
        self._recognise(batch)
        wanted = batch_idx == 0 and dataloader_idx == 0 and (self._validations - 1) % self.val_batch_frequency == 0
        if wanted and not trainer.sanity_checking and not self.disabled:
            self._val_batch = batch

    def _recognise(self, batch: Any) -> None:
        """Remember the real pictures of validation examples whose caption is one of the prompts."""
        missing = set(self.prompts) - self.real.keys()
        if not missing or self.disabled or not isinstance(batch, Mapping) or "image" not in batch:
            return
        for caption, image in zip(batch.get("caption", ()), batch["image"], strict=False):
            if caption in missing and caption not in self.real:
                picture = Image.fromarray(to_uint8(image.movedim(-1, 0)[None])[0])
                self.real[caption] = fitted(picture, 128) if picture.width > 128 else picture

    # Drawing

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        val_batch, self._val_batch = self._val_batch, None
        if self.disabled:
            return
        due = self._due(trainer, step, final)
        if not due and val_batch is None:
            return
        if isinstance(self._prompts.source, str):
            self._drawn = trainer.strategy.broadcast(self._prompts.read_again())
        with preserved_state(pl_module):
            if val_batch is not None:
                self._draw_batch(trainer, pl_module, val_batch, "val", step)
            if due and self._train_batch is not None:
                self._draw_batch(trainer, pl_module, self._train_batch, "train", step)
            if due and self.prompts:
                self._draw_prompts(trainer, pl_module, step)

    def _due(self, trainer: Trainer, step: int, final: bool) -> bool:
        """A stop before the last step (a signal, a time limit) draws nothing: its seconds are needed for the save."""
        last = final and trainer.max_steps in (-1, step)
        resumed_here = self.first and step > 0  # also of a run that had all its steps: what it drew is there
        asked, self._asked = self._asked, False
        regular = not resumed_here and (step % self.batch_frequency == 0 or last)
        if step == self._drawn_at or not (regular or asked):
            return False
        self._drawn_at = step
        return True

    def _draw_batch(self, trainer: Trainer, pl_module: Any, batch: Any, split: str, step: int) -> None:
        options = self._model_options(pl_module)
        if split in self._reconstructed and "moments" not in batch:  # of a cache there is nothing else to see
            options = not_again(options, pl_module.log_images)
        self._reconstructed.add(split)
        with trainer.precision_plugin.forward_context():
            shown = dict(pl_module.log_images(batch, split=split, **options))
        if self.prompts:
            shown = {key: images for key, images in shown.items() if key not in ("samples", "samples_ema")}
        drawn = [key for key in shown if key in SAMPLED and f"{key}_ema" not in shown]
        if drawn and self._averages(pl_module):
            once = {key: value for key, value in options.items() if key not in UNCHANGED}
            # A context of its own: autocast caches casts of weights and would not see the swap.
            with pl_module.ema_scope(), trainer.precision_plugin.forward_context():
                averaged = pl_module.log_images(batch, split=split, **once)
            shown |= {f"{key}_ema": averaged[key] for key in drawn}
        for key, images in chosen(shown, self.options).items():
            few = images[: self.max_images]
            self._write(trainer, split, key, f"{split}/{key}", few, step, _captions(batch, key, len(few)))

    def _draw_prompts(self, trainer: Trainer, pl_module: Any, step: int) -> None:
        drawn = {"raw": self._sample(trainer, pl_module)}
        if self._averages(pl_module):
            with pl_module.ema_scope():
                drawn["ema"] = self._sample(trainer, pl_module)
        if not trainer.is_global_zero:
            return
        record = SampleRecord(Path(trainer.default_root_dir) / "images" / "samples")
        try:
            for weights, images in drawn.items():
                self._keep_samples(trainer, record, weights, images, step)
            draw_strip(record, self.prompts, self.seeds, self.real, self._footer(trainer, step))
        except OSError as error:
            log.warning("could not write the strip of samples: %s", error)

    def _keep_samples(
        self, trainer: Trainer, record: SampleRecord, weights: str, drawn: Sequence[Tensor], step: int
    ) -> None:
        images, key = on_one_size(drawn), "samples" if weights == "raw" else "samples_ema"
        path = self._write(trainer, "samples", key, f"{key}/sheet", images, step, self.prompts)
        if path is None:
            return
        plan = layout(to_uint8(images[:1]).repeat(len(images), 0), self._columns(images), True, _scale(images))
        record.add(
            step, self.prompts, self.seeds, weights, path.name, plan, [(one.shape[2], one.shape[1]) for one in drawn]
        )
        if weights == "raw":
            log.info("step %5d  samples → images/samples/%s", step, path.name)

    def _sample(self, trainer: Trainer, pl_module: Any) -> list[Tensor]:
        """(3, h, w) of each on the CPU, a few prompts at a time; a sample depends on its own seed alone."""
        pictures: list[Tensor] = []
        seeds = self.seeds
        for few in drawn_at_once(self._drawn, self.max_images):
            first = self._drawn[few[0]]
            how = how_of(first, self.options)
            if (sides := sides_of(first, pl_module)) is not None:
                how["sides"] = sides
            negatives = [self._drawn[place].settings.get("negative", "") for place in few]
            apart = {"negatives": negatives} if any(negatives) else {}
            texts = [self._drawn[place].caption for place in few]
            with trainer.precision_plugin.forward_context():
                images = pl_module.sample_prompts(texts, [seeds[place] for place in few], **how, **apart)
            pictures += images.float().cpu()
        return pictures

    @property
    def _sampling_steps(self) -> int:
        return int(self.options.get("ddim_steps", 50))

    @property
    def _guidance(self) -> float:
        return float(self.options.get("unconditional_guidance_scale", 1.0))

    def _averages(self, pl_module: Any) -> bool:
        return pl_module.model_ema is not None and bool(self.options.get("use_ema_scope", True))

    def _model_options(self, pl_module: Any) -> dict[str, Any]:
        unsampled = self.prompts or self.options.get("log_samples") is False or self.options.get("only_inputs")
        asked = {"N": self.max_images, **self.options, **({"sample": False} if unsampled else {})}
        return for_model(asked, pl_module.log_images)

    # Writing

    def _write(
        self,
        trainer: Trainer,
        split: str,
        key: str,
        tag: str,
        images: Tensor,
        step: int,
        captions: Sequence[str] | None = None,
    ) -> Path | None:
        """On rank 0: one grid as a PNG and in the loggers. A full disk costs the picture, not the run."""
        if not trainer.is_global_zero or len(images) == 0:
            return None
        sheet = grid(to_uint8(images, self.clamp, self.rescale), self._columns(images, key), captions, _scale(images))
        epoch = int(getattr(getattr(trainer, "datamodule", None), "epoch", 0))
        name = f"{key}_r-{trainer.global_rank}_gs-{step:06}_e-{epoch:06}.png"
        path = Path(trainer.default_root_dir) / "images" / split / name
        try:
            write(sheet, path)
        except OSError as error:
            log.warning("could not write %s: %s", path, error)
            return None
        if self.log_images_to_loggers:
            for logger in trainer.loggers:
                log_picture(logger, tag, sheet, step)
        return path

    def _columns(self, images: Tensor, key: str = "") -> int:
        if "_row" in key:
            return 1
        return int(self.options.get("n_row", 0)) or min(len(images), 8)

    def _footer(self, trainer: Trainer, step: int) -> str:
        total = f" of {trainer.max_steps}" if trainer.max_steps > 0 else ""
        how = f"{self._sampling_steps} sampling steps, guidance {self._guidance:g}"
        return f"step {step}{total}; the same prompts and seeds each time, {how}"


def _captions(batch: Any, key: str, count: int) -> list[str] | None:
    """Those under the pictures of a batch; None where it has none, and for rows, which show several steps of one."""
    captions = batch.get("caption") if isinstance(batch, Mapping) and "_row" not in key else None
    return list(captions[:count]) if captions and len(captions) >= count else None


def _scale(images: Tensor) -> int:
    return max(1, round(SMALLEST_TILE / images.shape[-2]))
