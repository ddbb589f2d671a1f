"""CLIP's vocabulary, which ships with the program: 49,408 tokens that follow from 48,894 merges (data/NOTICE)."""

import gzip
import json
from functools import cache
from pathlib import Path

MERGES = Path(__file__).parent / "data" / "clip-merges.txt.gz"
BYTES = range(256)
PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
END_OF_WORD = "</w>"
START, END = "<|startoftext|>", "<|endoftext|>"


@cache
def clip_merges() -> tuple[tuple[str, str], ...]:
    """Pairs of tokens in the order in which they are joined (Radford et al. 2021, arXiv 2103.00020, section 2.4)."""
    lines = gzip.decompress(MERGES.read_bytes()).decode("utf-8").splitlines()
    return tuple((first, second) for first, _, second in (line.partition(" ") for line in lines))


@cache
def clip_vocabulary() -> dict[str, int]:
    """{token: id}: single bytes, bytes that end a word, each merge's result, and the marks of start and end."""
    symbols = _byte_symbols()
    tokens = [*symbols, *(symbol + END_OF_WORD for symbol in symbols)]
    tokens += ["".join(pair) for pair in clip_merges()] + [START, END]
    return {token: place for place, token in enumerate(tokens)}


def vocabulary_files() -> dict[str, str]:
    """The content of `vocab.json` and `merges.txt`, from which every tokenizer for CLIP can be made."""
    merges = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in clip_merges()), ""])
    return {"vocab.json": json.dumps(clip_vocabulary(), ensure_ascii=False), "merges.txt": merges}


def _byte_symbols() -> list[str]:
    """One visible character for every byte, printable ones first, as byte pair encodings have had it since GPT-2."""
    others = [byte for byte in BYTES if byte not in set(PRINTABLE)]
    return [chr(byte) for byte in PRINTABLE] + [chr(256 + place) for place in range(len(others))]
