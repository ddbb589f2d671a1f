"""Words that a vocabulary lacks."""

import pytest

from ldm.errors import Fault
from ldm.modules.encoders.added_tokens import AddedTokens
from ldm.modules.encoders.tokenizer import END, SIZE, START, clip_tokenizer
from ldm.modules.encoders.tokens import CaptionTokens


def letters(texts: list[str]) -> list[list[int]]:
    return [[ord(letter) for letter in text if letter != " "] for text in texts]


def added(**counts: int) -> AddedTokens:
    tokens = AddedTokens(1000, lambda word: word == "cat")
    for word, count in counts.items():
        tokens.add(word.replace("_", "<", 1).replace("_", ">") if word.startswith("_") else word, count, "here")
    return tokens


def test_a_word_becomes_the_ids_of_its_vectors_where_it_stands_alone() -> None:
    tokens = added(zks=2, _x_=3)
    rows = tokens.ids(["a zks, ZKS", "azks zksa", "b<x>c", ""], lambda texts: letters(list(texts)))
    assert rows[0] == [97, 1000, 1001, 44, 1000, 1001]
    assert rows[1] == letters(["azks zksa"])[0]
    assert rows[2] == [98, 1002, 1003, 1004, 99]
    assert rows[3] == []


@pytest.mark.parametrize(
    ("word", "said"), [("", "single"), ("two words", "single"), ("ZKS", "two embeddings"), ("cat", "vocabulary")]
)
def test_a_word_that_cannot_be_ones_own_is_refused(word: str, said: str) -> None:
    tokens = added(zks=1)
    with pytest.raises(Fault, match="CFG08") as fault:
        tokens.add(word, 1, "there")
    assert said in fault.value.what and fault.value.where == "there"


def test_captions_are_cut_and_filled_up_with_added_words_as_without_and_no_chunk_ends_within_one() -> None:
    plain, whole = (CaptionTokens(clip_tokenizer("built-in", 77), 77, 77, padding=END) for _ in range(2))
    chunks = CaptionTokens(clip_tokenizer("built-in", 77), 150, 77, padding=END)
    for tokens in (whole, chunks):
        tokens.added.add("<zks>", 4, "here")
    assert whole(["asks of a <cat>"]).tolist() == plain(["asks of a <cat>"]).tolist()
    own = [SIZE, SIZE + 1, SIZE + 2, SIZE + 3]
    assert whole(["a <zks>"])[0, :7].tolist() == [START, 320, *own, END]
    assert whole(["a " * 73 + "<zks>"])[0, -3:].tolist() == [*own[:2], END]
    rows = chunks(["a " * 73 + "<zks>"])
    assert rows[0, -3:].tolist() == [END, END, END] and rows[1, :6].tolist() == [START, *own, END]
    with pytest.raises(Fault, match="vocabulary"):
        whole.added.add("Cat", 1, "here")
