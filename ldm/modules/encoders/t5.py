"""T5's encoder, which encodes long captions for Stable Diffusion 3 (Raffel et al. 2020, arXiv 1910.10683)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.hub import hub_folder
from ldm.files.state import State
from ldm.keys.text_encoders import T5_EMBEDDED, T5_SHARED
from ldm.modules.encoders.chunks import LengthReport, require_length
from ldm.modules.offload import computes_on
from ldm.transfers import to_device

if TYPE_CHECKING:
    from transformers import T5TokenizerFast

T5_XXL = {
    "d_model": 4096,
    "d_ff": 10240,
    "d_kv": 64,
    "num_layers": 24,
    "num_heads": 64,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
}
PADDING, END = 0, 1
NO_LIMIT = sys.maxsize
VOCABULARY = "tokenizer.json"
FOLDERS = ("tokenizer_3", "tokenizer", "")
ROUNDED_UP_TO = 128
"""The rows of an embedding are this or a multiple of it, so that it has a few more than there are tokens."""

WHERE = "model.params.cond_stage_config.params.tokenizer_3"
_FETCH = (
    f"fetch {FOLDERS[0]}/{VOCABULARY} of a Stable Diffusion 3 in diffusers' layout, and name the folder that holds it: "
    f"{WHERE}=FOLDER\nor go without T5: model.params.cond_stage_config.params.t5=null"
)


class T5Tokens:
    """Captions to tokens: the end cut off or filled up to `max_length`, the mark of the end within it.

    The vocabulary is read when the first caption comes that has words, so that memory can be reckoned without it.

    name    folder or hub id of a pipeline or of a tokenizer
    rows    of the network's embedding
    """

    def __init__(self, name: str, max_length: int, rows: int) -> None:
        self.name = name
        self.max_length = max_length
        self.rows = rows
        self.report = LengthReport(max_length - 1, NO_LIMIT, setting="t5_length", ends=1)

    def __call__(self, captions: Sequence[str]) -> Tensor:
        """(b, max_length) int64."""
        if not any(captions):
            return torch.tensor([END] + [PADDING] * (self.max_length - 1)).expand(len(captions), -1)
        if not self.report.done:
            ids = self.tokenizer(list(captions), add_special_tokens=False, verbose=False).input_ids
            self.report.see([len(row) for row in ids])
        settings = {"padding": "max_length", "truncation": True, "max_length": self.max_length}
        ids = self.tokenizer(list(captions), **settings).input_ids
        return torch.tensor(ids, dtype=torch.int64).view(-1, self.max_length)

    @cached_property
    def tokenizer(self) -> "T5TokenizerFast":
        return t5_tokenizer(self.name, self.rows)


def t5_tokenizer(name: str, rows: int) -> "T5TokenizerFast":
    """T5's tokenizer in a folder or of a hub id, for a network with so many `rows` of its embedding.

    Raises `Fault` MOD01 where there is none, and MOD04 for another model's.
    """
    from transformers import T5TokenizerFast

    folder = vocabulary_folder(name)
    tokenizer = T5TokenizerFast.from_pretrained(str(folder), local_files_only=True)
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    if ends != (PADDING, END) or not 0 <= rows - len(tokenizer) < ROUNDED_UP_TO:
        raise Fault(
            "MOD04",
            f"the tokenizer {str(folder)!r} is not this T5's",
            where=WHERE,
            why=f"it has {len(tokenizer)} tokens, of which {ends} fill up and end a caption; the network has {rows},"
            f" and {(PADDING, END)}",
            fix=_FETCH,
        )
    return tokenizer


def vocabulary_folder(name: str) -> Path:
    """The folder that holds T5's vocabulary of `name`. Raises `Fault` MOD01 that says which file to fetch."""
    if not Path(name).is_dir():
        try:
            found = hub_folder(name, needed=[f"{FOLDERS[0]}/{VOCABULARY}"], wanted=[f"{FOLDERS[0]}/*.json"])
        except Fault as fault:
            raise Fault("MOD01", f"no vocabulary of T5 in {name}", where=WHERE, why=fault.why, fix=_FETCH) from fault
        return found / FOLDERS[0]
    for folder in FOLDERS:
        if (Path(name) / folder / VOCABULARY).is_file():
            return Path(name) / folder
    why = f"{name} has no {VOCABULARY}, nor has {name}/{FOLDERS[0]}"
    raise Fault("MOD01", f"no vocabulary of T5 in {name}", where=WHERE, why=why, fix=_FETCH)


class T5Text(nn.Module):
    """Captions to the states of T5's last layer, those of what fills up included.

    It computes in float32 or bfloat16, never in float16, which its inner layers overflow: cast to float16 it
    becomes bfloat16, and under autocast to float16 it computes in the precision of its weights.

    tokenizer   folder or hub id of a pipeline, or of the tokenizer alone
    max_length  tokens a caption; longer ones are cut, shorter ones filled up
    config      arguments of `transformers.T5Config` that differ from T5 v1.1 XXL's
    """

    def __init__(self, tokenizer: str, max_length: int, config: Mapping[str, Any]) -> None:
        from transformers import T5Config, T5EncoderModel

        super().__init__()
        require_length(max_length)
        settings = T5Config(**{**T5_XXL, **config, "is_encoder_decoder": False, "use_cache": False})
        self.max_length = max_length
        self.width = int(settings.d_model)
        self.tokens = T5Tokens(tokenizer, max_length, settings.vocab_size)
        self.transformer = T5EncoderModel(settings)
        # The library lets both share a tensor, which ends where one is replaced, as when a file is read.
        self.transformer.encoder.embed_tokens = self.transformer.shared

    def forward(self, captions: Sequence[str]) -> Tensor:
        """(b, max_length, width), in the precision of the weights."""
        device = computes_on(self.transformer)
        in_half = torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) == torch.float16
        with torch.autocast(device.type, enabled=False if in_half else torch.is_autocast_enabled(device.type)):
            states: Tensor = self.transformer(to_device(self.tokens(captions), device)).last_hidden_state
        return states

    def computing_parts(self) -> tuple[nn.Module, ...]:
        """The modules whose forward passes make up this one's; each block alone is small."""
        encoder = self.transformer.encoder
        return (self.transformer.shared, *encoder.block, encoder.final_layer_norm)

    def to_disk(self, state: State) -> State:
        """transformers' names with the table of tokens once, `transformer.shared.weight`."""
        return {key: value for key, value in state.items() if not key.endswith(T5_EMBEDDED)}

    def from_disk(self, state: State) -> State:
        """The table of tokens under both of its names, whichever of them a file has."""
        pair = (f"transformer.{T5_SHARED}", f"transformer.{T5_EMBEDDED}")
        table = next((state[name] for name in pair if name in state), None)
        return state if table is None else {**state, **dict.fromkeys(pair, table)}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "T5Text":
        def outside_float16(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return tensor.to(moved.device, torch.bfloat16) if moved.dtype == torch.float16 else moved

        super()._apply(outside_float16, recurse)
        return self
