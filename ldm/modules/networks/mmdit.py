"""diffusers' MMDiT, the network of Stable Diffusion 3 and 3.5, behind the project's calling convention."""

from collections.abc import Mapping, Set
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.mmdit import POSITIONS, mmdit_table
from ldm.keys.table import KeyTable
from ldm.modules.meta_init import is_meta_init
from ldm.modules.networks.library_network import LibraryNetwork
from ldm.modules.networks.patches import PlacedPatches


class MMDiT(LibraryNetwork):
    """`network(x_t, clock, cond)` over `diffusers.SD3Transformer2DModel`, whose arguments `config` takes.

    Text and picture go through one stack of blocks and attend to each other (Esser et al. 2024, arXiv 2403.03206). All
    captions' tokens count, those that fill up as well. The clock is embedded in float32 whatever the precision.

    ckpt_path               a diffusers folder (its config.json counts where `config` is silent), a pipeline's folder,
                            or a file with the published keys, of the network alone or of a whole checkpoint
    gradient_checkpointing  compute activations twice instead of keeping them: less memory, about a third slower
    positions               where in the table of positions a picture lies: `centre`, as in sampling, or in training at
                            a `random` place keyed by its slot, as Stable Diffusion 3.5 Medium was trained
    from_scratch  begin with random weights, where nothing else gives any
    """

    accepts = "diffusers.SD3Transformer2DModel"
    cuts_patches = True

    def __init__(
        self,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        gradient_checkpointing: bool = False,
        positions: Literal["centre", "random"] = "centre",
        **config: Any,
    ) -> None:
        from diffusers import SD3Transformer2DModel

        super().__init__(
            SD3Transformer2DModel, "transformer", _table, from_scratch, ckpt_path, gradient_checkpointing, config
        )
        self.positions = positions
        self.multiple = int(self.network.config.patch_size)

    @property
    def repeated_blocks(self) -> tuple[type[nn.Module], ...]:
        """The classes of its blocks: what is compiled, and never sharded further, as a whole."""
        from diffusers.models.attention import JointTransformerBlock

        return (JointTransformerBlock,)

    def build(self, library: Any, config: Mapping[str, Any], stored: Mapping[str, Any]) -> Any:
        # The table of positions is as large as a network: without memory it is made only when no file brings it.
        with torch.device("meta") if is_meta_init() else nullcontext():
            network = super().build(library, config, stored)
            network.pos_embed = PlacedPatches(network.pos_embed)
        return network

    def forward(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        """The network's prediction: (b, out_channels, h, w).

        x_t (b, c, h, w); t (b,) the time, float32; `cond.context` (b, tokens, dim) and `cond.pooled` (b, dim) of the
        captions; `cond.place` (b, 2), where in the table of positions the picture lies, None for its centre.
        Raises `Fault` CFG08 for sides that cannot be cut into patches or that the table has no positions for.
        """
        if cond.context is None or cond.pooled is None:
            raise Fault(
                "CFG03",
                "the network attends to a context and a vector of the caption, but is not given both",
                where="model.params.cond_stage_config",
                fix="cond_stage_config: {target: ldm.modules.encoders.sd3.SD3Conditioner}",
            )
        patches: PlacedPatches = self.network.pos_embed
        patches.require_sides(*x_t.shape[-2:])
        patches.place = cond.place
        output: Tensor = self.network(x_t, cond.context, cond.pooled, t, return_dict=False)[0]
        return output

    def with_draws(self, cond: Conditioning, draws: BatchDraws) -> Conditioning:
        """`cond` with what the network itself draws for each example of training."""
        return cond._replace(place=draws.uniform("positions", (2,))) if self.positions == "random" else cond

    def idle(self) -> list[nn.Module]:
        """What no loss reaches: nothing is made of the text after the last block, so that nothing asks for it there."""
        last = self.network.transformer_blocks[-1].attn
        return [part for part in (last.add_q_proj, last.norm_added_q) if part is not None]

    def derived(self, names: Set[str], device: torch.device) -> State:
        """The table of positions, if it is asked for: see `ldm.files.load.Derives`."""
        own = f"network.{POSITIONS}"
        patches: PlacedPatches = self.network.pos_embed
        return {own: patches.table(device)} if own in names else {}


def _table(network: State) -> KeyTable:
    return mmdit_table(network, attribute="network")
