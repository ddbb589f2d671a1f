"""Models that make text of pictures, each of them tiny and random, in the files that publishers have."""

import json
from pathlib import Path
from typing import Any

import transformers
from support.tiny_annotators import _ENDS, _NARROW, _SQUARE, _TEXT, _VISION, SIDE, WORDS, _tokenizer
from tokenizers.processors import TemplateProcessing

IMAGE = len(WORDS)
QWEN = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
TURN = """{% for m in messages %}{% for c in m['content'] %}{{ '<|vision_start|> <|image_pad|> <|vision_end|> ' if
c['type'] == 'image' else c['text'] }}{% endfor %}{% endfor %}{% if add_generation_prompt %} on{% endif %}"""
_SMALL = {"num_hidden_layers": 1, "vocab_size": IMAGE + 1, "max_position_embeddings": 64, **_ENDS, "init_std": 1.0}


def _talkative(model: Any, folder: Path, tokens: int) -> None:
    """Saves `model`, which says words alone and goes on for as long as it may."""
    model.generation_config.suppress_tokens = [0, 1, 2, 3, *range(IMAGE, tokens)]
    model.save_pretrained(folder)


def _pictures(folder: Path, kind: str, **more: Any) -> Any:
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": kind, **more}))
    return transformers.AutoImageProcessor.from_pretrained(folder)


def _template(tokenizer: Any, text: str) -> Any:
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=text, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def git(folder: Path) -> None:
    config = transformers.GitConfig(vision_config=_VISION, **{**_TEXT, **_ENDS}, initializer_range=1.0)
    _talkative(transformers.GitForCausalLM(config), folder, IMAGE)
    pictures = _pictures(folder, "CLIPImageProcessor", size={"shortest_edge": SIDE}, crop_size=_SQUARE)
    transformers.GitProcessor(pictures, _template(_tokenizer(), "[CLS] $A [SEP]")).save_pretrained(folder)


def blip2(folder: Path) -> None:
    wide = {"hidden_size": 16, "ffn_dim": 16, "num_attention_heads": 2, "word_embed_proj_dim": 16}
    config = transformers.Blip2Config(
        vision_config=_VISION,
        qformer_config={**_NARROW, "num_hidden_layers": 1, "encoder_hidden_size": 16, "vocab_size": IMAGE},
        text_config=transformers.OPTConfig(**wide, **_SMALL),
        num_query_tokens=3,
        image_token_index=IMAGE,
    )
    transformers.Blip2ForConditionalGeneration(config).save_pretrained(folder)
    words = _template(_tokenizer(), "[CLS] $A")
    pictures = _pictures(folder, "BlipImageProcessor", size=_SQUARE)
    transformers.Blip2Processor(pictures, words, num_query_tokens=3).save_pretrained(folder)


def florence2(folder: Path) -> None:
    sides = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    starts = {"decoder_start_token_id": 3, "forced_eos_token_id": None}
    text = {**_SMALL, **sides, **starts, "d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    patches = {"patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True]}
    heads = {"num_heads": [2, 2], "num_groups": [2, 2], "embed_dim": [8, 16], "depths": [1, 1], "window_size": 2}
    ends = {"projection_dim": 16, "max_temporal_embeddings": 2, "max_position_embeddings": 4}
    config = transformers.Florence2Config(
        vision_config={**patches, **heads, **ends}, text_config=transformers.BartConfig(**text), image_token_id=IMAGE
    )
    _talkative(transformers.Florence2ForConditionalGeneration(config), folder, IMAGE + 1)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer("<image>").backend_tokenizer,
        extra_special_tokens={"image_token": "<image>"},
        **dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), WORDS, strict=False)),
    )
    pictures = _pictures(folder, "CLIPImageProcessor", size=_SQUARE, do_center_crop=False, image_seq_length=5)
    transformers.Florence2Processor(pictures, words).save_pretrained(folder)


def _qwen(folder: Path, version: str, seen: dict[str, Any]) -> None:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    size = {"num_hidden_layers": 1, "num_key_value_heads": 2, "vocab_size": IMAGE + 4, "rope_parameters": rope}
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = getattr(transformers, f"{version}Config")(
        text_config={**_NARROW, **_ENDS, **size},
        vision_config={"depth": 1, "hidden_size": 16, "num_heads": 2, "patch_size": 4, **seen},
        **{name: IMAGE + number for number, name in enumerate(names)},
    )
    _talkative(getattr(transformers, f"{version}ForConditionalGeneration")(config), folder, IMAGE + 4)
    sides = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 1024}
    _pictures(folder, "Qwen2VLImageProcessor", **sides)
    words = _tokenizer(*QWEN)
    words.chat_template = TURN
    words.save_pretrained(folder)


def qwen2_vl(folder: Path) -> None:
    _qwen(folder, "Qwen2VL", {"embed_dim": 16, "mlp_ratio": 1})


def qwen2_5_vl(folder: Path) -> None:
    more = {"out_hidden_size": 16, "intermediate_size": 16, "window_size": 16, "fullatt_block_indexes": [0]}
    _qwen(folder, "Qwen2_5_VL", more)
