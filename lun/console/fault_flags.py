"""The flags of the commands, for settings that faults of `ldm` name: it knows no command line."""

import re

_FLAGS = (
    (r"model\.params\.ckpt_path=FILE", "--init-from FILE"),
    (r"convert (.+) with trust_pickle=true", r"python -m lun.convert \1 --to ldm --trust-pickle"),
    (r"(to|vae|dtype|adapter|extract)=(\w+)", r"--\1 \2"),
    (r"rank=([\w.=]*\w)", r"--rank \1"),
    (r"text_encoder\.(\w+)=(\S+)", r"--text-encoder \1=\2"),
    (r"family=(\S+)", r"--family \1"),
    (r"tokenizer=FOLDER", "--tokenizer FOLDER"),
    (r"force=true", "--force"),
    (r"merge=true", "--merge"),
    (r"weights=raw", "--raw"),
    (r"ema=true", "--ema"),
    (r"ema=false", "--no-ema"),
)
_PATTERNS = tuple((re.compile(rf"(?<![\w./'\"]){setting}\b"), flag) for setting, flag in _FLAGS)


def with_flags(text: str) -> str:
    """A message with flags in the place of the settings that have one; `a.b=value` of a configuration stays."""
    for pattern, flag in _PATTERNS:
        text = pattern.sub(flag, text)
    return text
