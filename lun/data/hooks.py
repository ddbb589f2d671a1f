"""What data sets of 2022 expect to be called before they are read: `on_prepare_data`, then `on_setup`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ldm.operating_system import lock_open_file
from ldm.place import cache_root


def call_hooks(dataset: Any) -> None:
    """Call both where the data set has them, once.

    Processes of one machine prepare one after the other, so that the first may download and the others find it done.
    """
    if hasattr(dataset, "on_prepare_data"):
        with _one_at_a_time():
            dataset.on_prepare_data()
    if hasattr(dataset, "on_setup"):
        dataset.on_setup()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "prepare.lock").open("w") as lock:
        lock_open_file(lock)
        yield
