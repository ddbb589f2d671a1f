"""Files of embeddings as diffusers reads them: its pipelines load ours and its encoders give what ours do."""

from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from torch import nn

from ldm.adapters import Adapters
from ldm.adapters.embedding_files import to_file, write_a1111
from ldm.adapters.token_embeddings import token_tables
from ldm.files.read import read_content
from ldm.files.write import write_safetensors
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.encoders.tokenizer import clip_tokenizer

SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
WIDE = {**SMALL, "hidden_size": 12, "num_attention_heads": 3, "projection_dim": 12}
WORD = "<kitty>"
CAPTION = f"a photo of {WORD}, on grass"


def with_word(encoder: nn.Module) -> dict[str, torch.Tensor]:
    """Let an encoder know the word; its vectors by encoder."""
    networks = {"text_encoder": encoder}
    Adapters(embeddings={"kitty": {"token": WORD, "init": "red fox", "vectors": 3, "keep_norm": "median"}})(networks, 1)
    vectors = {table.encoder: table.added()["kitty"] for table in token_tables(networks)}
    for added in vectors.values():
        added.vectors.data += 0.3 * torch.randn(added.vectors.shape, generator=torch.Generator().manual_seed(4))
    return {name: added().detach() for name, added in vectors.items()}


def told(pipeline: Any, tokenizer: Any, encoder: Any) -> torch.Tensor:
    """The states that diffusers' own preparation of a caption leads to."""
    text = pipeline.maybe_convert_prompt(CAPTION, tokenizer)
    ids = tokenizer(text, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
    states: torch.Tensor = encoder(ids, output_hidden_states=True).hidden_states[-2]
    return states


@pytest.mark.parametrize("form", ["emb_params", "word", "pt"])
def test_diffusers_reads_a_word_of_stable_diffusion_1_as_we_do(form: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    embedder = FrozenCLIPEmbedder(config=SMALL, from_scratch=True, layer="hidden")
    plain = FrozenCLIPEmbedder(config=SMALL, from_scratch=True)
    plain.load_state_dict(embedder.state_dict())
    vectors = with_word(embedder)
    file = tmp_path / ("kitty.pt" if form == "pt" else "kitty.safetensors")
    if form == "pt":
        write_a1111(file, vectors["text_encoder"], WORD, 3)
    else:
        write_safetensors(file, to_file(vectors, WORD) if form == "word" else to_file(vectors))
    pipeline = diffusers.StableDiffusionPipeline(
        **{"vae": None, "unet": None, "scheduler": None, "safety_checker": None, "feature_extractor": None},
        **{"text_encoder": plain.transformer, "tokenizer": clip_tokenizer("built-in", 77)},
        requires_safety_checker=False,
    )
    pipeline.load_textual_inversion(str(file), **({"token": WORD} if form == "emb_params" else {}))
    theirs = told(pipeline, pipeline.tokenizer, pipeline.text_encoder)
    torch.testing.assert_close(embedder([CAPTION]).context, theirs, rtol=1e-5, atol=1e-6)


def test_diffusers_reads_both_encoders_of_xl_one_after_the_other(tmp_path: Path) -> None:
    torch.manual_seed(1)
    ours, plain = (SDXLConditioner(clip=SMALL, open_clip=WIDE, from_scratch=True) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    vectors = with_word(ours)
    write_safetensors(tmp_path / "kitty.safetensors", to_file(vectors))
    state = read_content(tmp_path / "kitty.safetensors").state
    first, second = (embedder.transformer for embedder in plain.embedders)
    tokenizers = [clip_tokenizer("built-in", 77) for _ in range(2)]
    pipeline: Any = diffusers.StableDiffusionXLPipeline(
        **{"vae": None, "unet": None, "scheduler": None, "text_encoder": first, "text_encoder_2": second},
        **{"tokenizer": tokenizers[0], "tokenizer_2": tokenizers[1]},
    )
    states = []
    for key, tokenizer, encoder in zip(("clip_l", "clip_g"), tokenizers, (first, second), strict=True):
        pipeline.load_textual_inversion(state[key], token=WORD, text_encoder=encoder, tokenizer=tokenizer)
        tokenizer.pad_token = "!" if key == "clip_g" else tokenizer.pad_token
        states.append(told(pipeline, tokenizer, encoder))
    torch.testing.assert_close(ours([CAPTION]).context, torch.cat(states, dim=-1), rtol=1e-5, atol=1e-6)
