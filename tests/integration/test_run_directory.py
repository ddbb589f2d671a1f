"""What a person finds after a run, and how it goes on from there."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.run_folder import Page
from support.runs import load, make_pictures, newest_run

Lun = Callable[..., int]
VALIDATION = "data.params.validation={target: lun.data.local.Local, params: {data_root: '???', size: 8, flip_p: 0.0}}"


def test_without_t_nothing_is_written_and_the_plan_is_shown(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun() == 0
    shown = capsys.readouterr().out
    assert "11 images, no validation" in shown
    assert "12 steps = 2.2 epochs; batch 2 x accumulate 1 x devices 1 = 2 images a step" in shown
    assert "UNet 0.06 M trained · first stage 0.22 M frozen · text encoder 0.01 M trained" in shown
    assert "note[CLI01]: this was only the plan" in shown and " -t\n" in shown
    assert not (tmp_path / "logs").exists()


def test_a_run_leaves_everything_in_one_place(lun: Lun, tmp_path: Path) -> None:
    callbacks = ["lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 4}}"]
    loggers = ["lightning.logger.tensorboard={target: lightning.pytorch.loggers.TensorBoardLogger}"]
    steps = ["lightning.trainer.max_steps=4", "lightning.trainer.val_check_interval=2"]
    sampling = ["lightning.callbacks.image_logger.params.prompts=[red noise 0]"]
    sampling += ["lightning.callbacks.image_logger.params.log_images_kwargs={ddim_steps: 2}"]
    assert lun("-t", "-n", "first", "-s", "0", VALIDATION, *callbacks, *loggers, *steps, *sampling) == 0

    run = newest_run(tmp_path / "logs")
    assert run.name.startswith("pictures") and run.name.endswith("_first")
    record = json.loads((run / "run.json").read_text())
    assert (record["status"], record["exit_code"], record["steps"], record["seed"]) == ("done", 0, 4, 0)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validated = [row["step"] for row in rows if "val/loss_simple_ema" in row]
    assert validated == [2, 4]
    assert {row["step"] for row in rows if "train/loss" in row} == {1, 2, 3, 4}
    trained = json.loads((run / "trains.json").read_text())
    assert [(part["name"], part["trained"] > 0) for part in trained["networks"]] == [
        ("UNet", True),
        ("first stage", False),
        ("text encoder", True),
    ]
    assert all(group["learning_rate"] > 0 and group["names"] for group in trained["groups"])
    assert sum(group["numbers"] for group in trained["groups"]) == sum(one["trained"] for one in trained["networks"])
    assert "saved checkpoints/last.ckpt at step 4" in (run / "console.log").read_text()
    assert sorted(p.name.split("-")[-1] for p in (run / "configs").iterdir()) == [
        "lightning.yaml",
        "project.yaml",
        "resolved.yaml",
    ]
    samples = sorted(path.name for path in (run / "images/samples").glob("*.png"))
    assert [name for name in samples if "gs-000000" in name and "ema" not in name]
    assert [name for name in samples if "gs-000004" in name and "ema" in name]
    assert "timeline.png" in samples
    page = Page((run / "report.html").read_text("utf-8"))
    assert page.unbalanced == [] and "done exit code 0" in page.text and "4 steps of 4 (100 %)" in page.text
    assert page.data["samples"]["steps"] == [0, 4] and page.data["samples"]["weights"] == ["raw", "ema"]
    assert (run / "images/train").is_dir() and (run / "images/val").is_dir()
    assert list(run.rglob("events.out.tfevents*"))


def test_validation_is_the_same_between_runs_for_the_same_weights(lun: Lun, tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        steps = ["lightning.trainer.max_steps=2", "lightning.trainer.val_check_interval=1"]
        assert lun("-t", "-n", name, VALIDATION, *steps, f"data.params.num_workers={int(name == 'b')}") == 0
        lines = (newest_run(tmp_path / "logs") / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        found.append([row["val/loss_simple"] for row in rows if "val/loss_simple" in row])
    assert len(found[0]) == 2 and found[0] == found[1]


def test_validating_sampling_logging_and_workers_change_no_weight(lun: Lun, tmp_path: Path) -> None:
    images = "{target: lun.callbacks.ImageLogger, params: {batch_frequency: 1, log_images_kwargs: {ddim_steps: 1}}}"
    quiet = ["lightning.trainer.log_every_n_steps=1000"]
    busy = [VALIDATION, "lightning.trainer.val_check_interval=1", f"lightning.callbacks.image_logger={images}"]
    busy += ["data.params.num_workers=1"]
    states = []
    for name, settings in (("quiet", quiet), ("busy", busy)):
        assert lun("-t", "-n", name, "lightning.trainer.max_steps=3", *settings) == 0
        states.append(load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")["state_dict"])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_run_whose_config_names_no_hub_id_asks_no_other_machine(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: asked.append(address) or [])
    assert lun("-t", "lightning.trainer.max_steps=1", VALIDATION) == 0
    assert lun("-r", str(newest_run(tmp_path / "logs")), "-t", "lightning.trainer.max_steps=2", base=False) == 0
    assert asked == []


def test_a_named_file_is_resumed_in_the_same_directory(lun: Lun, tmp_path: Path) -> None:
    saver = "{target: lun.callbacks.Checkpoint, params: {filename: every-2k-steps, every_n_train_steps: 2}}"
    saving = f"lightning.callbacks.periodic_checkpoint_overwrite={saver}"
    assert lun("-t", "lightning.trainer.max_steps=3", saving) == 0
    run = newest_run(tmp_path / "logs")
    file = run / "checkpoints/every-2k-steps.ckpt"
    assert load(file)["lun"]["position"]["step"] == 2
    assert lun("-r", str(file), "-t", "lightning.trainer.max_steps=5", base=False) == 0
    assert newest_run(tmp_path / "logs") == run
    last = load(run / "checkpoints/last.ckpt")["lun"]
    assert (last["position"]["step"], last["attempt"]) == (5, 2)
    assert last["resumed_from"] == "checkpoints/every-2k-steps.ckpt"


def test_weights_alone_start_a_new_run_at_step_zero(lun: Lun, tmp_path: Path) -> None:
    assert lun("-t", "-n", "old", "lightning.trainer.max_steps=2") == 0
    old = newest_run(tmp_path / "logs") / "checkpoints/last.ckpt"
    rate = "model.base_learning_rate=0.0"
    new = ["-t", "-n", "new", "--actual_resume", str(old), "lightning.trainer.max_steps=1", rate]
    assert lun(*new, "-s", "5") == 0
    run = newest_run(tmp_path / "logs")
    assert run != old.parents[1]
    before, after = load(old), load(run / "checkpoints/last.ckpt")
    assert after["lun"]["position"]["step"] == 1
    unet = [name for name in before["state_dict"] if name.startswith("model.diffusion_model.")]
    assert unet and all(torch.equal(before["state_dict"][name], after["state_dict"][name]) for name in unet)


def test_other_data_is_refused_at_resume_unless_accepted(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("-t", "lightning.trainer.max_steps=3") == 0
    run = str(newest_run(tmp_path / "logs"))
    other = str(make_pictures(tmp_path / "other", 7, seed=1))
    again = ["-r", run, "-t", "lightning.trainer.max_steps=5", "--data_root", other]
    assert lun(*again, base=False) == 2
    message = capsys.readouterr().err
    assert message.startswith("error[RES03]:") and "images: 11 -> 7" in message and "--accept-change data" in message
    assert lun(*again, "--accept-change", "data", base=False) == 0
    position = load(Path(run) / "checkpoints/last.ckpt")["lun"]["position"]
    assert position == {"step": 5, "slot": 7 + 2 * 2, "images": 10}


def test_a_resume_with_nothing_to_do_says_so(lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lun("-t", "lightning.trainer.max_steps=1") == 0
    assert lun("-r", str(newest_run(tmp_path / "logs")), "-t", base=False) == 0
    assert "note: the run has all its 1 steps; to go on: --max_steps 1001" in capsys.readouterr().out
