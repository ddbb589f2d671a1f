"""Rectified flow from the command line: trained, previewed, and drawn from."""

from pathlib import Path

import pytest
from support.runs import TINY, newest_run
from support.small import contents

from lun.sample.command import run as sample
from lun.trainer import run as train

PROMPTS = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, "
    "prompts: [red noise], log_images_kwargs: {ddim_steps: 3, unconditional_guidance_scale: 2.0, "
    "plot_denoise_rows: true}}}"
)
LAW = "{target: ldm.diffusion.timesteps.Shifted, params: {factor: 2.0, law: {target: ldm.diffusion.timesteps.Mode}}}"
OBJECTIVE = (
    "model.params.objective={target: ldm.diffusion.objective.Objective, params: {"
    "path: {target: ldm.diffusion.rectified_flow.RectifiedFlow, params: {sampling_shift: 2.0}}, "
    "timesteps: {target: ldm.diffusion.timesteps.Stratified, params: {global_batch: 4, law: " + LAW + "}}, "
    "weighting: {target: ldm.diffusion.weighting.MinSNR}}}"
)
NO_SCHEDULE = ["~model.params.linear_start", "~model.params.linear_end"]


def test_a_run_on_rectified_flow_trains_and_draws(
    tmp_path: Path, pictures: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow = ["--base", str(TINY), "--data_root", str(pictures), *NO_SCHEDULE, OBJECTIVE, PROMPTS, "-t"]
    flow += ["model.params.parameterization=flow", "--logdir", str(tmp_path / "logs"), "--max_steps", "2"]
    assert train(flow) == 0
    assert "MinSNR fades out towards pure noise" in caplog.text
    run = newest_run(tmp_path / "logs")
    assert (run / "images/samples/timeline.png").is_file()
    for scheduler in ("ddim", "dpmpp"):
        out = tmp_path / scheduler
        assert sample([str(run), "red", "--steps", "3", "--scheduler", scheduler, "-o", str(out)]) == 0
        assert contents(out) == ["0000-42.png", "sheet.png"]
    assert (tmp_path / "ddim/0000-42.png").read_bytes() != (tmp_path / "dpmpp/0000-42.png").read_bytes()
