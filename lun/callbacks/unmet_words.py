"""Whether captions hold the words that embeddings were added for: without them nothing is learned of them."""

import logging
from collections.abc import Iterator
from typing import Any

from ldm.adapters.token_embeddings import token_tables
from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.data.dataset_protocol import DatasetAccess
from lun.data.rejects import OF_ONE_EXAMPLE

log = logging.getLogger(__name__)
LOOKED_AT = 1000
"""Captions at most, spread over the set; reading all of a large one would hold up the start."""


class UnmetWords(Callback):
    """Says at the start of training which added words no caption holds."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        tables = token_tables(pl_module.trainable_networks())
        if not tables or not trainer.is_global_zero:
            return
        unmet = {vectors.word for vectors in tables[0].added().values()}
        count = 0
        for caption in captions_of(trainer.datamodule.dataset("train")) if unmet else ():
            unmet -= {word for word in unmet if word.lower() in tables[0].tokens.added.words_in(caption)}
            count += 1
            if not unmet:
                return
        if unmet and count:
            what = f"{', '.join(sorted(unmet))} {'stands' if len(unmet) == 1 else 'stand'} in none of {count} captions"
            why = "an embedding learns from the captions that hold its word"
            fix = f"write it into captions, or: data.params.train.params.captions.prefix='{min(unmet)} '"
            fault = Fault("DAT07", what, why=why, fix=fix)
            log.warning(fault.render("warning"))


def captions_of(dataset: Any) -> Iterator[str]:
    """Captions spread over a dataset, with nothing left to chance; none of one that does not give them."""
    access = DatasetAccess(dataset)
    for index in range(0, len(access), max(1, len(access) // LOOKED_AT)) if access.has("caption") else ():
        try:
            yield dataset.caption(index)
        except Fault as fault:
            if fault.id not in OF_ONE_EXAMPLE:
                raise  # one file that cannot be read is reported and replaced when its turn comes
