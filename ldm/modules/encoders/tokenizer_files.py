"""The files of CLIP's tokenizers, which single files do not hold and pipelines' folders need."""

import json
from dataclasses import replace
from typing import Any

from ldm.convert.model import Model
from ldm.families.text_encoders import Encoder
from ldm.modules.encoders.vocabulary import END, START, vocabulary_files


def with_tokenizers(model: Model) -> Model:
    """`model` with the files of the tokenizers that its text encoders need, those that it brought along first."""
    files: dict[str, bytes] = dict(model.facts.files)
    for encoder in model.encoders:
        if not encoder.spelling.ships_tokenizer:
            continue
        brought = {name for name in files if name.startswith(f"{encoder.tokenizer}/")}
        made = {f"{encoder.tokenizer}/{name}": content for name, content in tokenizer_files(encoder).items()}
        if f"{encoder.tokenizer}/vocab.json" not in brought:
            files |= {name: content for name, content in made.items() if name not in brought}
    return replace(model, facts=replace(model.facts, files=files))


def tokenizer_files(encoder: Encoder) -> dict[str, bytes]:
    """CLIP's tokenizer as every version of transformers reads it; they differ by the token that fills up."""
    marks = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": encoder.pad}
    settings: dict[str, Any] = {
        "add_prefix_space": False,
        "do_lower_case": True,
        "errors": "replace",
        "model_max_length": 77,
        "tokenizer_class": "CLIPTokenizer",
        **marks,
    }
    texts = {
        **vocabulary_files(),
        "tokenizer_config.json": json.dumps(settings, indent=2, sort_keys=True) + "\n",
        "special_tokens_map.json": json.dumps(marks, indent=2, sort_keys=True) + "\n",
    }
    return {name: text.encode() for name, text in texts.items()}
