"""What the command line of `python -m lun.convert` says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.flags import SHELLS
from lun.config.suggestions import nearest

USAGE = """\
usage: python -m lun.convert IN OUT --to {ldm,diffusers,kohya} [options]

  IN    a run directory or one of its checkpoints, a .safetensors or .ckpt file (a whole model, a UNet or a VAE),
        a diffusers folder, or the hub id of one; or a file of adapters, FILE or FILE:STRENGTH
  OUT   a file (--to ldm) or a folder (--to diffusers); it appears when it is complete

  --to ldm          one file, for InvokeAI, A1111, ComfyUI and diffusers' from_single_file
  --to diffusers    a folder, for from_pretrained; of a run's adapters a file, for load_lora_weights
  --to kohya        adapters alone, in the file that InvokeAI, A1111, ComfyUI and diffusers read
  --merge           a run's adapters and their base together, as a whole model (--to ldm, --to diffusers)
  --adapter FILE[:STRENGTH]  added to IN: to a model's weights, or joined with IN's adapters (repeatable)
  --extract BASE    what IN differs from this model in, as a LoRA (--to kohya, --to diffusers; needs --rank)
  --rank RANK       of the LoRAs that are extracted, or IN's adapters as LoRAs of this rank: a number, error=0.1,
                    energy=0.99, cumulative=0.9, ratio=20, or one of these and the most that there may be: 64,error=0.1
  --layers GLOB     only the adapters of these layers, such as 'unet.*' or 'text_encoder*' (repeatable)
  --ema, --no-ema   the averaged weights, or those of the last step (averaged where there are any)
  --dtype TYPE      fp32, fp16 or bf16 (as IN has them)
  --max-shard-size SIZE  several files for a network that takes more, such as 2GB (--to diffusers; one each)
  --format FORMAT   safetensors or ckpt, of a file (by the name of OUT)
  --vae only        the VAE alone
  --vae FILE        with the VAE of this file or folder instead of IN's
  --trust-pickle    open a pickle that runs code; only for files whose maker you trust
  --allow MODULE    code of yours that the run's config names (repeatable)
  --family NAME     a family of models: an installed one, or MODULE.NAME of yours; --allow of its package (repeatable)
  --force           replace OUT
  --print-completion SHELL  a script by which bash or zsh completes these words
  -h, --help        this text

examples
  python -m lun.convert logs/latest pony.safetensors --to ldm --dtype fp16
  python -m lun.convert models/v1-5.ckpt models/v1-5 --to diffusers
  python -m lun.convert models/v1-5.ckpt pony.safetensors --to ldm --adapter lora.safetensors:0.8
  python -m lun.convert tuned.safetensors lora.safetensors --to kohya --extract models/v1-5.ckpt --rank 64,error=0.1
"""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "--to": ("ldm", "diffusers", "kohya"),
    "--dtype": ("fp32", "fp16", "bf16"),
    "--format": ("safetensors", "ckpt"),
    "--vae": (),
    "--max-shard-size": (),
    "--extract": (),
    "--rank": (),
    "--print-completion": SHELLS,
}
REPEATED = ("--allow", "--family", "--adapter", "--layers")
SWITCHES: Mapping[str, tuple[str, bool]] = {
    "--ema": ("ema", True),
    "--no-ema": ("ema", False),
    "--trust-pickle": ("trust_pickle", True),
    "--force": ("force", True),
    "--merge": ("merge", True),
    "--help": ("help", True),
    "-h": ("help", True),
}
VAE_ALONE = "only"
"""What `--vae` takes in the place of a file."""
ENDINGS = {".safetensors": "safetensors", ".ckpt": "ckpt", ".pt": "ckpt"}


@dataclass(frozen=True)
class ConvertArguments:
    """The parsed command line; None where a flag was not given."""

    source: str = ""
    out: Path = Path()
    to: str = ""
    ema: bool | None = None
    dtype: str | None = None
    format: str = "safetensors"
    vae: str | None = None
    trust_pickle: bool = False
    force: bool = False
    merge: bool = False
    help: bool = False
    allow: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    max_shard_size: str | None = None
    adapter: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    extract: str | None = None
    rank: str | None = None
    print_completion: str | None = None


def parse(argv: Sequence[str]) -> ConvertArguments:
    """The command line without the program's name. Raises `Fault` CLI02 or CLI03; an empty one asks for help."""
    given: dict[str, Any] = {}
    places: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, text = word.partition("=")
        if name in CHOICES:
            given[name.lstrip("-").replace("-", "_")] = _value(name, text if equals else _next(words), CHOICES[name])
        elif name in REPEATED:
            field = name.lstrip("-")
            given[field] = (*given.get(field, ()), _value(name, text if equals else _next(words), ()))
        elif word in SWITCHES:
            field, value = SWITCHES[word]
            if given.get(field, value) != value:
                raise Fault("CLI02", "--ema and --no-ema cannot be used together", fix="leave out one of them")
            given[field] = value
        elif word.startswith("-") and len(word) > 1:
            raise _unknown(name)
        else:
            places.append(word)
    if given.get("help") or not argv:
        return ConvertArguments(help=True)
    if "print_completion" in given:
        return ConvertArguments(print_completion=given["print_completion"])
    return _checked(places, given)


def _checked(places: list[str], given: dict[str, Any]) -> ConvertArguments:
    if len(places) != 2:
        raise Fault("CLI03", f"IN and OUT are needed, got {' '.join(places) or 'neither'}", fix="see --help")
    if "to" not in given:
        raise Fault("CLI03", "--to is needed", fix="--to ldm for one file, or --to diffusers for a folder")
    source, out = places[0], Path(places[1])
    if "extract" in given:
        _check_extraction(given)
    if given["to"] == "diffusers":
        if given.get("format"):
            raise Fault("CLI02", "--format is for --to ldm", why="folders always hold safetensors", fix="leave it out")
        return ConvertArguments(source, out, **given)
    if "max_shard_size" in given:
        raise Fault("CLI02", "--max-shard-size is for --to diffusers", why="OUT is one file", fix="leave it out")
    if given["to"] == "kohya" and given.get("merge"):
        raise Fault("CLI02", "--merge makes a whole model, --to kohya adapters alone", fix="--to ldm --merge")
    _check_ending(out, given.get("format"))
    return ConvertArguments(source, out, **({"format": ENDINGS[out.suffix]} | given))


def _check_extraction(given: Mapping[str, Any]) -> None:
    if given["to"] == "ldm" or given.get("merge"):
        word = "--merge" if given.get("merge") else "--to ldm"
        raise Fault("CLI02", f"--extract makes adapters, {word} a whole model", fix="--to kohya")
    if "rank" not in given:
        raise Fault("CLI03", "--extract needs --rank", fix="--rank 32, or --rank error=0.1 for as many as that takes")


def refuse_adapters_own(arguments: ConvertArguments) -> None:
    """Raise `Fault` CLI02 where a whole model is to be written, and something is asked that only adapters have."""
    for flag, given in (("--rank", arguments.rank), ("--layers", arguments.layers)):
        if given:
            raise Fault(
                "CLI02", f"{flag} is for adapters, and a whole model is written", fix="--extract BASE, or without it"
            )


def refuse_whole(arguments: ConvertArguments) -> None:
    """Raise `Fault` MOD03 where a file of adapters is asked to become a whole model."""
    if arguments.to == "ldm" or arguments.merge:
        fix = f"python -m lun.convert BASE {quoted(arguments.out)} --to ldm --adapter {quoted(arguments.source)}"
        why = "its base lies elsewhere"
        raise Fault("MOD03", f"{arguments.source} holds adapters and no whole model", why=why, fix=fix)


def require_folder(arguments: ConvertArguments) -> None:
    """Raise `Fault` CLI03 where a folder is to be made under a file's name."""
    if arguments.to == "diffusers" and arguments.out.suffix in ENDINGS:
        why = "--to diffusers makes a folder of a whole model"
        raise Fault("CLI03", f"{arguments.out} is named like a file", why=why, fix="--to ldm")


def require_adapter_file(arguments: ConvertArguments) -> None:
    """Raise `Fault` CLI03 or CLI02 for what cannot be done with adapters alone."""
    if arguments.out.suffix not in (".safetensors", ".pt"):  # the latter for embeddings
        fix = f"{quoted(arguments.out.with_suffix('.safetensors'))}, or --merge for a whole model"
        raise Fault("CLI03", f"{arguments.out} is no name for a file of adapters", fix=fix)
    if arguments.vae is not None or arguments.max_shard_size is not None:
        flag = "--vae" if arguments.vae is not None else "--max-shard-size"
        raise Fault("CLI02", f"{flag} is for whole models", why="IN holds adapters alone", fix="--merge")


def _check_ending(out: Path, asked: str | None) -> None:
    """Programs judge a file by its ending, so a name that says something else is none."""
    if out.suffix not in ENDINGS:
        name = f"{out.name}.{asked or 'safetensors'}"
        raise Fault("CLI03", f"{out} has no ending that programs look for", fix=quoted(out.with_name(name)))
    if asked and ENDINGS[out.suffix] != asked:
        fix = f"--format {ENDINGS[out.suffix]}, or {quoted(out.with_suffix('.' + asked))}"
        raise Fault("CLI02", f"--format {asked} and the name {out.name} contradict each other", fix=fix)


def _value(flag: str, text: str | None, choices: tuple[str, ...]) -> str:
    if not text:
        raise Fault("CLI03", f"{flag} needs a value", fix=f"{flag} {choices[0] if choices else 'VALUE'}")
    if choices and text not in choices:
        raise Fault("CLI03", f"{flag} takes {', '.join(choices)}, not {text!r}", fix=f"{flag} {choices[0]}")
    return text


def _next(words: list[str]) -> str | None:
    return words.pop(0) if words and not words[0].startswith("-") else None


def _unknown(name: str) -> Fault:
    near = nearest(name, [*CHOICES, *REPEATED, *SWITCHES])
    return Fault("CLI03", f"unknown option {name}", fix=f"did you mean {near}?" if near else "see --help")
