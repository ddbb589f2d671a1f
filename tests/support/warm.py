"""Importing this runs the program once, so that a fork of this process has nothing left to import."""

import contextlib
import io
import os
import tempfile
from pathlib import Path

import torch
from support.runs import TINY, make_pictures
from support.unflushed import leave_unflushed

from lun.trainer import run

VALIDATION = "data.params.validation={target: lun.data.local.Local, params: {data_root: '???', size: 8, flip_p: 0.0}}"
IMAGES = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params:"
    " {batch_frequency: 1, prompts: [red], log_images_kwargs: {ddim_steps: 1}}}"
)

os.environ["LUN_THREADS"] = "1"  # threads do not survive a fork, and what waits for them hangs
torch.set_num_threads(1)
leave_unflushed()
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    words = ["--base", str(TINY), "--data_root", str(make_pictures(Path(folder, "data"), 2)), "--logdir", folder]
    run([*words, VALIDATION, IMAGES, "lightning.trainer.max_steps=1", "-t"])
