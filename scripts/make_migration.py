"""Writes docs/migration.md, what settings of other trainers are called here, from the tables in lun/other_trainers."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ldm.shell import quoted
from lun.other_trainers.counterparts import Counterpart, ProgramTable
from lun.other_trainers.programs import TABLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "migration.md"
HEAD = """\
# Coming from another trainer

Made by `scripts/make_migration.py` from the tables in `lun/other_trainers`; a test holds it up to date. A whole
configuration of another trainer becomes one of this program in one step:

```sh
python -m lun.migrate train.sh -o mine
```

`train.sh` stands for a script or text file with a command of kohya's or diffusers' scripts (a command may also be given
itself, in quotes), for kohya's training TOML, OneTrainer's preset, SimpleTuner's `config.json`, ai-toolkit's job,
YAML files of translunar-diffusion, or a [file of data sets](datasets.md#from-another-trainer). It writes
`mine/run.yaml` and says which command trains it. Nothing in the file is run; files that it names (`--dataset_config`,
`--config_file`, concepts, backends, samples) are read along, and tokens of accounts are not copied. What differs in
meaning stands as a comment above its key; what has no equal, what needs nothing here and what is unknown is listed at
the end.

Below is what each setting is called here. The right column is put behind a command such as this one:

```sh
python main.py --base sd15 bf16 kohya --data_root DIR -t
```

Settings without dashes can stand in a YAML file of your own as well, which begins with `extends: [sd15]`. A misspelt
one is an error that names the nearest, and a command line of those trainers is answered by the one to type here. All
keys: [configs/KEYS.md](../configs/KEYS.md).
"""
TAIL = """\
## translunar-diffusion and InvokeAI's trainer

Configs and runs of 2022 work as they are; each translation is logged once at the start. In one file and in today's
spelling they are written by `python -m lun.migrate` with all of their files: `lightning.yaml txt2img.yaml data.yaml -o
mine`. What differs by default:

| There | Here |
|---|---|
| `-b`, `-t`, `-r`, `-n`, `-l`, `-s`, `-p`, `--data_root` | the same |
| `--gpus 0,` | `--devices 0,`; the old spelling is taken as well |
| `--actual_resume CKPT` | `--init-from sd.safetensors`; the old spelling is taken as well |
| `--scale_lr` (on unless said otherwise) | off; `--scale_lr linear` |
| steps counted as batches | optimizer steps, everywhere |
| EMA on the card or updated every 100 batches | `model.params.ema_config.params.update_every=10`, in main memory |
| `last.ckpt` at an exception | `last.ckpt` at every end, `on_exception.ckpt` at an exception; `-r -t` goes on |
"""
MODELS = {"zero-terminal-snr": "sd21-v", "edm": "sdxl"}
"""Models to show overlays with that do not fit sd15."""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *("\n".join(section(table)) for table in TABLES), TAIL])


def section(table: ProgramTable) -> Iterator[str]:
    """The lines on one program."""
    yield f"## {table.program}\n"
    if table.about:
        yield f"{table.about}\n"
    yield "| There | Here |\n|---|---|"
    together: dict[int, tuple[Counterpart, list[str]]] = {}
    for name, counterpart in table.rows.items():
        together.setdefault(id(counterpart), (counterpart, []))[1].append(name)
    for counterpart, names in together.values():
        shown = ", ".join(f"`{table.shown(name)}`" for name in names)
        yield f"| {shown} | {cell(counterpart)} |".replace("||", "\\|\\|").replace("\\||", "\\|\\|")
    yield ""


def cell(counterpart: Counterpart) -> str:
    """The right column: what to type, and what there is to know."""
    parts = [", ".join(f"`{span}`" for span in spans(counterpart))]
    of_choices: dict[str, list[str]] = {}
    for value, chosen in counterpart.choices.items():
        of_choices.setdefault(cell(chosen), []).append(f"`{value}`")
    parts += [f"{', '.join(values)}: {said}" for said, values in of_choices.items()]
    say = counterpart.say.replace("nothing to say: ", "nothing: ")
    parts.append({"none": f"none: {say}", "changed": f"differs: {say}"}.get(counterpart.kind, say))
    text = "; ".join(filter(None, parts))
    text = re.sub(r"\bdocs/([\w-]+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"\b(lun/(?:\w+/)*README\.md)", r"[\1](../\1)", text)


def spans(counterpart: Counterpart) -> list[str]:
    """What to type, in pieces that each can stand behind a command."""
    typed = counterpart.typed(counterpart.example) if counterpart.words else []
    if counterpart.base:
        model = next((MODELS[base] for base in counterpart.base if base in MODELS), "sd15")
        return [quoted("--base", model, *counterpart.base, *typed)]
    pairs = []
    while typed:
        word = typed.pop(0)
        pairs.append(quoted(word, typed.pop(0)) if word.startswith("-") else quoted(word))
    return pairs


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
