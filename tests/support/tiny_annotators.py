"""Models as people have them for annotating, each of them tiny and random, and what stands for onnxruntime."""

import base64
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "dog", "red", "blue", "on", "grass"]
TAGS = [
    "tag_id,name,category,count",
    "1,general,9,9",
    "2,explicit,9,9",
    "3,long_hair,0,9",
    "4,^_^,0,9",
    "5,mary_(a),4,9",
]
LIKELY = (0.3, 0.6, 0.5, 0.9, 0.86)
NETWORK = (  # ONNX: (batch, 16, 16, 3) to `LIKELY` for each
    "CAg6uQIKLQoFaW5wdXQKBGF4ZXMSAW0iClJlZHVjZU1lYW4qDwoIa2VlcGRpbXMYAaABAgoWCgFtCgVzaGFwZRIBciIHUmVzaGFwZQoRCgFyCgR6"
    "ZXJvEgF6IgNNdWwKGAoBegoGbGlrZWx5EgZvdXRwdXQiA0FkZBIBZyokCAMQB0IEYXhlc0oYAQAAAAAAAAACAAAAAAAAAAMAAAAAAAAAKh0IAhAHQgVz"
    "aGFwZUoQ//////////8BAAAAAAAAACoQCAEQAUIEemVyb0oEAAAAACokCAEIBRABQgZsaWtlbHlKFJqZmT6amRk/AAAAP2ZmZj/2KFw/WiQKBWlucHV0"
    "EhsKGQgBEhUKBxIFYmF0Y2gKAggQCgIIEAoCCANiHQoGb3V0cHV0EhMKEQgBEg0KBxIFYmF0Y2gKAggFQgQKABAS"
)
SIDE = 16
_NARROW = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
_VISION = {**_NARROW, "num_hidden_layers": 2, "image_size": SIDE, "patch_size": 8}
_TEXT = {**_NARROW, "num_hidden_layers": 2, "vocab_size": len(WORDS), "max_position_embeddings": 32}
_ENDS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
_SQUARE = {"height": SIDE, "width": SIDE}


TURN = """{% for m in messages %}{% for c in m['content'] %}{{ '<image> ' if c['type'] == 'image' else c['text'] }}{%
endfor %}{% endfor %}{% if add_generation_prompt %} on{% endif %}"""


def _tokenizer(*more: str) -> transformers.PreTrainedTokenizerFast:
    numbers = {word: number for number, word in enumerate((*WORDS, *more))}
    words = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "bos": 2, "eos": 3}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        additional_special_tokens=list(more),
        **{f"{name}_token": WORDS[number] for name, number in names.items()},
    )


def _published(folder: Path, model: transformers.PreTrainedModel, pictures: dict, tokenizer: bool) -> Path:
    """The files that publishers have."""
    model.save_pretrained(folder)
    if tokenizer:
        _tokenizer().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    return folder


def captioner(folder: Path) -> Path:
    """BLIP, as Salesforce has it."""
    torch.manual_seed(0)
    text = {**_TEXT, **_ENDS, "encoder_hidden_size": 16, "sep_token_id": 3, "num_hidden_layers": 1}
    config = transformers.BlipConfig(text_config=text, vision_config={**_VISION, "num_hidden_layers": 1})
    pictures = {"image_processor_type": "BlipImageProcessor", "size": _SQUARE, "processor_class": "BlipProcessor"}
    return _published(folder, transformers.BlipForConditionalGeneration(config), pictures, True)


def converser(folder: Path) -> Path:
    """LLaVA, which answers questions."""
    torch.manual_seed(0)
    pictures = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": SIDE}, "crop_size": _SQUARE}
    folder.mkdir()
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    words = {**_NARROW, **_ENDS, "num_hidden_layers": 1, "num_key_value_heads": 2, "vocab_size": len(WORDS) + 1}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**_VISION),
        text_config=transformers.LlamaConfig(**words),
        image_token_index=len(WORDS),
        image_token_id=len(WORDS),
    )
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    seen = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    small = transformers.AutoImageProcessor.from_pretrained(folder)
    processor = transformers.LlavaProcessor(small, _tokenizer("<image>"), chat_template=TURN, **seen)
    processor.save_pretrained(folder)
    return folder


def clip(folder: Path) -> Path:
    """CLIP, as OpenAI has it."""
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config={**_TEXT, **_ENDS}, vision_config=_VISION, projection_dim=12)
    pictures = {"feature_extractor_type": "CLIPFeatureExtractor", "size": SIDE, "crop_size": SIDE}
    return _published(folder, transformers.CLIPModel(config), pictures, False)


def classifier(folder: Path, *labels: str) -> Path:
    """A ViT that tells classes of pictures."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(**_VISION, id2label=dict(enumerate(labels)))
    pictures = {"image_processor_type": "ViTImageProcessor", "size": _SQUARE}
    return _published(folder, transformers.ViTForImageClassification(config), pictures, False)


def clipseg(folder: Path) -> Path:
    """CLIPSeg, as CIDAS has it."""
    torch.manual_seed(0)
    decoder = {"reduce_dim": 8, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 8}
    config = transformers.CLIPSegConfig(
        text_config={**_TEXT, **_ENDS}, vision_config=_VISION, projection_dim=12, extract_layers=[0, 1], **decoder
    )
    pictures = {"image_processor_type": "ViTImageProcessor", "size": _SQUARE, "processor_class": "CLIPSegProcessor"}
    return _published(folder, transformers.CLIPSegForImageSegmentation(config), pictures, True)


def head(file: Path) -> Path:
    """LAION's aesthetic head in torch's format: linear layers with dropout between, whose numbers it skips."""
    widths = {0: (12, 8), 2: (8, 4), 4: (4, 1)}
    numbers = torch.Generator().manual_seed(0)
    state = {}
    for number, (into, out) in widths.items():
        state[f"layers.{number}.weight"] = torch.randn(out, into, generator=numbers)
        state[f"layers.{number}.bias"] = torch.randn(out, generator=numbers)
    torch.save(state, file)
    return file


def tagger(folder: Path) -> Path:
    """A WD tagger, which finds `LIKELY` in every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(base64.b64decode(NETWORK))
    (folder / "selected_tags.csv").write_text("\n".join(TAGS) + "\n")
    return folder


class InvalidProtobuf(Exception):
    """As onnxruntime's own, which derive from nothing in common."""


class Session:
    """`onnxruntime.InferenceSession` of a file by `tagger`."""

    def __init__(self, path: str, providers: list[str]) -> None:
        if Path(path).read_bytes() != base64.b64decode(NETWORK):
            raise InvalidProtobuf("Protobuf parsing failed.")
        self.seen: list[np.ndarray] = []

    def get_inputs(self) -> list[types.SimpleNamespace]:
        return [types.SimpleNamespace(name="input", shape=["batch", SIDE, SIDE, 3])]

    def run(self, outputs: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.seen.append(given["input"])
        return [np.tile(np.array(LIKELY, np.float32), (len(given["input"]), 1))]


def stand_for_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import onnxruntime` gives a module whose sessions read what `tagger` writes."""
    module = types.ModuleType("onnxruntime")
    module.InferenceSession = Session
    module.capi = types.SimpleNamespace(
        onnxruntime_pybind11_state=types.SimpleNamespace(InvalidProtobuf=InvalidProtobuf)
    )
    module.get_available_providers = lambda: ["CPUExecutionProvider"]
    monkeypatch.setitem(sys.modules, "onnxruntime", module)
