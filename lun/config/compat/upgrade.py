"""All translations of old spellings, one after the other."""

from ldm.errors import Fault
from lun.config.compat.callbacks import callbacks
from lun.config.compat.differences import differences
from lun.config.compat.idle import idle
from lun.config.compat.import_paths import targets
from lun.config.compat.lightning1_trainer import trainer
from lun.config.compat.loggers import loggers
from lun.config.compat.model_params import model
from lun.config.compat.rewriting import Upgrade
from lun.config.compat.sdxl_unconditional import conditioning
from lun.config.reading.load_layers import Merged

_STEPS = (differences, callbacks, loggers, idle, targets, trainer, model, conditioning)


def upgrade(merged: Merged) -> tuple[Merged, list[str], list[Fault]]:
    """The configuration in today's spelling, the notes to say once, and faults for what has no successor here."""
    config = merged.config
    notes: list[str] = []
    faults: list[Fault] = []
    for step in _STEPS:
        result: Upgrade = step(config)
        config = result.config
        notes += result.notes
        faults += [
            Fault(
                "CFG03",
                refusal.what,
                where=f"{'.'.join(refusal.path)}  ({merged.where(refusal.path)})",
                why=refusal.why,
                fix=refusal.fix,
            )
            for refusal in result.refusals
        ]
    return merged.replaced(config), notes, faults
