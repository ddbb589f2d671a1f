"""What goes to the console and to `console.log`: plain messages, each warning once, without other libraries' noise."""

import logging
import os
import re
import sys
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from lun.console.crash_traceback import write_crashes_into
from lun.program import as_started

OURS = ("lun", "ldm")
LIGHTNING = ("lightning", "lightning.pytorch", "lightning.fabric")
ID = re.compile(r"(warning|note|error)(?:\[([A-Z]+\d*)\])?:")
LONGEST_NAME = 48
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # in names of files, say, with which a terminal would act
COLOURS = {"error": "\033[31m", "warning": "\033[33m", "note": "\033[36m"}
PLAIN = "\033[0m"


@dataclass(frozen=True)
class Noise:
    """A message of another library that means nothing to a person; `pattern` has to match its beginning."""

    pattern: str
    reason: str


NOISE = (
    Noise(r"💡 Tip: ", "advertises services of Lightning's makers"),
    Noise(r"GPU available: ", "the start of a run names the device"),
    Noise(r"TPU available: ", "the start of a run names the device"),
    Noise(r"HPU available: ", "the start of a run names the device"),
    Noise(r"Using (16bit|bfloat16) .*Automatic Mixed Precision", "the start of a run names the precision"),
    Noise(r"`Trainer\.fit` stopped: `max_steps", "the end of a run is logged by us, in steps of ours"),
    Noise(r"`Trainer\(.*\)` was configured so", "repeats the config, in words of Lightning's epochs"),
    Noise(r"Restor(ing|ed) (all )?states from the checkpoint", "a resume is logged by us, with its step"),
    Noise(r"(\x1b\[.m)*LOCAL_RANK: \d+ - CUDA_VISIBLE_DEVICES", "the start of a run names the device"),
    Noise(r"Loading `train_dataloader` to estimate", "an inside of Lightning"),
    Noise(r"The '\w+' does not have many workers", "PRF01 says so when, and only when, training waits for data"),
    Noise(r"You're resuming from a checkpoint that ended before the epoch ended", "our sampler knows its place"),
    Noise(
        r"Found \d+ module\(s\) in eval mode at the start of training",
        "frozen parts are meant to be in eval mode",
    ),
    Noise(
        r"You have overridden `(transfer_batch_to_device|on_after_batch_transfer)` in `LightningModule` but",
        "every trained model does, and is meant to",
    ),
    Noise(r"Checkpoint directory .* exists and is not empty", "savers of ours know the files of their run"),
    Noise(r"The number of training batches \(.*\) is smaller than the logging interval", "our epoch is endless"),
    Noise(r"`isinstance\(treespec, LeafSpec\)` is deprecated", "a matter between Lightning and torch"),
)

_handlers: list[logging.Handler] = []
_early: list[logging.LogRecord] = []
_counted: Counter[str] = Counter()
_said: set[str] = set()
_former_levels: dict[str, int] = {}
_python_shows = warnings.showwarning


def configure(run_directory: Path | None, rank: int = 0) -> None:
    """Send what our code, Lightning and Python's warnings say to the console (rank 0) and to `console.log` of a run.

    May be called again, at first without a directory: what was said by then is written to the file, too. Call it after
    large imports as well, since libraries add handlers to the console. Other ranks write `console.rank3.log` and show
    nothing.
    """
    _detach()
    root = logging.getLogger()
    if rank == 0:
        _handlers.append(Console())
    _handlers.append(_to_file(run_directory, rank) if run_directory else Memory())
    for handler in _handlers:
        handler.filters.insert(0, Quiet())
        root.addHandler(handler)
    for name in OURS:
        _former_levels.setdefault(name, logging.getLogger(name).level)
        logging.getLogger(name).setLevel(logging.INFO)
    _unburden_libraries()
    warnings.showwarning = _log_warning


def forget() -> None:
    """Undo `configure` and start counting afresh, as a second run in the same process needs it."""
    _detach()
    for name, level in _former_levels.items():
        logging.getLogger(name).setLevel(level)
    for name in LIGHTNING:
        vars(logging.getLogger(name)).pop("addHandler", None)
    for memory in (_early, _counted, _said, _former_levels):
        memory.clear()
    warnings.showwarning = _python_shows


def warning_counts() -> dict[str, int]:
    """How often each warning came up so far, by id; those without one by the beginning of their text."""
    return dict(_counted)


def warning_summary() -> str:
    """`3 warnings: DAT06 x2, "odd"`, or nothing if there were none."""
    total = sum(_counted.values())
    if not total:
        return ""
    listed = (name if count == 1 else f"{name} x{count}" for name, count in sorted(_counted.items()))
    return f"{total} warning{'s' * (total != 1)}: {', '.join(listed)}"


class Quiet(logging.Filter):
    """Drops `NOISE`."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not any(re.match(noise.pattern, record.getMessage()) for noise in NOISE)


class Once(logging.Filter):
    """Lets a warning or note through unless the very same text and numbers came before; counts the warnings.

    An indented line belongs to the message before it, and is let through as that was.
    """

    def __init__(self) -> None:
        super().__init__()
        self._fresh = True

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        kind, name = _identity(text)
        if kind == "error" or (kind is None and record.levelno != logging.WARNING):
            return True
        if text.startswith(" "):
            return self._fresh
        if kind != "note":
            _counted[name or _beginning(text)] += 1
        self._fresh = text not in _said
        _said.add(text)
        return self._fresh


class Console(logging.Handler):
    """Messages alone, on the standard output; above a progress bar if there is one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.addFilter(Once())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            stream = sys.stdout
            text = CONTROL.sub("?", as_started(self.format(record)))
            if _coloured(stream):
                text = _paint(text, record)
            encoding = getattr(stream, "encoding", None) or "utf-8"
            text = text.encode(encoding, "replace").decode(encoding)
            bars = sys.modules.get("tqdm")
            if bars is not None and stream.isatty():
                bars.tqdm.write(text, file=stream)
            else:
                stream.write(text + "\n")
                stream.flush()
        except OSError:  # nobody reads any more (`| head`, a closed terminal), and `console.log` has it
            pass
        except (ValueError, TypeError, LookupError, AttributeError):  # words and their values do not go together
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        """The message; its traceback only where LUN_DEBUG asks for it, since `console.log` has it."""
        if os.environ.get("LUN_DEBUG") == "1":
            return super().format(record)
        text = record.getMessage()
        unnamed = record.levelno >= logging.WARNING and _identity(text)[0] is None and not text.startswith(" ")
        return f"{'error' if record.levelno >= logging.ERROR else 'warning'}: {text}" if unnamed else text


class Memory(logging.Handler):
    """Keeps records until there is a run directory."""

    def emit(self, record: logging.LogRecord) -> None:
        _early.append(record)


class LogFile(logging.FileHandler):
    """`console.log`. A disk that is full costs its lines, which is logged once, and neither the run nor a traceback."""

    lost = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.lost:
            self.lost = True
            logging.getLogger(__name__).warning("%s cannot be written: %s", self.baseFilename, error.strerror)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def _to_file(run_directory: Path, rank: int) -> logging.Handler:
    run_directory.mkdir(parents=True, exist_ok=True)
    name = "console.log" if rank == 0 else f"console.rank{rank}.log"
    handler = LogFile(run_directory / name, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    for record in _early:
        handler.emit(record)
    _early.clear()
    write_crashes_into(handler.stream)
    return handler


def _unburden_libraries() -> None:
    """Let messages of libraries reach our handlers, once: several add a handler of their own when imported."""
    for name in LIGHTNING:
        theirs = logging.getLogger(name)
        theirs.propagate = True
        vars(theirs)["addHandler"] = partial(_refuse_handler, theirs)
    for logger in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and logger.propagate:
            logger.handlers = [h for h in logger.handlers if type(h) is not logging.StreamHandler]


def _refuse_handler(logger: logging.Logger, handler: logging.Handler) -> None:
    """In the place of `addHandler`: Lightning adds one to the console when it is imported, which may be any time."""
    if type(handler) is not logging.StreamHandler:
        logging.Logger.addHandler(logger, handler)


def _detach() -> None:
    write_crashes_into(None)
    for handler in _handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()
    _handlers.clear()


def _identity(text: str) -> tuple[str | None, str | None]:
    """(kind, id) of a message such as `warning[DAT06]: ...`, (kind, None) of `note: ...`, (None, None) of any other."""
    match = ID.match(text)
    return (match[1], match[2]) if match else (None, None)


def _beginning(text: str) -> str:
    """What stands for a warning without an id where warnings are counted; its numbers may differ each time."""
    first = re.sub(r"\d+(\.\d+)?", "#", text.removeprefix("warning: ").partition("\n")[0])
    return f'"{first if len(first) <= LONGEST_NAME else first[: LONGEST_NAME - 1] + "…"}"'


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _paint(text: str, record: logging.LogRecord) -> str:
    kind, colon, rest = text.partition(":")
    colour = COLOURS.get(kind.partition("[")[0])
    return f"{colour}{kind}{PLAIN}{colon}{rest}" if colour and colon else text


def _log_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """A Python warning as a message, without the source line that raised it."""
    logging.getLogger("py.warnings").warning("%s", message)


def to_file_alone(text: str) -> None:
    """Write a message to `console.log` only: the console has it already."""
    record = logging.LogRecord("lun", logging.ERROR, __file__, 0, "%s", (text,), None)
    for handler in _handlers:
        if isinstance(handler, logging.FileHandler):
            handler.emit(record)
