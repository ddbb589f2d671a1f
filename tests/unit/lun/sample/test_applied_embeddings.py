"""Words out of files, for a model that is only drawn from."""

from pathlib import Path

import pytest
import torch
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.diffusion.ddpm import LatentDiffusion
from lun.sample.applied_embeddings import AppliedEmbedding, apply_embeddings


@pytest.fixture
def model() -> LatentDiffusion:
    model = tiny_model()
    model.configure_model()
    return model.eval()


def test_a_prompt_with_the_word_is_read_as_the_files_vectors(model: LatentDiffusion, tmp_path: Path) -> None:
    encoder = model.cond_stage_model
    red = encoder.embedding(torch.tensor(encoder.tokens.ids(["red"])[0])).detach()
    torch.save({"<own>": red}, tmp_path / "a.bin")
    torch.save({"emb_params": 2 * red}, tmp_path / "b.pt")
    given = [f"{tmp_path / 'a.bin'}", f"{tmp_path / 'a.bin'}=zks", str(tmp_path / "b.pt")]
    plain = model.condition_on(["a red fox"]).context
    assert apply_embeddings(model, [AppliedEmbedding.parse(one) for one in given]) == (
        "a.bin=<own>",
        "a.bin=zks",
        "b.pt=b",
    )
    own, word, stem = (model.condition_on([f"a {name} fox"]).context for name in ("<own>", "ZKS", "b"))
    assert plain is not None and own is not None and word is not None and stem is not None
    assert torch.equal(own, plain) and torch.equal(word, plain) and not torch.equal(stem, plain)


def test_a_file_for_another_width_and_an_empty_word_are_refused(model: LatentDiffusion, tmp_path: Path) -> None:
    torch.save({"<own>": torch.ones(3)}, tmp_path / "a.bin")
    with pytest.raises(Fault, match="MOD03"):
        apply_embeddings(model, [AppliedEmbedding(tmp_path / "a.bin")])
    with pytest.raises(Fault, match="CLI03"):
        AppliedEmbedding.parse(f"{tmp_path / 'a.bin'}=")
