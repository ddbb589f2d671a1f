"""Anything at all as what the program reads: cases drawn by hypothesis, each within bounds of time and memory.

Cases run in one fork of this process: neither a loop within C nor a crash of the interpreter takes the tests along.
"""

import faulthandler
import io
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW, MANY = 60, int(os.environ.get("LUN_FUZZ_CASES", "3000"))
COUNTS: list[Any] = [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
SECONDS, MEMORY = 20, 4 << 30
"""What one case may take: seconds of the processor (whatever else runs beside it), bytes beyond what is there."""
WAITING = 600
"""What one case may take on the clock, since a wait takes nothing of the processor."""
SHOWN = 8000
"""How much is told of a case that ends its process, in characters."""
ANSWERS = {0, 2, 3, 4, 5, 7, 8}
"""Every exit code but those of a bug, a stop and a divergence."""

# fmt: off
WORDS = st.sampled_from(
    [
        "target", "params", "model", "data", "lightning", "trainer", "callbacks", "unet_config", "???",
        "${model.params.monitor}", "${a.b}", "~x", "null", "lun.data.local.Local", "torch.nn.Linear",
        "ldm.modules.ema.LitEma", "os.system", "<<:", "&a", "*a", "!!python/name:os", "!x", "|", ">", "-", ":", "#",
    ]
)
# fmt: on
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    WORDS,
    st.integers(-2, 2),
    st.just("1e400"),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | WORDS, inner, max_size=3),
    max_leaves=8,
)
TORN = st.sampled_from(
    [b"", b"[", b"[" * 50_000, b'{"a":' * 20_000, b"9" * 5000, b"\x00", b"\xff\xfe", b"null", b"3", b"[]"]
)
"""Texts that are no whole JSON or YAML, or none of a reasonable depth."""


def answer(command: Callable[[list[str]], int], words: list[str]) -> tuple[int, str]:
    """Exit code and all that was said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = command(words)
    return code, said.getvalue()


def require_answer(command: Callable[[list[str]], int], words: list[str]) -> None:
    """An exit code that is not a bug's, faults in words, no traceback."""
    code, said = answer(command, words)
    assert code in ANSWERS, said
    assert "Traceback" not in said, said
    assert (code == 0) == ("error[" not in said and ": error: " not in said), said  # argparse has words of its own


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of nested maps and lists."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """`value` with another at a place; where the way there is gone, as it is."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict) and key in value:
        return {**value, key: put(value[key], tuple(rest), new)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], put(value[key], tuple(rest), new), *value[key + 1 :]]
    return value


def fuzz(count: int, cases: st.SearchStrategy[Any], check: Callable[[Any], object]) -> None:
    """`check` on `count` cases, in a fork; its first failure fails the test. Says how many there were."""
    tried = in_a_fork(lambda begin: _checked(count, cases, check, begin))
    assert tried >= min(count, 10), f"only {tried} cases"


def in_a_fork(work: Callable[[Callable[[object], None]], object]) -> int:
    """Cases of `work`, which is given what to call with each of them first; its failure, or its end, fails the test."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the runner's own has no meaning here
            faulthandler.register(signal.SIGPROF, write, chain=True)  # which line it is that takes so long
            work(partial(_begin, write))
            code = 0
        except BaseException:  # whatever it is, the parent tells it
            os.write(write, traceback.format_exc()[-20_000:].encode(errors="replace"))
        finally:
            os._exit(code)  # never on into the tests of the parent
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    tried = told.count("\a")
    print(f"{tried} cases")
    last = told.rpartition("\a")[2]
    assert not os.WIFSIGNALED(status), f"case {tried} ended by signal {os.WTERMSIG(status)}: {last}"
    assert status == 0, last
    return tried


def _begin(pipe: int, case: object) -> None:
    """Tell of a case before it is tried, and end this process if it takes too long."""
    # Not RLIMIT_CPU: its clock counts ticks, and runs ahead of getrusage by as much as a case may take in ten minutes.
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(WAITING)
    os.write(pipe, b"\a" + repr(case)[:SHOWN].encode(errors="replace"))


def _checked(
    count: int, cases: st.SearchStrategy[Any], check: Callable[[Any], object], begin: Callable[[object], None]
) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(cases)
    def one(case: Any) -> None:
        begin(case)
        check(case)

    one()
