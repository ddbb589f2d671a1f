"""The autoencoder's training through the whole program: resumes, modes, precisions, and what is left on disk."""

import json
import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch
from support.equality import differences, final_state
from support.runs import load, newest_run

from ldm.models.autoencoder_metrics import LOGGED, psnr
from ldm.models.pixels import centred
from lun.data.local import Local

AUTOENCODER = Path(__file__).parents[1] / "fixtures" / "tiny-autoencoder.yaml"
STEPS = 8
EQUIVARIANT = (
    "model.params.equivariance={target: ldm.modules.equivariance.Equivariance, params: {share: 0.9, least_scale: 0.75}}"
)
Train = Callable[..., Path]
"""`train(name, *settings) -> run directory` with the tiny autoencoder."""


@pytest.fixture
def train(tmp_path: Path, pictures: Path, lun: Callable[..., int]) -> Train:
    def start(name: str, *settings: str, code: int = 0, data: Path = pictures) -> Path:
        places = ["--logdir", str(tmp_path / "logs"), "--data_root", str(data)]
        assert lun("--base", str(AUTOENCODER), *places, "-t", "-n", name, *settings, base=False) == code
        return newest_run(tmp_path / "logs")

    return start


def metrics(run: Path) -> dict[int, dict[str, float]]:
    """{step: what was logged of training}."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row for row in rows if "aeloss" in row}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_each_window_is_logged_once_under_its_number_and_validation_under_the_last_one_before_it(
    train: Train, pictures: Path, accumulate: int
) -> None:
    """As the diffusion model does."""
    validation = {"target": "lun.data.local.Local", "params": {"data_root": str(pictures), "size": 8, "flip_p": 0.0}}
    run = train(
        "counted",
        f"lightning.trainer.accumulate_grad_batches={accumulate}",
        "lightning.trainer.max_steps=4",
        f"data.params.validation={json.dumps(validation)}",
        "lightning.trainer.val_check_interval=2",
    )
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "aeloss" in row] == [1, 2, 3, 4]
    assert [row["step"] for row in rows if "val/rec_loss" in row] == [2, 4]
    assert [row["step"] for row in rows if "val/rec_loss_ema" in row] == [2, 4]


def weights(run: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load(run / "checkpoints/last.ckpt")["state_dict"]
    return found


def of(state: dict[str, Any], *prefixes: str) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name.startswith(prefixes)}


@pytest.mark.parametrize(
    ("cuts", "settings"),
    [
        ([2, 6], []),
        ([3, 5], ["lightning.trainer.accumulate_grad_batches=2", EQUIVARIANT]),
        ([4], ["lightning.trainer.precision=16-mixed"]),
    ],
    ids=["before and after the discriminator begins", "accumulation and EQ regularisation", "fp16"],
)
def test_a_chain_of_resumes_equals_the_straight_run(
    train: Train, lun: Callable[..., int], tmp_path: Path, pictures: Path, cuts: list[int], settings: list[str]
) -> None:
    validation = {"target": "lun.data.local.Local", "params": {"data_root": str(pictures), "size": 8, "flip_p": 0.0}}
    settings = [*settings, f"data.params.validation={json.dumps(validation)}", "lightning.trainer.val_check_interval=4"]
    straight = final_state(train("straight", *settings))
    assert straight["lun"]["position"]["step"] == straight["global_step"] == STEPS
    assert [len(optimizer["state"]) > 0 for optimizer in straight["optimizer_states"]] == [True, True]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    run = train("chain", *settings, horizon, f"lightning.trainer.max_steps={cuts[0]}")
    for steps in [*cuts[1:], STEPS]:
        assert lun("-r", str(run), "-t", f"lightning.trainer.max_steps={steps}", base=False) == 0
    assert newest_run(tmp_path / "logs") == run
    assert differences(straight, final_state(run)) == []


def test_the_discriminator_takes_part_from_its_step_on(train: Train) -> None:
    """Steps are windows of the generator, whatever the accumulation."""
    run = train("on", "lightning.trainer.accumulate_grad_batches=2", "lightning.trainer.max_steps=6")
    logged = metrics(run)
    assert sorted(logged) == list(range(1, 7))
    assert [logged[step]["train/disc_factor"] for step in range(1, 7)] == [0, 0, 0, 0, 1, 1]
    assert [logged[step]["discloss"] > 0 for step in range(1, 7)] == [False] * 4 + [True] * 2
    assert [logged[step]["train/d_weight"] > 0 for step in range(1, 7)] == [False] * 4 + [True] * 2
    assert int(weights(run)["model_ema.num_updates"]) == 6
    trained, judge = load(run / "checkpoints/last.ckpt")["optimizer_states"]
    assert {int(entry["step"]) for entry in trained["state"].values()} == {6}
    assert {int(entry["step"]) for entry in judge["state"].values()} == {2}


def test_a_rate_that_is_absurd_ends_the_run_before_a_step_is_spoilt(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train("wild", "model.base_learning_rate=1.0e+10", "model.params.lossconfig.params.disc_start=0", code=6)
    told = capsys.readouterr().err
    assert "error[TRN01]: " in told and "stopped before the weights were changed" in told
    assert "pictures: " in told and ".png" in told
    assert json.loads((run / "run.json").read_text())["exit_code"] == 6
    (path,) = run.rglob("*.ckpt")
    kept = load(path)
    assert path.name == "on_exception.ckpt" and kept["lun"]["diverged"] is True
    assert all(bool(tensor.isfinite().all()) for tensor in kept["state_dict"].values())


def test_without_its_factor_the_discriminator_never_moves(train: Train) -> None:
    loss = "model.params.lossconfig.params."
    apart = [weights(train("off", f"{loss}disc_factor=0", f"lightning.trainer.max_steps={n}")) for n in (1, 6)]
    judged = [of(state, "loss.discriminator") for state in apart]
    assert judged[0] and differences(*judged) == []


def test_the_logged_loss_is_compvis_sum_of_its_terms(train: Train) -> None:
    row = metrics(train("terms"))[7]
    by_hand = row["train/nll_loss"] + 1e-6 * row["train/kl_loss"] + row["train/d_weight"] * row["train/g_loss"]
    assert row["train/total_loss"] == pytest.approx(by_hand, rel=1e-4)
    numbers = 3 * 8 * 8
    nll = numbers * (row["train/rec_loss"] / math.exp(row["train/logvar"]) + row["train/logvar"])
    assert row["train/nll_loss"] == pytest.approx(nll, rel=1e-4)


@pytest.mark.parametrize("learn", [True, False])
def test_the_log_variance_moves_exactly_when_asked(train: Train, learn: bool) -> None:
    state = weights(train("logvar", f"model.params.lossconfig.params.learn_logvar={str(learn).lower()}"))
    assert (state["loss.logvar"].item() != 0.0) is learn


def test_training_the_decoder_alone_leaves_latents_as_they_are(train: Train, tmp_path: Path) -> None:
    start = train("start", "lightning.trainer.max_steps=1") / "checkpoints/last.ckpt"
    run = train("decoder", "--init-from", str(start), "model.params.train=decoder")
    before, after = weights(start.parents[1]), weights(run)
    assert differences(of(before, "encoder.", "quant_conv."), of(after, "encoder.", "quant_conv.")) == []
    moved = differences(of(before, "decoder.", "post_quant_conv."), of(after, "decoder.", "post_quant_conv."))
    assert len(moved) == len(of(after, "decoder.", "post_quant_conv."))
    assert not [name for name in after if name.startswith(("model_ema.encoder", "model_ema.quant"))]


def test_a_frozen_encoder_is_freed_at_its_step(train: Train) -> None:
    settings = ["model.params.encoder_frozen_steps=4", "model.params.scheduler_config=null"]
    states = [weights(train("frozen", *settings, f"lightning.trainer.max_steps={n}")) for n in (1, 4, 5)]
    encoders = [of(state, "encoder.", "quant_conv.") for state in states]
    assert differences(encoders[0], encoders[1]) == []
    assert len(differences(encoders[1], encoders[2])) == len(encoders[2])


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true"])
def test_half_precision_follows_full_precision(train: Train, precision: str) -> None:
    """Side by side, discriminator included; nothing is lost on the way."""
    curves = [metrics(train(name, f"lightning.trainer.precision={name}")) for name in ("32-true", precision)]
    for step in range(1, STEPS + 1):
        exact, half = (curve[step] for curve in curves)
        assert half["train/rec_loss"] == pytest.approx(exact["train/rec_loss"], rel=0.02)
        assert half["train/kl_loss"] == pytest.approx(exact["train/kl_loss"], rel=0.05)
        assert half.get("train/d_weight_lost", 0.0) == 0.0


def test_fp16_on_a_cpu_is_fp16_with_a_loss_scale(train: Train) -> None:
    newest = train("scaled", "lightning.trainer.precision=16-mixed")
    checkpoint = load(newest / "checkpoints/last.ckpt")
    assert checkpoint["Mixed"]["scale"] == 65536.0  # none of the steps was skipped
    told = metrics(newest)[STEPS]
    assert (told["train/loss_scale"], told["train/skipped_steps"]) == (65536.0, 0.0)
    assert checkpoint["Mixed"]["_growth_tracker"] == STEPS + 4


def test_clipping_bounds_the_true_gradients(train: Train) -> None:
    """Plain SGD with a rate of 1 moves weights by the clipped gradient, in fp16 as well."""
    sgd = json.dumps({"target": "torch.optim.SGD", "params": {}})
    settings = [f"model.params.optimizer_config={sgd}", "model.params.scheduler_config=null"]
    settings += ["model.base_learning_rate=1.0", "lightning.trainer.gradient_clip_val=0.01"]
    settings += ["lightning.trainer.precision=16-mixed"]
    first, second = (weights(train("clip", *settings, f"lightning.trainer.max_steps={n}")) for n in (1, 2))
    names = of(first, "encoder.", "decoder.", "quant_conv.", "post_quant_conv.", "loss.logvar")
    moved = torch.stack([(second[name] - first[name]).square().sum() for name in names]).sum().sqrt()
    assert moved.item() == pytest.approx(0.01, rel=1e-3)


def test_validation_pictures_and_a_metric_of_ones_own_know_both_weights(train: Train, pictures: Path) -> None:
    validation = {"target": "lun.data.local.Local", "params": {"data_root": str(pictures), "size": 8, "flip_p": 0.0}}
    logger = {"target": "lun.callbacks.ImageLogger", "params": {"batch_frequency": 4, "max_images": 2}}
    saver = {"target": "lun.callbacks.Checkpoint", "params": {"filename": "best", "monitor": "val/rec_loss_ema"}}
    run = train(
        "seen",
        f"data.params.validation={json.dumps(validation)}",
        "lightning.trainer.val_check_interval=8",
        "lightning.trainer.num_sanity_val_steps=1",
        f"lightning.callbacks.image_logger={json.dumps(logger)}",
        f"lightning.callbacks.monitored_checkpoint={json.dumps(saver)}",
        *("--allow", "support", "model.params.metrics.own={target: support.metrics.OwnPSNR}"),
    )
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (found,) = [row for row in rows if "val/rec_loss" in row]
    names = ["rec_loss", "nll_loss", "kl_loss", "total_loss", "logvar", "d_weight", "disc_factor", "disc_loss"]
    names += ["g_loss", "logits_real", "logits_fake", "psnr", "ssim", "scale_factor", "latent_drift"]
    names += [f"latent_{kind}_{channel}" for kind in ("mean", "std") for channel in range(4)]
    same = ("logvar", "disc_factor", "d_weight", "logits_real")
    for name in names:
        assert found[f"val/{name}"] != found[f"val/{name}_ema"] or name in same
    assert [found[f"val/own{weights}"] for weights in ("", "_ema")] == [found["val/psnr"], found["val/psnr_ema"]]
    assert [math.isfinite(row["train/own"]) for row in rows if "aeloss" in row] == [True] * STEPS
    named = [name.partition("/") for row in rows for name in row]
    logged = {name.removesuffix("_ema") for split, _, name in named if split in ("train", "val")} - {"own"}
    assert [name for name in logged if not any(fnmatchcase(name, pattern) for pattern in LOGGED)] == []
    assert found["val/latent_drift"] > found["val/latent_drift_ema"] > 0
    assert (run / "checkpoints/best.ckpt").is_file()
    drawn = {path.name.partition("_r-0")[0] for path in (run / "images").rglob("*gs-000008*.png")}
    assert drawn >= {"inputs", "reconstructions", "difference", "samples", "reconstructions_ema"}


def test_its_weights_are_a_first_stage_to_others(train: Train, lun: Callable[..., int]) -> None:
    run = train("export")
    state = weights(run)
    from ldm.models.autoencoder import AutoencoderKL

    ddconfig = load_config(run)["model"]["params"]["ddconfig"]
    part = AutoencoderKL(ddconfig, embed_dim=4, ckpt_path=str(run / "checkpoints/last.ckpt"))
    own = part.to_disk(part.state_dict())
    assert differences(own, of(state, "encoder.", "decoder.", "quant_conv.", "post_quant_conv.")) == []
    assert (
        lun(
            "-t",
            f"model.params.first_stage_config.params.ckpt_path={run}/checkpoints/last.ckpt",
            "lightning.trainer.max_steps=1",
        )
        == 0
    )


def test_its_averaged_weights_go_out_alone_in_either_layout_and_back_into_a_whole_checkpoint(
    train: Train, lun: Callable[..., int], tmp_path: Path
) -> None:
    from diffusers import AutoencoderKL as Theirs
    from safetensors.torch import load_file

    from lun.convert.command import run as convert

    autoencoder = train("vae", "lightning.trainer.max_steps=4")
    averaged = {name: tensor for name, tensor in weights(autoencoder).items() if name.startswith("model_ema.")}
    assert lun("-t", "-n", "whole", "lightning.trainer.max_steps=1") == 0
    whole = newest_run(tmp_path / "logs")
    alone, folder, joined = tmp_path / "vae.safetensors", tmp_path / "vae", tmp_path / "whole.safetensors"
    assert convert([str(autoencoder), str(alone), "--to", "ldm", "--vae", "only"]) == 0
    assert convert([str(autoencoder), str(folder), "--to", "diffusers", "--vae", "only"]) == 0
    assert convert([str(whole), str(joined), "--to", "ldm", "--vae", str(autoencoder)]) == 0

    found, inside = load_file(alone), load_file(joined)
    assert all(torch.equal(tensor, found[find(found, name)]) for name, tensor in averaged.items() if tensor.dim())
    assert all(torch.equal(tensor, inside[f"first_stage_model.{name}"]) for name, tensor in found.items())
    theirs = Theirs.from_pretrained(folder / "vae" if (folder / "vae").is_dir() else folder)
    assert torch.equal(theirs.decoder.conv_out.weight, found["decoder.conv_out.weight"])
    assert theirs.decode(torch.zeros(1, 4, 4, 4)).sample.shape == (1, 3, 8, 8)


def find(names: Any, averaged: str) -> str:
    """The name whose dots an average's has lost."""
    (name,) = [name for name in names if name.replace(".", "") == averaged.removeprefix("model_ema.")]
    return str(name)


def load_config(run: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((run / "configs/resolved.yaml").read_text())
    return found


@pytest.mark.parametrize(
    ("setting", "code", "says"),
    [
        ("model.params.from_scratch=false", 4, "MOD06"),
        ("model.params.lossconfig.params.perceptual_weight=1.0", 4, "perceptual_features=random"),
        ("lightning.trainer.strategy=deepspeed_stage_2", 2, "DeepSpeed's engine steps only one"),
        ("model.params.lossconfig=null", 2, "no loss to be trained by"),
        ("model.params.lossconfig.params.use_actnorm=true", 2, "use_actnorm"),
        ("model.params.ckpt_path=nowhere.ckpt", 4, "MOD01"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_written(
    train: Train, tmp_path: Path, capfd: pytest.CaptureFixture[str], setting: str, code: int, says: str
) -> None:
    train("refused", setting, code=code)
    assert says in "".join(capfd.readouterr())
    assert not (tmp_path / "logs").exists()


def mean_colours(root: Path, side: int) -> float:
    """PSNR in dB of pictures painted over with their mean colour, each with its own: what blobs of colour reach."""
    pictures = Local(str(root), size=side)
    real = centred(torch.stack([pictures.picture(index, False)["image"] for index in range(len(pictures))]))
    plain = real.mean(dim=(1, 2), keepdim=True).expand_as(real)
    return float(psnr(real.movedim(-1, 1), plain.movedim(-1, 1)).mean())


def test_from_noise_it_learns_to_draw_pictures_that_it_never_saw(train: Train, repo_root: Path) -> None:
    """200 steps, discriminator included from step 170 on: 4.2 dB above mean colours, of which each picture has its own.

    With its encoder left at random, or shown one picture and judged by another, it stays below them. One colour for
    all pictures, the best that a network can do which does not look at them, is 3.5 dB worse yet.
    """
    data = repo_root / "configs/demo/data"
    validation = {
        "target": "lun.data.local.Local",
        "params": {"data_root": str(data / "held-out"), "size": 16, "flip_p": 0.0},
    }
    run = train(
        "learns",
        "data.params.train.params.size=16",
        "data.params.batch_size=8",
        f"data.params.validation={json.dumps(validation)}",
        "model.base_learning_rate=5.0e-3",
        "model.params.lossconfig.params.disc_start=170",
        "lightning.trainer.max_steps=200",
        "lightning.trainer.val_check_interval=100",
        "lightning.trainer.log_every_n_steps=50",
        data=data / "train",
    )
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("val/psnr", "val/psnr_ema"):
        _, reached = [row[name] for row in rows if name in row]
        assert reached > mean_colours(data / "held-out", 16) + 3.5
