"""Stable Diffusion 3's conditioning: three encoders in one context, each of which may be absent."""

from typing import Any

import pytest
import torch
from support.sd3 import CLIP_G, CLIP_L, T5, VOCABULARY, tiny_conditioner

from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.modules.encoders.conditioner import Conditioner
from ldm.modules.encoders.sd3 import SD3Conditioner
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.meta_init import meta_init

CAPTIONS = ["a red fox on the grass", "", "blue noise"]
DRAWS = BatchDraws(0, range(40))


def tiny_xl(unconditional: str) -> SDXLConditioner:
    wider = {**CLIP_L, "hidden_size": 12}
    return SDXLConditioner(from_scratch=True, clip=CLIP_L, open_clip=wider, unconditional=unconditional).eval()


@torch.no_grad()
@pytest.mark.parametrize("absent", ["clip", "open_clip", "t5"])
def test_zeros_stand_in_the_place_of_an_absent_encoder(absent: str) -> None:
    whole, without = tiny_conditioner(), tiny_conditioner(**{absent: None}, context_dim=24)
    for name in ("clip_l", "clip_g", "t5xxl"):
        if getattr(without, name) is not None:
            getattr(without, name).load_state_dict(getattr(whole, name).state_dict())
    without.widths, without.vectors = whole.widths, whole.vectors  # an absent one counts as large as the published one
    both = whole(CAPTIONS)
    for share in whole.shares()[absent]:
        share.of(getattr(both, share.field)).zero_()
    cond = without(CAPTIONS)
    assert torch.equal(cond.context, both.context) and torch.equal(cond.pooled, both.pooled)
    assert cond.context.shape == (3, 77 + 16, 24) and cond.pooled.shape == (3, 8 + 4)
    assert absent not in without.shares()


def test_an_absent_encoder_counts_with_its_published_width() -> None:
    cond = tiny_conditioner(open_clip=None, t5=None, t5_length=256)(["a"])
    assert cond.context.shape == (1, 77 + 256, 4096) and cond.pooled.shape == (1, 8 + 1280)


def test_without_any_encoder_nothing_is_built() -> None:
    with pytest.raises(Fault, match="all three text encoders are null"):
        SD3Conditioner(from_scratch=True, clip=None, open_clip=None, t5=None)


@torch.no_grad()
def test_the_shares_of_the_encoders_are_all_that_there_is() -> None:
    for embedder in (tiny_conditioner(), tiny_xl("zeros")):
        cond = embedder(CAPTIONS)
        for shares in embedder.shares().values():
            for share in shares:
                part = share.of(getattr(cond, share.field))
                assert part.any()
                part.zero_()
        assert not cond.context.any() and not cond.pooled.any()


@torch.no_grad()
@pytest.mark.parametrize("unconditional", ["zeros", "empty caption"])
@pytest.mark.parametrize(("tiny", "second"), [(tiny_conditioner, "t5"), (tiny_xl, "open_clip")], ids=["sd3", "xl"])
def test_each_encoder_is_dropped_by_a_draw_of_its_own(tiny: Any, second: str, unconditional: str) -> None:
    embedder = tiny(unconditional=unconditional)
    rates = {"clip": 0.5, second: 0.3}
    batch = {"caption": ["a red fox"] * len(DRAWS)}
    cond = Conditioner(embedder, encoder_ucg_rate=rates)(batch, DRAWS, (8, 8))
    kept, empty = (embedder([caption] * len(DRAWS)) for caption in ("a red fox", ""))
    if unconditional == "zeros":
        empty = empty.map(torch.zeros_like)
    for name, shares in embedder.shares().items():
        dropped = DRAWS.uniform(f"caption_dropout {name}") < rates.get(name, 0.0)
        assert dropped.any() == (name in rates) and not dropped.all()
        for share in shares:
            now, was, instead = (share.of(getattr(one, share.field)) for one in (cond, kept, empty))
            torch.testing.assert_close(now[dropped], instead[dropped])
            torch.testing.assert_close(now[~dropped], was[~dropped])


@torch.no_grad()
@pytest.mark.parametrize("tiny", [tiny_conditioner, tiny_xl], ids=["sd3", "xl"])
def test_each_encoder_is_told_its_own_caption(tiny: Any) -> None:
    embedder = tiny(unconditional="zeros")
    texts = ["a red fox", "blue noise", "a cat on the grass"][: embedder.text_encoder_count]
    batch = {"caption": texts[:1]} | {f"caption_{place}": [text] for place, text in enumerate(texts, 1) if place > 1}
    cond = Conditioner(embedder)(batch, None, (8, 8))
    for place, shares in enumerate(embedder.shares().values()):
        alone = embedder([texts[place]])
        for share in shares:
            torch.testing.assert_close(share.of(getattr(cond, share.field)), share.of(getattr(alone, share.field)))
    with pytest.raises(Fault, match=f"the model has {embedder.text_encoder_count}"):
        Conditioner(embedder).on([("a",) * embedder.text_encoder_count + ("b",)], (8, 8))


@torch.no_grad()
def test_without_draws_no_encoder_is_dropped() -> None:
    embedder = tiny_conditioner()
    cond = Conditioner(embedder, encoder_ucg_rate={"clip": 1.0})({"caption": ["a fox"]}, None, (8, 8))
    assert torch.equal(cond.context, embedder(["a fox"]).context)


@pytest.mark.parametrize(
    ("rates", "what"),
    [({"t4": 0.1}, "no text encoder t4"), ({"t5": 1.5}, "encoder_ucg_rate.t5=1.5 is not a share")],
)
def test_a_rate_of_no_encoder_and_one_that_is_no_share_are_refused(rates: dict[str, float], what: str) -> None:
    with pytest.raises(Fault, match=what):
        Conditioner(tiny_conditioner(), encoder_ucg_rate=rates)


def test_an_encoder_that_is_one_has_no_parts_to_drop() -> None:
    with pytest.raises(Fault) as caught:
        Conditioner(lambda captions: pytest.fail("never called"), encoder_ucg_rate={"clip": 0.1})
    assert caught.value.why == "its text encoders cannot be dropped one by one"


@torch.no_grad()
def test_both_clips_read_longer_captions_in_chunks() -> None:
    embedder = tiny_conditioner(max_length=150)
    long = "red fox, " * 40
    cond = embedder([long, "a"])
    assert cond.context.shape == (2, 154 + 16, 24)
    assert torch.equal(embedder.shares()["t5"][0].of(cond.context), embedder.t5xxl([long, "a"]))


@pytest.mark.parametrize("layout", ["file", "without text_model", "without projection", "one table of T5's"])
def test_every_spelling_of_the_same_weights_comes_back(layout: str) -> None:
    embedder = tiny_conditioner()
    state = embedder.to_disk(dict(embedder.state_dict()))
    assert "clip_g.transformer.text_model.embeddings.token_embedding.weight" in state
    assert "t5xxl.transformer.encoder.embed_tokens.weight" not in state
    if layout == "without text_model":
        state = {key.replace("text_model.", ""): value for key, value in state.items()}
        state["clip_l.transformer.embeddings.position_ids"] = torch.arange(77)[None]
    if layout == "without projection":
        del state["clip_l.transformer.text_projection.weight"]
    if layout == "one table of T5's":
        table = state.pop("t5xxl.transformer.shared.weight")
        state["t5xxl.transformer.encoder.embed_tokens.weight"] = table
    again = _on_meta()
    load_part(again, state, "a file")
    want = dict(embedder.state_dict())
    if layout == "without projection":
        want["clip_l.transformer.text_projection.weight"] = torch.eye(8)
    assert all(torch.equal(value, want[key]) for key, value in again.state_dict().items())
    t5: Any = again.t5xxl.transformer
    assert t5.shared.weight is t5.encoder.embed_tokens.weight


def _on_meta() -> SD3Conditioner:
    with meta_init():
        return SD3Conditioner(clip=CLIP_L, open_clip=CLIP_G, t5=T5, t5_length=16, tokenizer_3=str(VOCABULARY))
