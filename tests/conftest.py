"""What every test starts from: no network, one thread, and property tests that draw the same examples each time."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when a hub library is first imported

import pytest
import torch
from hypothesis import settings
from support.unflushed import leave_unflushed

from ldm import admission

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
leave_unflushed()
# A small run makes a hundred thousand objects beside the million of the libraries: by Python's own threshold of 700, a
# fifth of its time goes into looking for garbage among them.
gc.set_threshold(10_000, 10, 10)

# Behind `&` and under nohup these are ignored, and tests send them.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Indexes and caches of tests, and of the runs that they share, stay out of the home of whoever starts them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LUN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture(autouse=True)
def _trusting_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """A configuration may name what the test's own module declares, and nothing is trusted after it."""
    admission.grant((request.module.__name__,))
    yield
    admission.grant(())


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Sums depend on the number of threads, and equality to the bit needs a fixed one whatever ran before."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The folder that holds main.py."""
    return Path(__file__).resolve().parents[1]
