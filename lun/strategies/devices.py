"""What Lightning makes of settings, asked without writing or starting anything: devices, nodes, their spelling."""

from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from ldm.errors import Fault

SLURM = "#SBATCH --ntasks-per-node=1 in the place of --ntasks; in a shell within a job: unset SLURM_NTASKS"
FIX = "one device: --devices 1      the first GPU: --devices 0,      no GPU: --accelerator cpu"


def asked(**settings: Any) -> Trainer:
    """A Trainer to ask. Raises `Fault` DEV03 for devices that Lightning refuses, CFG08 for other settings."""
    try:
        return Trainer(**settings, logger=False, enable_progress_bar=False)
    except (MisconfigurationException, ValueError, TypeError, RuntimeError, ImportError) as error:
        text = str(error).split("\n")[0]
        what = f"lightning.Trainer refuses its settings: {text}"
        if "--ntasks" in text:
            raise Fault("DEV03", what, where="SLURM_NTASKS in the environment", fix=SLURM) from error
        if isinstance(error, ImportError) or "devices" in text or "accelerator" in text:
            raise Fault("DEV03", what, where="lightning.trainer.accelerator, devices", fix=FIX) from error
        raise Fault("CFG08", what, where="lightning.trainer") from error
