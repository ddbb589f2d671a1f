"""The command line of the converter."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.convert.arguments import ConvertArguments, parse, require_adapter_file, require_folder


def test_a_whole_line_is_read_in_any_order() -> None:
    line = "--force in.ckpt --dtype=fp16 out.safetensors --to ldm --no-ema --vae only --trust-pickle"
    assert parse(line.split()) == ConvertArguments(
        "in.ckpt", Path("out.safetensors"), "ldm", False, "fp16", "safetensors", "only", True, True
    )


def test_the_name_of_the_file_decides_its_format() -> None:
    assert parse(["a", "b.ckpt", "--to", "ldm"]).format == "ckpt"
    assert parse(["a", "b.safetensors", "--to", "ldm"]).format == "safetensors"


@pytest.mark.parametrize("line", ["", "-h", "a b --to ldm --help"])
def test_help_is_given_on_request_and_for_an_empty_line(line: str) -> None:
    assert parse(line.split()).help


@pytest.mark.parametrize(
    ("line", "fault", "what"),
    [
        ("a b.ckpt", "CLI03", "--to is needed"),
        ("a --to ldm", "CLI03", "IN and OUT are needed, got a"),
        ("a b c --to ldm", "CLI03", "IN and OUT are needed, got a b c"),
        ("a b.ckpt --to comfy", "CLI03", "--to takes ldm, diffusers, kohya, not 'comfy'"),
        ("a b.ckpt --to ldm --dtype fp8", "CLI03", "--dtype takes fp32, fp16, bf16, not 'fp8'"),
        ("a b.ckpt --to ldm --vae", "CLI03", "--vae needs a value"),
        ("a b.ckpt --to ldm --vae --force", "CLI03", "--vae needs a value"),
        ("a b.ckpt --to ldm --ema --no-ema", "CLI02", "--ema and --no-ema cannot be used together"),
        ("a b.ckpt --to ldm --format safetensors", "CLI02", "contradict each other"),
        ("a b --to diffusers --format ckpt", "CLI02", "--format is for --to ldm"),
        ("a b.ckpt --to ldm --max-shard-size 2GB", "CLI02", "--max-shard-size is for --to diffusers"),
        ("a b --to diffusers --max-shard-size", "CLI03", "--max-shard-size needs a value"),
        ("a b.safetensors --to kohya --merge", "CLI02", "--merge makes a whole model"),
        ("a model --to ldm", "CLI03", "model has no ending that programs look for"),
        ("a b.ckpt --to ldm --trust-pickel", "CLI03", "unknown option --trust-pickel"),
    ],
)
def test_a_line_that_cannot_be_meant_so_is_refused(line: str, fault: str, what: str) -> None:
    with pytest.raises(Fault) as caught:
        parse(line.split())
    assert caught.value.id == fault
    assert what in caught.value.what


def test_a_slip_of_the_pen_is_guessed() -> None:
    with pytest.raises(Fault) as caught:
        parse(["a", "b.ckpt", "--to", "ldm", "--trust-pickel"])
    assert caught.value.fix == "did you mean --trust-pickle?"


def test_a_folder_of_a_whole_model_is_not_named_like_a_file_nor_a_file_of_adapters_like_another() -> None:
    with pytest.raises(Fault, match="CLI03") as caught:
        require_folder(parse(["a", "b.ckpt", "--to", "diffusers"]))
    assert "is named like a file" in caught.value.what
    with pytest.raises(Fault, match="CLI03") as caught:
        require_adapter_file(parse(["a", "b.ckpt", "--to", "kohya"]))
    assert "b.safetensors" in caught.value.fix
    with pytest.raises(Fault, match="CLI02"):
        require_adapter_file(parse(["a", "b.safetensors", "--to", "kohya", "--vae", "only"]))
