"""How a run ends for the shell: faults become messages and exit codes, bugs become a crash report."""

import multiprocessing
import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ldm.errors import Fault
from ldm.shell import quoted
from lun.console import fault_report, log
from lun.console.blame import fault_of
from lun.console.collecting import leave_uncollected
from lun.console.disk import disk_fault
from lun.console.early_signals import ended_by_signals
from lun.console.environment import OURS, missing
from lun.console.fault_flags import with_flags
from lun.loop.deadline import END_SECONDS, end_within
from lun.run_dir.directory import VARIABLE
from lun.run_dir.run_json import versions

INTERRUPTED = 130


def reported(program: Callable[[], int], words: Sequence[str]) -> int:
    """Run `program` and return its exit code; whatever it raises is put in words."""
    try:
        with ended_by_signals():
            return program()
    except BrokenPipeError:
        return 0  # whoever read has seen enough, as `| head` has
    except SystemExit as left:  # a signal before there was anything to save
        return left.code if isinstance(left.code, int) else fault_report.OUR_FAULT
    except Fault as fault:
        return _shown([fault])
    except ExceptionGroup as group:
        faults = [error for error in group.exceptions if isinstance(error, Fault)]
        return _shown(faults) if len(faults) == len(group.exceptions) else _bug(group, words)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        return _bug(error, words) if package in OURS else _shown([missing(package)])
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        of_disk = disk_fault(error)
        return _shown([of_disk]) if of_disk else _bug(error, words)
    except Exception as error:  # the one place where everything ends up: an unforeseen error is a bug of ours
        return _bug(error, words)
    finally:
        log.forget()
        for name in (VARIABLE, "LUN_SEED", "LUN_START", "LUN_HOLDER"):
            os.environ.pop(name, None)


def leave(code: int) -> NoReturn:
    """End the process. Beside other ranks a failure does so at once: tidying up would wait for what they never send."""
    for worker in multiprocessing.active_children() if code else ():
        worker.kill()  # a loader's, deaf to SIGTERM (`guard_worker`): Python would wait for it at its own end
    if code == INTERRUPTED:
        end_within(END_SECONDS, code)
    _flush()
    leave_uncollected()
    distributed = sys.modules.get("torch.distributed")
    if code and distributed is not None and distributed.is_available() and distributed.is_initialized():
        os._exit(code)
    sys.exit(code)


def _flush() -> None:
    """Write out what was printed; where nobody reads any more (`| head`, a closed terminal) the rest goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _shown(faults: list[Fault]) -> int:
    fault_report.show(faults)
    for fault in faults:
        log.to_file_alone(with_flags(fault.render()))
    if os.environ.get("LUN_DEBUG") == "1":
        traceback.print_exc()
    return fault_report.exit_code_of(faults)


def _bug(error: BaseException, words: Sequence[str]) -> int:
    if fault := fault_of(error):
        log.to_file_alone("".join(traceback.format_exception(error)))
        return _shown([fault])
    text = "".join(traceback.format_exception(error))
    log.to_file_alone(text)
    saved = _save_crash(text, words)
    summary = str(error).splitlines()[0] if str(error) else "no message"
    fault_report.show(
        [Fault("BUG", f"unexpected {type(error).__name__}: {summary}", why="this is a fault of the program", fix=saved)]
    )
    if os.environ.get("LUN_DEBUG") == "1" or VARIABLE not in os.environ:
        print(text)
    return fault_report.OUR_FAULT


def _save_crash(text: str, words: Sequence[str]) -> str:
    """Write what a bug report needs into the run directory; before there is one the traceback is shown instead."""
    run = os.environ.get(VARIABLE)
    if not run:
        return "the traceback follows; attach it to a bug report"
    path = Path(run) / "crash.txt"
    facts = [f"{name} {number}" for name, number in versions().items()] + [platform.platform()]
    try:
        path.write_text("\n".join([quoted(*words), *facts, "", text]), encoding="utf-8")
    except OSError as failure:
        return f"{path} could not be written ({failure.strerror}); LUN_DEBUG=1 shows the traceback"
    return f"attach {path} to a bug report; it holds versions, command line and traceback"
