"""What a sample was told to show, from wherever programs write it."""

from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from lun.measure.sampled_folder import sampled_files

A1111 = "a cat,\non grass\nNegative prompt: blurry\nSteps: 20, Sampler: Euler"


@pytest.mark.parametrize(
    ("chunks", "text", "prompt"),
    [
        ({"lun": '{"prompt": "a fox"}'}, None, "a fox"),
        ({"lun": '{"prompt": 3}', "parameters": A1111}, None, "a cat,\non grass"),
        ({"lun": "{broken", "parameters": "a dog\nSteps: 3"}, None, "a dog"),
        ({"lun": '{"prompt": "a fox"}'}, "a hen\n", "a hen"),
        ({}, None, None),
    ],
)
def test_a_prompt_is_read_from_beside_a_sample_or_from_within(
    chunks: dict[str, str], text: str | None, prompt: str | None, tmp_path: Path
) -> None:
    info = PngImagePlugin.PngInfo()
    for name, value in chunks.items():
        info.add_text(name, value)
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png", pnginfo=info)
    if text is not None:
        (tmp_path / "a.txt").write_text(text)
    (one,) = sampled_files(tmp_path)
    assert one.prompt == prompt
