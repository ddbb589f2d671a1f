"""Pictures of a real tiny run, and the rest with stand-ins."""

import json
import logging
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from PIL import Image
from support.models import tiny_model
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import DataLoader

from ldm.errors import Fault
from ldm.lightning_classes import as_lightning
from ldm.position import Position
from lun.callbacks.images import ImageLogger
from lun.callbacks.pace import stopwatch
from lun.callbacks.progress import SmoothedProgressBar
from lun.callbacks.throughput import Throughput
from lun.loggers import JsonlLogger
from lun.loop.position_callback import FollowPosition
from lun.previews.grid import grid
from lun.previews.samples import SampleRecord

PROMPTS = ["fox, red background", "frog, blue background", "car, green background"]


class Painter(pl.LightningModule):
    """A model of two parameters that can be asked for pictures, and that remembers how it was asked."""

    def __init__(self, averages: bool = True):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
        self.frozen = nn.Dropout(0.5).eval()
        self.position = Position()
        self.model_ema = object() if averages else None
        self.swapped = 0
        self.asked = []
        self.averaged = False

    def on_train_start(self):
        self.frozen.eval()

    def training_step(self, batch, batch_idx):
        return self.layer(batch["image"]).sub(batch["image"]).square().mean() + torch.rand(())

    def validation_step(self, batch, batch_idx):
        self.log("val/loss_simple", batch["image"].square().mean())

    def window_completed(self, examples):
        self.position.advance(examples)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)

    @contextmanager
    def ema_scope(self):
        self.swapped += 1
        self.averaged = True
        yield
        self.averaged = False

    def log_images(self, batch, split, N=8, sample=True, **kwargs):
        self.asked.append((split, self.position.step, sample, self.averaged))
        assert not self.training and not torch.is_grad_enabled()
        torch.rand(7)
        images = batch["image"][:N].movedim(-1, 1)
        return {"inputs": images, "reconstruction": -images, **({"samples": images} if sample else {})}

    def sample_prompts(self, prompts, seeds, steps, guidance):
        self.asked.append((tuple(prompts), tuple(seeds), steps, guidance, self.averaged))
        torch.rand(7)
        shade = 0.5 if self.averaged else -0.5
        return torch.stack([torch.full((3, 8, 8), shade + seed / 1000) for seed in seeds])


class Pictures(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = torch.rand(8, 8, 3, generator=torch.Generator().manual_seed(index)) * 2 - 1
        return {"image": image, "caption": PROMPTS[index % 3]}


class Data(pl.LightningDataModule):
    global_batch = 4
    epoch = 0

    def __init__(self, accumulate):
        super().__init__()
        self.micro_batch = 4 // accumulate

    def train_dataloader(self):
        return DataLoader(Pictures(64), batch_size=self.micro_batch)

    def val_dataloader(self):
        return DataLoader(Pictures(6), batch_size=3)


def fit(folder, callbacks, loggers=False, steps=5, accumulate=1, averages=True):
    torch.manual_seed(0)
    model = Painter(averages)
    trainer = pl.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        accumulate_grad_batches=accumulate,
        callbacks=[as_lightning(one) for one in (FollowPosition(), *callbacks)],
        logger=loggers,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=any(isinstance(c, SmoothedProgressBar) for c in callbacks),
        val_check_interval=2 * accumulate,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=1,
        log_every_n_steps=1,
    )
    trainer.fit(model, datamodule=Data(accumulate))
    return model


def steps_of(folder, key):
    return [int(path.name.split("gs-")[1][:6]) for path in sorted(folder.glob(f"{key}_r-0_gs-*.png"))]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One real run of five optimizer steps of two micro-batches, with everything a person sees."""
    folder = tmp_path_factory.mktemp("run")
    logger = ImageLogger(batch_frequency=2, max_images=2, prompts=PROMPTS, log_images_kwargs={"ddim_steps": 3})
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("lun").addHandler(handler)
    logging.getLogger("lun").setLevel(logging.INFO)
    loggers = [TensorBoardLogger(folder, name="tensorboard"), JsonlLogger(str(folder))]
    model = fit(folder, [SmoothedProgressBar(), Throughput(), logger], loggers, accumulate=2)
    logging.getLogger("lun").removeHandler(handler)
    return SimpleNamespace(folder=folder, model=model, said=[r.getMessage() for r in records])


def test_weights_are_bit_equal_with_and_without_pictures(tmp_path, run):
    plain = fit(tmp_path, [], accumulate=2)
    assert plain.position.step == run.model.position.step == 5
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, run.model.state_dict()[name]), name


def test_pictures_exist_at_step_0_each_due_step_and_the_end_exactly_once(run):
    images = run.folder / "images"
    assert steps_of(images / "train", "inputs") == steps_of(images / "train", "reconstruction") == [0, 2, 4, 5]
    assert steps_of(images / "samples", "samples") == steps_of(images / "samples", "samples_ema") == [0, 2, 4, 5]
    assert [entry[1] for entry in run.model.asked if entry[0] == "train"] == [0, 2, 4, 5]


def test_a_validation_shows_its_first_batch_once_and_the_sanity_check_shows_nothing(run):
    assert steps_of(run.folder / "images" / "val", "inputs") == [2, 4]
    assert [entry[1] for entry in run.model.asked if entry[0] == "val"] == [2, 4]


def test_prompts_are_drawn_a_few_at_a_time_with_fixed_seeds_raw_and_averaged(run):
    drawn = [entry for entry in run.model.asked if isinstance(entry[0], tuple)][:4]
    few, rest = (tuple(PROMPTS[:2]), (42, 43), 3, 1.0), (tuple(PROMPTS[2:]), (44,), 3, 1.0)
    assert drawn == [(*few, False), (*rest, False), (*few, True), (*rest, True)]
    assert run.model.swapped == 4


def test_with_prompts_captions_of_batches_are_not_sampled(run):
    assert not any(entry[2] for entry in run.model.asked if entry[0] in ("train", "val"))
    assert not list((run.folder / "images" / "train").glob("samples*"))


def test_every_part_trains_on_in_the_mode_it_had(run):
    assert run.model.layer[1].training and not run.model.frozen.training


def test_samples_are_listed_with_prompt_seed_and_file(run):
    folder = run.folder / "images" / "samples"
    entries = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert len(entries) == 4 * 2 * 3
    assert (entries[1]["step"], entries[1]["prompt"], entries[1]["seed"]) == (0, PROMPTS[1], 43)
    assert all((folder / entry["file"]).exists() for entry in entries)


def test_the_strip_shows_steps_and_the_real_pictures_of_validation(run):
    with Image.open(run.folder / "images" / "samples" / "timeline.png") as strip:
        assert strip.height > 9 * 64 and strip.width > 3 * 64


def test_tags_are_constant_over_time(run):
    (events,) = (run.folder / "tensorboard").glob("*/events*")
    read = EventAccumulator(str(events), {"images": 0}).Reload()
    assert set(read.Tags()["images"]) == {
        "train/inputs",
        "train/reconstruction",
        "val/inputs",
        "val/reconstruction",
        "samples/sheet",
        "samples_ema/sheet",
    }
    assert [image.step for image in read.Images("samples/sheet")] == [0, 2, 4, 5]


def test_metrics_are_lines_of_json_with_speed_and_validation(run):
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    speeds = [line for line in lines if "perf/step_ms" in line]
    assert [line["step"] for line in speeds] == [2, 3, 4, 5]
    assert all(0 < line["perf/data_wait"] < 1 for line in speeds)  # 0 where Lightning's marks are gone
    images = [line["perf/images_per_s"] * line["perf/step_ms"] / 1000 for line in speeds]
    assert images == pytest.approx([max(1, round(images[0]))] * 4)  # the same whole number of pictures in each step
    assert any("val/loss_simple" in line for line in lines)


def test_lightning_still_marks_fetching_and_callbacks(run):
    watch = stopwatch(run.model.trainer)
    assert watch.fetching > 0 and watch.between > 0


def test_a_line_stays_after_each_validation_and_sampling(run):
    assert len([line for line in run.said if line.startswith("step     2  loss") and "val 0." in line]) == 1
    assert "step     4  samples → images/samples/samples_r-0_gs-000004_e-000000.png" in run.said
    assert any(line.startswith("step 5/5  loss") for line in run.said)


def test_without_prompts_captions_of_batches_are_sampled_raw_and_averaged(tmp_path):
    model = fit(tmp_path, [ImageLogger(batch_frequency=100)], steps=2)
    for split in ("train", "val"):
        names = {path.name.split("_r-")[0] for path in (tmp_path / "images" / split).iterdir()}
        assert names == {"inputs", "reconstruction", "samples", "samples_ema"}
    assert not (tmp_path / "images" / "samples").exists()
    assert [entry[3] for entry in model.asked] == [False, True] * 3


# The same with stand-ins, where a real run would show no more


@pytest.fixture
def trainer(tmp_path):
    return SimpleNamespace(
        default_root_dir=str(tmp_path),
        max_steps=10,
        is_global_zero=True,
        global_rank=0,
        loggers=[],
        sanity_checking=False,
        datamodule=SimpleNamespace(epoch=7),
        precision_plugin=SimpleNamespace(forward_context=nullcontext),
    )


BATCH = {"image": torch.zeros(2, 8, 8, 3), "caption": PROMPTS[:2]}


def arrive(callback, trainer, model, step, final=False):
    model.position.step = step
    if final:
        callback.on_train_end(trainer, model)
    else:
        callback.on_train_batch_start(trainer, model, BATCH, 0)


def drawn(tmp_path):
    return steps_of(tmp_path / "images" / "train", "inputs")


def test_the_file_name_tells_rank_step_and_our_epoch(trainer, tmp_path):
    arrive(ImageLogger(), trainer, Painter(), 0)
    assert (tmp_path / "images" / "train" / "inputs_r-0_gs-000000_e-000007.png").exists()


def test_a_run_resumed_at_a_due_step_does_not_draw_it_again(trainer, tmp_path):
    callback, model = ImageLogger(batch_frequency=5), Painter()
    for step in (5, 6):
        arrive(callback, trainer, model, step)
    assert drawn(tmp_path) == []


def test_a_finished_run_that_is_resumed_draws_nothing_again(trainer, tmp_path):
    callback, model = ImageLogger(batch_frequency=5, prompts=PROMPTS), Painter()
    callback._train_batch = BATCH
    arrive(callback, trainer, model, 10, final=True)
    assert model.asked == [] and not (tmp_path / "images").exists()


@pytest.mark.parametrize(("options", "again"), [({}, [0]), ({"plot_reconstruction": True}, [0, 5, 10])])
def test_a_frozen_first_stage_is_shown_once(trainer, tmp_path, options, again):
    class Frozen(Painter):
        def log_images(self, batch, split, N=8, sample=True, plot_reconstruction=True):
            shown = super().log_images(batch, split, N, sample)
            return shown if plot_reconstruction else {k: v for k, v in shown.items() if k != "reconstruction"}

    callback, model = ImageLogger(batch_frequency=5, log_images_kwargs=options), Frozen()
    for step in (0, 5, 10):
        arrive(callback, trainer, model, step)
    assert drawn(tmp_path) == [0, 5, 10]
    assert steps_of(tmp_path / "images" / "train", "reconstruction") == again


def test_pictures_of_a_batch_have_their_captions_below(trainer, tmp_path, monkeypatch):
    written = {}

    def watched(images, columns, captions=None, scale=1):
        written[len(written)] = captions
        return grid(images, columns, captions, scale)

    monkeypatch.setattr("lun.callbacks.images.grid", watched)
    arrive(ImageLogger(log_images_kwargs={"plot_diffusion_rows": True}), trainer, RowPainter(averages=False), 0)
    assert list(written.values()) == [PROMPTS[:2], PROMPTS[:2], PROMPTS[:2], None]


@pytest.mark.parametrize(("max_steps", "expected"), [(10, [0]), (7, [0, 7]), (-1, [0, 7])])
def test_a_stop_draws_only_at_the_last_step_of_the_run(trainer, tmp_path, max_steps, expected):
    trainer.max_steps = max_steps
    callback, model = ImageLogger(batch_frequency=5), Painter()
    arrive(callback, trainer, model, 0)
    arrive(callback, trainer, model, 7, final=True)
    assert drawn(tmp_path) == expected


def test_a_disabled_logger_asks_the_model_for_nothing(trainer, tmp_path):
    model = Painter()
    arrive(ImageLogger(disabled=True), trainer, model, 0)
    assert model.asked == [] and list(tmp_path.iterdir()) == []


def test_other_ranks_compute_the_same_and_write_nothing(trainer, tmp_path):
    first, other = Painter(), Painter()
    arrive(ImageLogger(prompts=PROMPTS), trainer, first, 0)
    trainer.is_global_zero, trainer.default_root_dir = False, str(tmp_path / "other")
    arrive(ImageLogger(prompts=PROMPTS), trainer, other, 0)
    assert other.asked == first.asked and not (tmp_path / "other").exists()


class RowPainter(Painter):
    """Draws rows, besides; what it samples tells the weights apart."""

    def log_images(self, batch, split, N=8, sample=True, plot_diffusion_rows=False, inpaint=False):
        images = batch["image"][:N].movedim(-1, 1) + self.averaged
        shown = super().log_images(batch, split, N, sample)
        if plot_diffusion_rows:
            shown["diffusion_row"] = images.repeat(1, 1, 1, 4)
        return shown | ({"samples_inpainting": images, "mask": images[:, :1]} if inpaint else {})


@pytest.mark.parametrize("prompts", [[], PROMPTS])
def test_rows_and_inpainting_are_drawn_with_prompts_too_and_what_is_sampled_twice(trainer, tmp_path, prompts):
    options = {"plot_diffusion_rows": True, "inpaint": True}
    arrive(ImageLogger(prompts=prompts, log_images_kwargs=options), trainer, RowPainter(), 0)
    pictures = {path.name.split("_r-")[0]: Image.open(path) for path in (tmp_path / "images" / "train").iterdir()}
    sampled = {"samples_inpainting", "samples_inpainting_ema"} | (set() if prompts else {"samples", "samples_ema"})
    assert pictures.keys() == {"inputs", "reconstruction", "diffusion_row", "mask"} | sampled
    row = pictures["diffusion_row"]
    assert row.width > row.height  # one example under the other, each four times as wide as high
    made = [pictures[name].getpixel((20, 20)) for name in ("samples_inpainting", "samples_inpainting_ema")]
    assert made[0] != made[1]


def test_a_picture_that_the_model_does_not_draw_is_refused_before_training(trainer):
    with pytest.raises(Fault, match="draws nothing for log_images_kwargs.plot_progressive_rows"):
        ImageLogger(log_images_kwargs={"plot_progressive_rows": True}).setup(trainer, RowPainter(), "fit")
    ImageLogger(log_images_kwargs={"plot_progressive_rows": False}).setup(trainer, RowPainter(), "fit")


def test_only_chosen_pictures_are_written(trainer, tmp_path):
    arrive(ImageLogger(log_images_kwargs={"only_inputs": True}), trainer, model := Painter(), 0)
    assert [path.name.split("_r-")[0] for path in (tmp_path / "images" / "train").iterdir()] == ["inputs"]
    assert model.asked == [("train", 0, False, False)]


@pytest.mark.parametrize("settings", [{"averages": False}, {"options": {"use_ema_scope": False}}])
def test_without_averages_or_when_not_wanted_nothing_is_swapped(trainer, settings, tmp_path):
    model = Painter(settings.get("averages", True))
    arrive(ImageLogger(prompts=PROMPTS, log_images_kwargs=settings.get("options")), trainer, model, 0)
    assert model.swapped == 0
    assert steps_of(tmp_path / "images" / "samples", "samples_ema") == []


def test_only_every_nth_validation_is_shown(trainer, tmp_path):
    callback, model = ImageLogger(val_batch_frequency=2), Painter()
    for step in range(1, 5):
        callback.on_validation_start(trainer, model)
        for index in range(2):
            callback.on_validation_batch_start(trainer, model, BATCH, index)
        arrive(callback, trainer, model, step)
    assert steps_of(tmp_path / "images" / "val", "inputs") == [1, 3]


def test_a_full_disk_costs_the_pictures_and_not_the_run(trainer, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lun.callbacks.images.write", full)
    arrive(ImageLogger(), trainer, Painter(), 0)
    assert "No space left" in caplog.text


def test_a_logger_with_pictures_of_its_own_gets_the_sheet(trainer):
    shown = []
    trainer.loggers = [SimpleNamespace(log_image=lambda tag, sheets, step: shown.append((tag, len(sheets), step)))]
    arrive(ImageLogger(), trainer, Painter(averages=False), 0)
    assert shown == [("train/inputs", 1, 0), ("train/reconstruction", 1, 0), ("train/samples", 1, 0)]
    shown.clear()
    arrive(ImageLogger(log_images_to_loggers=False), trainer, Painter(), 0)
    assert shown == []


def test_a_setting_that_makes_no_sense_is_a_fault():
    for settings in ({"batch_frequency": 0}, {"max_images": 0}, {"log_images_kwargs": {"ddim_step": 3}}):
        with pytest.raises(Fault):
            ImageLogger(**settings)


def test_prompts_in_a_file_are_read_again_at_each_sampling(tmp_path, caplog):
    file = tmp_path / "prompts.txt"
    file.write_text("fox, red background\n\n# not this one\n")

    class Edit(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            if pl_module.position.step == 1:
                file.write_text("a blue bird\na snail\n")
            if pl_module.position.step == 3:
                file.unlink()

    model = fit(tmp_path, [ImageLogger(batch_frequency=2, prompts=str(file)), Edit()], steps=4, averages=False)
    drawn = [asked[0] for asked in model.asked if isinstance(asked[0], tuple)]
    assert drawn == [("fox, red background",), ("a blue bird", "a snail"), ("a blue bird", "a snail")]
    assert caplog.text.count("the prompts stay as they were") == 1


def test_a_file_of_prompts_that_is_not_there_is_a_fault_at_the_start(tmp_path):
    with pytest.raises(Fault, match="CFG01"):
        ImageLogger(prompts=str(tmp_path / "none.txt"))


def test_a_prompt_says_itself_how_it_is_drawn(tmp_path):
    class Asked(Painter):
        def sample_prompts(self, prompts, seeds, steps, guidance, negatives=()):
            self.asked.append((prompts, seeds, steps, guidance, list(negatives)))
            return torch.zeros(len(prompts), 3, 8, 8)

    prompts = ["a fox --n blurry --d 7 --l 5 --s 3", "an owl"]
    logger = ImageLogger(prompts=prompts, log_images_kwargs={"ddim_steps": 2, "use_ema_scope": False})
    trainer, model = SimpleNamespace(precision_plugin=SimpleNamespace(forward_context=nullcontext)), Asked()
    assert [sample.shape for sample in logger._sample(trainer, model)] == [(3, 8, 8)] * 2
    assert model.asked == [(["a fox"], [7], 3, 5.0, ["blurry"]), (["an owl"], [43], 2, 1.0, [])]


def test_prompts_of_any_size_and_solver_share_a_sheet_and_the_strip(tmp_path, trainer):
    class Asked(Painter):
        image_size = 8

        def sample_prompts(self, prompts, seeds, steps, guidance, sides=(8, 8), scheduler="ddim"):
            self.asked.append((prompts, sides, scheduler))
            return torch.full((len(prompts), 3, *sides), -0.5)

    prompts = ["a fox --w 24 --ss euler", {"prompt": "a fox", "seed": 42, "height": 16}, "an owl"]
    arrive(ImageLogger(prompts=prompts), trainer, model := Asked(averages=False), 0)
    sampled = [asked for asked in model.asked if isinstance(asked[0], list)]
    assert sampled == [(["a fox"], (8, 24), "euler"), (["a fox"], (16, 8), "ddim"), (["an owl"], (8, 8), "ddim")]
    record = SampleRecord(tmp_path / "images" / "samples")
    wanted = [("a fox (width 24, scheduler euler)", 42), ("a fox (height 16)", 42), ("an owl", 44)]
    tiles = record.tiles(record.read(), 0, "raw", wanted)
    assert [tile.size for tile in tiles] == [(24, 8), (8, 16), (8, 8)]
    assert {colour for tile in tiles for _, colour in tile.getcolors()} == {(64, 64, 64)}


@pytest.mark.parametrize("line", ["a fox --w 9", "a fox --s 1001"])
def test_a_prompt_that_the_model_cannot_draw_is_refused_before_the_first_step(line, trainer):
    model = tiny_model()
    model.configure_model()
    with pytest.raises(Fault) as caught:
        ImageLogger(prompts=["an owl --w 16", line]).on_fit_start(trainer, model)
    assert caught.value.where.endswith("prompts[1]")
    ImageLogger(prompts=[line], disabled=True).on_fit_start(trainer, model)


def test_guidance_is_refined_by_the_options_or_the_prompt_but_where_a_prompt_has_none(tmp_path):
    class Asked(Painter):
        def sample_prompts(self, prompts, seeds, steps, guidance, **refined):
            self.asked.append((prompts, guidance, refined))
            return torch.zeros(len(prompts), 3, 8, 8)

    file = tmp_path / "p.yaml"
    file.write_text("- a\n- {prompt: b, guidance_rescale: 0.2}\n- {prompt: c, guidance: 1}\n")
    options = {"unconditional_guidance_scale": 5.0, "guidance_rescale": 0.7, "guidance_high": 6, "use_ema_scope": False}
    logger = ImageLogger(prompts=str(file), log_images_kwargs=options)
    trainer, model = SimpleNamespace(precision_plugin=SimpleNamespace(forward_context=nullcontext)), Asked()
    logger._sample(trainer, model)
    assert model.asked == [
        (["a"], 5.0, {"guidance_rescale": 0.7, "guidance_high": 6}),
        (["b"], 5.0, {"guidance_rescale": 0.2, "guidance_high": 6}),
        (["c"], 1.0, {}),
    ]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"guidance_rescale": 0.7}, "CFG08"),
        ({"unconditional_guidance_scale": 5.0, "guidance_rescale": 2.0}, "CFG03"),
        ({"unconditional_guidance_scale": 5.0, "guidance_high": "6"}, "CFG03"),
    ],
)
def test_a_guidance_that_cannot_be_is_refused_at_the_start(options, fault):
    with pytest.raises(Fault) as caught:
        ImageLogger(log_images_kwargs=options)
    assert caught.value.id == fault
