"""A vocabulary of CLIP's size, with its ids for the few words that tests say."""

import json
from itertools import product
from pathlib import Path

import pytest

PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
SYMBOLS = [chr(byte) for byte in PLAIN] + [chr(256 + n) for n in range(256 - len(PLAIN))]
WORDS = {0: "p h", 1: "ph o", 2: "pho t", 3: "c a", 27: "o f</w>", 613: "phot o</w>", 1856: "ca t</w>"}


def merges() -> list[str]:
    rare = SYMBOLS[94:]
    fill = (f"{a} {b}{end}" for end in ("", "</w>") for a, b in product(rare, rare))
    return [WORDS.get(place) or next(fill) for place in range(48894)]


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary")
    rules = merges()
    tokens = SYMBOLS + [f"{symbol}</w>" for symbol in SYMBOLS] + [rule.replace(" ", "") for rule in rules]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *rules, ""]), encoding="utf-8")
    return folder
