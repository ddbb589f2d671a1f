"""Features are those that the models themselves give, and a folder of another kind is refused by name."""

from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image
from support.pages import ROOT
from support.tiny_encoders import SIDE, clip, dino, vit

from ldm.errors import Fault
from lun.features import image_encoder
from lun.features.image_encoder import ClipEncoder, DinoEncoder, ImageEncoder

PICTURES = [Image.effect_noise((SIDE, SIDE), 40 + 40 * n).convert("RGB") for n in range(3)]


def pixels(folder: Path) -> torch.Tensor:
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return processor(images=PICTURES, return_tensors="pt")["pixel_values"]


def test_dino_gives_its_class_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_encoder, "BATCH", 2)
    folder = dino(tmp_path / "dino")
    model = transformers.Dinov2Model.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(pixels(folder)).last_hidden_state[:, 0]
    torch.testing.assert_close(DinoEncoder(str(folder), device="cpu")(PICTURES), expected)


def test_another_encoder_gives_its_pooled_output(tmp_path: Path) -> None:
    folder = vit(tmp_path / "vit")
    model = transformers.ViTModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(pixels(folder)).pooler_output
    torch.testing.assert_close(ImageEncoder(str(folder), device="cpu")(PICTURES), expected)


def test_clip_compares_pictures_and_captions_as_the_whole_model_does(tmp_path: Path) -> None:
    folder = clip(tmp_path / "clip")
    words = ["a red cat", "dog on grass", "a " * 60]
    encoder = ClipEncoder(str(folder), device="cpu")
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    told = encoder.tokenizer(words, return_tensors="pt", padding=True, truncation=True, max_length=32)
    with torch.no_grad():
        asked = {"input_ids": told["input_ids"], "attention_mask": told["attention_mask"]}
        expected = model(pixel_values=pixels(folder), **asked).logits_per_image / model.logit_scale.exp()
    torch.testing.assert_close(encoder(PICTURES) @ encoder.texts(words).T, expected)


@pytest.mark.parametrize(("kind", "made"), [(DinoEncoder, vit), (ClipEncoder, dino), (ImageEncoder, None)])
def test_what_is_no_such_encoder_is_refused_with_what_to_fetch(kind, made, tmp_path: Path) -> None:
    folder = made(tmp_path / "model") if made else ROOT / "docs"
    with pytest.raises(Fault) as refused:
        kind(str(folder), device="cpu")
    assert refused.value.id == ("MOD02" if made else "MOD01")
    assert "--" in refused.value.where
    if made is None:
        assert "hf download" in refused.value.fix
