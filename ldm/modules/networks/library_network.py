"""What networks that diffusers defines have in common here: where they start from, and their tensors' names on disk."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from torch import nn

from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import architecture, find_source, require_one_start
from ldm.keys.split_checkpoint import UNET, part_of
from ldm.keys.table import KeyTable
from ldm.modules.meta_init import is_meta_init, meta_init


class LibraryNetwork(nn.Module):
    """A denoising network of the class `library`, as the child `network`, under the names of `table` on disk.

    library    class of diffusers, whose arguments `config` takes: `Fault` CFG03 for any other
    folder     of the network in a pipeline's folder
    table_of   (tensors of the network) -> the names that they have on disk
    ckpt_path  see the networks; a folder's config.json counts where `config` is silent
    """

    library_modules = ("network",)
    network: Any  # the library's class is opaque to type checkers

    def __init__(
        self,
        library: Any,
        folder: str,
        table_of: Callable[[State], KeyTable],
        from_scratch: bool,
        ckpt_path: str | None,
        gradient_checkpointing: bool,
        config: Mapping[str, Any],
    ) -> None:
        super().__init__()
        _refuse_unknown(library, config)
        require_one_start(from_scratch, ckpt_path)
        source = find_source(ckpt_path, folder) if ckpt_path and not is_meta_init() else None
        stored = source.config if source else architecture(ckpt_path, folder) if ckpt_path else {}
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        with meta_init() if source else nullcontext():
            self.network = self.build(library, config, stored)
        self.table = table_of(self.network.state_dict())
        if source:
            load_part(self, part_of(source.read(), UNET), source=str(ckpt_path))
            self.loaded_from = ckpt_path
        if gradient_checkpointing:
            self.network.enable_gradient_checkpointing()

    def build(self, library: Any, config: Mapping[str, Any], stored: Mapping[str, Any]) -> Any:
        """The library's network for `config`, over the settings of a folder."""
        return library.from_config({**stored, **config}) if stored else library(**config)

    def to_disk(self, state: State) -> State:
        """This module's keys to the published ones, without `model.diffusion_model.`."""
        return self.table.to_disk(state)

    def from_disk(self, state: State) -> State:
        """The published keys, diffusers' or this module's own to this module's own."""
        return self.table.from_disk(state)


def _refuse_unknown(library: type, config: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG03 for a setting that the library's network does not take."""
    known = inspect.signature(library).parameters
    if unknown := [name for name in config if name not in known]:
        raise Fault(
            "CFG03",
            f"unknown setting {unknown[0]}",
            where="model.params.unet_config.params",
            why=f"diffusers.{library.__name__} takes: {', '.join(known)}",
        )
