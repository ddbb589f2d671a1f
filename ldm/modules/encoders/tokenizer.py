"""CLIP's tokenizer, checked, because without its vocabulary the library makes one of two tokens and says nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.files.hub import hub_folder
from ldm.modules.encoders import vocabulary

if TYPE_CHECKING:
    from transformers import CLIPTokenizer

BUILT_IN = "built-in"

VOCABULARY = ("vocab.json", "tokenizer.json")
BESIDE = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json")
SIZE, START, END = 49408, 49406, 49407
PROBE = "a photo of a cat"
PROBE_TOKENS = [START, 320, 1125, 539, 320, 2368, END]


def clip_tokenizer(name: str, max_length: int) -> "CLIPTokenizer":
    """CLIP's tokenizer: `built-in`, in a folder (or its tokenizer/), or of a hub id.

    Raises `Fault` MOD04 if there is none or if it is not CLIP's.
    """
    from transformers import CLIPTokenizer

    if name == BUILT_IN:
        vocab, merges = dict(vocabulary.clip_vocabulary()), list(vocabulary.clip_merges())
        return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=max_length)
    try:
        folder = vocabulary_folder(name)
    except Fault as fault:
        raise _incomplete(name, f"cannot load the tokenizer of {name!r}", why=fault.why) from fault
    tokenizer = CLIPTokenizer.from_pretrained(str(folder), model_max_length=max_length, local_files_only=True)
    size, ends = len(tokenizer), (tokenizer.bos_token_id, tokenizer.eos_token_id)
    if size != SIZE:
        why = "files are missing or of another model; transformers then makes an empty tokenizer without an error"
        raise _incomplete(name, f"the tokenizer {str(folder)!r} loaded with {size} tokens instead of {SIZE}", why=why)
    if ends != (START, END) or tokenizer(PROBE).input_ids != PROBE_TOKENS:
        why = f"{PROBE!r} gives {tokenizer(PROBE).input_ids} instead of {PROBE_TOKENS}"
        raise _incomplete(name, f"the tokenizer {str(folder)!r} is not CLIP's", why=why)
    return tokenizer


def fitted(ids: Sequence[Sequence[int]], length: int, padding: int) -> Tensor:
    """Tokens of captions between the marks of start and end: (b, length) int64.

    Longer captions are cut, shorter ones filled with the token `padding`.
    """
    rows = [[START, *row[: length - 2], END] for row in ids]
    return torch.tensor([row + [padding] * (length - len(row)) for row in rows]).view(-1, length)


def plain(captions: Sequence[str]) -> list[str]:
    """Captions without the marks of start and end, which the library would read as what they mark."""
    return [caption.replace(vocabulary.START, " ").replace(vocabulary.END, " ") for caption in captions]


def vocabulary_folder(name: str) -> Path:
    """The folder that holds the vocabulary of `name`; `Fault` MOD01 if there is none."""
    if not Path(name).is_dir():
        return hub_folder(name, needed=VOCABULARY, wanted=BESIDE)
    for folder in (Path(name) / "tokenizer", Path(name)):
        if any((folder / file).is_file() for file in VOCABULARY):
            return folder
    why = f"{name} has no {' or '.join(VOCABULARY)}, nor has {name}/tokenizer"
    raise Fault("MOD01", f"no vocabulary in {name}", why=why)


def _incomplete(name: str, what: str, why: str) -> Fault:
    return Fault(
        "MOD04",
        what,
        where="model.params.cond_stage_config.params.tokenizer",
        why=why,
        fix=f"use the vocabulary that ships with this program: tokenizer={BUILT_IN} (the default for CLIP)\n"
        "or that of a diffusers folder: tokenizer=models/sd15 (its tokenizer/ is found)",
    )
