"""A card lies beside weights, is renewed with them, and is a person's once that person has written in it."""

from pathlib import Path

import pytest
from support.small import model

from ldm.convert.model_card import PICTURE_HERE, ModelCard
from ldm.convert.model_files import ExportSettings, export

CARD = ModelCard(f"# A\n\n![samples]({PICTURE_HERE})\n", b"a picture")
NEXT = ModelCard("# B\n", b"another picture")


def test_a_card_has_the_name_of_its_file_and_links_the_picture_beside_it(tmp_path: Path) -> None:
    assert CARD.beside(tmp_path / "my lora.safetensors") == tmp_path / "my lora.md"
    assert (tmp_path / "my lora.md").read_text().startswith("# A\n\n![samples](my%20lora.png)\n")
    assert (tmp_path / "my lora.png").read_bytes() == b"a picture"


def test_a_card_that_nobody_changed_is_renewed(tmp_path: Path) -> None:
    for card in (CARD, NEXT):
        page = card.beside(tmp_path / "a.safetensors")
    assert page.read_text().startswith("# B") and (tmp_path / "a.png").read_bytes() == b"another picture"
    ModelCard("# C\n").beside(tmp_path / "a.safetensors")
    assert page.read_text().startswith("# C")


@pytest.mark.parametrize("change", ["a word at the end", "a word within", "a card of one's own"])
def test_a_card_that_a_person_changed_stays(tmp_path: Path, change: str) -> None:
    page = CARD.beside(tmp_path / "a.safetensors")
    written = page.read_text()
    own = {"a word at the end": written + "mine\n", "a word within": written.replace("# A", "# Mine")}.get(
        change, "# Mine"
    )
    page.write_text(own)
    NEXT.beside(tmp_path / "a.safetensors")
    assert page.read_text() == own


def test_a_picture_of_a_persons_own_stays(tmp_path: Path) -> None:
    page = CARD.beside(tmp_path / "a.safetensors")
    (tmp_path / "a.png").write_bytes(b"mine")
    NEXT.beside(tmp_path / "a.safetensors")
    assert (tmp_path / "a.png").read_bytes() == b"mine" and page.read_text().startswith("# B")
    (tmp_path / "b.png").write_bytes(b"mine")
    CARD.beside(tmp_path / "b.safetensors")
    assert (tmp_path / "b.png").read_bytes() == b"mine"


def test_a_folder_that_is_replaced_keeps_what_a_person_wrote_in_its_card(tmp_path: Path) -> None:
    source, out = model("sd1"), tmp_path / "folder"
    export(source, out, ExportSettings("diffusers", card=CARD))
    assert (out / "README.md").read_text().startswith("# A\n\n![samples](samples.png)")
    export(source, out, ExportSettings("diffusers", card=NEXT, force=True))
    assert (out / "README.md").read_text().startswith("# B") and (out / "samples.png").read_bytes() == NEXT.picture
    (out / "README.md").write_text("# Mine\n")
    export(source, out, ExportSettings("diffusers", card=CARD, force=True))
    assert (out / "README.md").read_text() == "# Mine\n"
