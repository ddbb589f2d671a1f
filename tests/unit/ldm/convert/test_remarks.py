"""What is said of a file that other programs read differently."""

from types import SimpleNamespace
from typing import Any

import pytest
from support.small import FAMILIES

from ldm.convert.model_files import Layout, remarks
from ldm.families.facts import Facts


@pytest.mark.parametrize(
    ("family", "unconditional", "to", "told"),
    [
        ("sdxl", "empty caption", "ldm", True),
        ("sdxl", "empty caption", "diffusers", False),  # its model_index.json says it
        ("sdxl", "zeros", "ldm", False),
        ("sd1", "empty caption", "ldm", False),
    ],
)
def test_a_file_of_xl_that_learnt_an_empty_caption_is_remarked_upon(
    family: str, unconditional: str, to: Layout, told: bool
) -> None:
    model: Any = SimpleNamespace(
        family=FAMILIES[family],
        usual_unconditional=FAMILIES[family].unconditional,
        facts=Facts(files={"tokenizer/vocab.json": b"{}", "tokenizer_2/vocab.json": b"{}"}),
        parts=("UNet", "VAE", "text encoder"),
        foreign_text_encoder=[],
        encoders=FAMILIES[family].encoders,
        unconditional=unconditional,
    )
    lines = remarks(model, to)
    assert [("other programs take zeros" in line) for line in lines] == ([True] if told else [])
