"""The cache of captions: what the encoder would give, without asking it twice."""

from pathlib import Path

import pytest
import torch
from support.runs import make_pictures

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws, Draws
from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption
from ldm.modules.encoders.conditioner import Conditioner
from ldm.modules.encoders.sdxl import SDXLConditioner
from lun.data.cache.cache_settings import Cache
from lun.data.cache.shards.filling import Share
from lun.data.cache.text.encoder import TextEncoder
from lun.data.local import Local


class Spelling(torch.nn.Module):
    """A text encoder with all that XL's has, which keeps the captions that it was asked for."""

    def __init__(self, factor: float = 1.0, length: int = 4) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))
        self.length = length
        self._asked: list[str] = []

    def forward(self, captions: list[str]) -> Conditioning:
        self._asked += captions
        letters = [[ord(letter) for letter in caption.ljust(self.length)[: self.length]] for caption in captions]
        context = torch.tensor(letters).unsqueeze(-1).float().expand(-1, -1, 2) * self.factor / 7
        return Conditioning(context, context.mean(dim=1), torch.full((len(captions), 6), 2049.0))

    def asked(self) -> list[str]:
        """What it was asked for since the last question."""
        found, self._asked = self._asked, []
        return found


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return make_pictures(tmp_path / "pictures", 5)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(folder=str(tmp_path / "cache"))


def local(root: Path, **captions: object) -> Local:
    return Local(str(root), size=8, captions=captions)


def filled(cache: Cache, root: Path, encoder: Spelling, share: Share | None = None, **captions: object):
    return cache.text_of([local(root, **captions)], TextEncoder(encoder, torch.device("cpu")), share or Share())


def same(one: Conditioning, other: Conditioning) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("context", "pooled", "sizes"))


def test_known_captions_are_answered_without_the_encoder(cache, pictures):
    encoder = Spelling()
    text = filled(cache, pictures, encoder)
    assert sorted(encoder.asked()) == sorted(["", "", *(local(pictures).caption(i) for i in range(5))])
    captions = [local(pictures).caption(3), "", local(pictures).caption(0)]
    told = text(captions)
    assert encoder.asked() == []
    assert same(told, Spelling()(captions))


def test_unknown_captions_among_known_ones_are_encoded_and_stand_in_their_places(cache, pictures):
    encoder = Spelling()
    text = filled(cache, pictures, encoder)
    encoder.asked()
    captions = ["new", local(pictures).caption(1), "newer", "", local(pictures).caption(4), "new"]
    told = text(captions)
    assert encoder.asked() == ["new", "newer", "new"]
    assert same(told, Spelling()(captions))
    assert same(text(["only", "new"]), Spelling()(["only", "new"]))


def test_a_second_start_asks_only_for_the_shape_of_an_answer(cache, pictures):
    filled(cache, pictures, Spelling())
    encoder = Spelling()
    filled(cache, pictures, encoder)
    assert encoder.asked() == [""]


@pytest.mark.parametrize("other", [{"factor": 2.0}, {"length": 5}])
def test_another_encoder_is_never_served_these_states(cache, pictures, other):
    filled(cache, pictures, Spelling())
    text = filled(cache, pictures, Spelling(**other))
    assert same(text([""]), Spelling(**other)([""]))


def test_an_edited_caption_is_encoded_anew(cache, pictures):
    filled(cache, pictures, Spelling())
    (pictures / "txt/002.txt").write_text("something else")
    encoder = Spelling()
    filled(cache, pictures, encoder)
    assert encoder.asked() == ["something else", ""]


def test_half_precision_rounds_states_but_not_sizes(cache, pictures):
    text = filled(Cache("float16", cache.folder), pictures, Spelling())
    told, exact = text(["red noise 0"]), Spelling()(["red noise 0"])
    assert told.context.dtype == torch.float32
    assert torch.equal(told.context, exact.context.half().float())
    assert torch.equal(told.sizes, exact.sizes)


def test_an_encoder_in_half_precision_answers_in_it(cache, pictures):
    encoder = Spelling().to(torch.bfloat16)
    text = filled(cache, pictures, encoder)
    assert text(["red noise 0"]).context.dtype == encoder(["red noise 0"]).context.dtype


def test_ranks_share_the_captions(cache, pictures):
    ranks = [Spelling(), Spelling()]
    met = []

    def wait() -> None:
        if not met:
            met.append(filled(cache, pictures, ranks[1], Share(1, 2)))

    filled(cache, pictures, ranks[0], Share(0, 2, wait))
    asked = [encoder.asked()[:-1] for encoder in ranks]  # the last is for the shape of an answer
    assert [len(captions) for captions in asked] == [3, 3]
    assert not set(asked[0]) & set(asked[1])


@pytest.mark.parametrize(
    ("rules", "kept", "settled"),
    [
        ({}, ["a, b"], True),
        ({"shuffle_tag_p": 0.5}, ["a, b"], False),
        ({"shuffle_tag_p": 1.0}, [], False),
        ({"tag_dropout_p": 0.1}, [], False),
        ({"skip_caption": True, "tag_dropout_p": 0.1}, [""], True),
        ({"several_captions": True}, ["a, b", "c"], True),
        ({"files": ["txt", "caption2"]}, ["a, b", "d"], True),
        ({"tag_warmup_steps": 9}, ["a, b"], False),
        ({"trigger": "sks"}, ["sks, a, b"], True),
    ],
)
def test_captions_that_return_word_for_word_are_those_kept(tmp_path, rules, kept, settled):
    root = make_pictures(tmp_path, 1)
    (root / "txt/000.txt").write_text("a, b\nc" if "several_captions" in rules else "a, b")
    (root / "txt/000.caption2").write_text("d")
    data = local(root, **rules)
    assert data.settled_captions(0) == kept
    assert data.captions_settled is settled


def test_a_set_drops_its_captions_of_all_encoders_as_often_as_it_says_from_the_cache_too(cache, pictures):
    (pictures / "txt/000.txt2").write_text("in full")
    data = Local(str(pictures), size=8, caption_per_encoder=True)
    asked = Spelling()
    told = cache.text_of([data], TextEncoder(Joined(asked), torch.device("cpu")), Share())
    asked.asked()
    examples = [data.example(index, Draws(0, index)) for index in (0, 0, 1)]
    batch = {"caption": [one["caption"] for one in examples], "caption_2": ["in full", "in full", "green noise 1"]}
    rates = {"ucg_rate": torch.tensor([1.0, 0.0, -1.0])}
    conditioner = Conditioner(told)
    conditioner.text_encoder_count = 2
    cond = conditioner({**batch, **rates}, BatchDraws(0, [0, 1, 2]), (8, 8))
    kept = Spelling()(["red noise 0 in full"])
    assert torch.equal(cond.context[0], Spelling()([""]).context[0])
    assert torch.equal(cond.context[1], kept.context[0]) and asked.asked() == []


class Joined(torch.nn.Module):
    """An encoder that may be told a caption for each of two."""

    def __init__(self, encoder: Spelling) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, captions: list[Caption]) -> Conditioning:
        return self.encoder([one if isinstance(one, str) else " ".join(one) for one in captions])


def test_a_caption_that_cannot_be_read_is_left_to_the_run(cache, pictures):
    data = local(pictures)
    (pictures / "txt/002.txt").unlink()
    encoder = Spelling()
    cache.text_of([data], TextEncoder(encoder, torch.device("cpu")), Share())
    assert len(encoder.asked()) == 1 + 4 + 1


def test_a_data_set_that_tells_no_captions_is_encoded_as_it_comes(cache):
    encoder = Spelling()
    text = cache.text_of([object()], TextEncoder(encoder, torch.device("cpu")), Share())
    assert encoder.asked() == ["", ""]
    assert same(text(["x"]), Spelling()(["x"]))


def test_states_that_are_not_finite_stop_the_run(cache, pictures):
    with pytest.raises(Fault, match="MOD03"):
        filled(cache, pictures, Spelling(float("nan")))


def test_both_encoders_of_xl_are_kept_in_one_entry(cache, pictures):
    first = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    second = {**first, "hidden_size": 12}
    network = SDXLConditioner(from_scratch=True, clip=first, open_clip=second).eval()
    encoder = TextEncoder(network, torch.device("cpu"))
    text = cache.text_of([local(pictures)], encoder, Share())
    captions = [local(pictures).caption(2), ("a", "b"), ""]
    with torch.no_grad():
        plain = network(captions)
    told = text(captions)
    assert told.context.shape == (3, 77, 20) and told.pooled.shape == (3, 12)
    torch.testing.assert_close(told.context, plain.context)
    torch.testing.assert_close(told.pooled, plain.pooled)
