"""Worker processes: same bytes, deaf to the user's signals, faults come back whole."""

import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import sys
from itertools import islice

import pytest
import torch
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ldm.errors import Fault
from ldm.position import Position
from lun.data.keyed import Keyed
from lun.data.loader import Loader, guard_worker, loader_settings, lost_worker
from lun.data.order.position_sampler import Order, PositionBatchSampler, Window


class Noise:
    """Pictures of noise keyed by the slot; the caption tells the process's state, index 10 is broken."""

    def __len__(self) -> int:
        return 11

    def example(self, index, draws):
        if index == 10:
            raise Fault("DAT06", "cannot read image x.png", where="here", why="truncated", fix="remove it")
        ignored = all(
            signal.getsignal(number) is signal.SIG_IGN
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
        )
        image = torch.rand(4, 4, 3, generator=draws("flip"))
        return {"image": image, "caption": f"{os.getpid()} {ignored} {signal_at_parents_death()}"}


def signal_at_parents_death() -> int:
    """What Linux sends to this process when its parent ends (PR_GET_PDEATHSIG); 0: nothing."""
    number = ctypes.c_int()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(2, ctypes.byref(number))
    return number.value


def batches(workers: int, number: int) -> list[dict]:
    sampler = PositionBatchSampler(Order(11, 0, shuffle=False), Window(5), Position(), total_batches=9)
    return list(islice(Loader(Keyed(Noise(), 0), sampler, num_workers=workers), number))


@pytest.fixture(scope="module")
def from_workers() -> list[dict]:
    return batches(workers=2, number=2)


def test_workers_return_the_same_bytes_as_the_main_process(from_workers):
    for here, there in zip(batches(workers=0, number=2), from_workers, strict=True):
        assert torch.equal(here["image"], there["image"])
        assert torch.equal(here["slot"], there["slot"])


def test_workers_leave_stopping_to_the_main_process(from_workers):
    words = [caption.split() for batch in from_workers for caption in batch["caption"]]
    assert {ignored for _, ignored, _ in words} == {"True"}
    assert str(os.getpid()) not in {pid for pid, _, _ in words}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_workers_die_with_the_main_process(from_workers):
    ends = {caption.split()[2] for batch in from_workers for caption in batch["caption"]}
    assert ends == {str(int(signal.SIGKILL))}


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.parametrize(("parent", "code"), [(os.getpid(), 0), (0, 0), (1 << 30, 1)])
def test_a_worker_whose_parent_is_gone_ends_at_once(parent, code):
    worker = multiprocessing.get_context("fork").Process(target=guard_worker, args=(0, parent))
    worker.start()
    worker.join()
    assert worker.exitcode == code


def test_under_a_fork_server_the_parent_is_not_checked():
    def parent_of(method: str) -> int:
        sampler = PositionBatchSampler(Order(11, 0), Window(1), Position(), total_batches=1)
        loader = Loader(Keyed(Noise(), 0), sampler, num_workers=1, multiprocessing_context=method)
        return loader.worker_init_fn.keywords["parent"]

    assert (parent_of("spawn"), parent_of("forkserver")) == (os.getpid(), 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_fault_arrives_as_it_was_raised(workers):
    with pytest.raises(Fault) as caught:
        batches(workers, number=3)
    assert caught.value.render() == (
        "error[DAT06]: cannot read image x.png\n  where: here\n  why:   truncated\n  fix:   remove it"
    )


def test_a_fault_survives_the_way_between_processes():
    fault = Fault("DAT06", "what", where="where", why="why", fix="fix")
    assert pickle.loads(pickle.dumps(fault)).render() == fault.render()


def test_what_has_no_effect_is_told_and_left_out(caplog):
    with caplog.at_level(logging.INFO):
        assert loader_settings({"drop_last": True, "prefetch_factor": 4}, "here") == {"prefetch_factor": 4}
    assert caplog.messages == [
        "here: without effect: drop_last; no example is dropped, and the position decides the order"
    ]


def test_a_setting_that_the_position_decides_is_refused():
    with pytest.raises(Fault) as caught:
        loader_settings({"batch_size": 3}, "data.params.train.dataloader_params")
    assert caught.value.what == "unknown setting data.params.train.dataloader_params.batch_size"


class Dies:
    """Data whose third example ends whoever reads it."""

    def __len__(self) -> int:
        return 4

    def example(self, index: int, draws: object) -> dict[str, object]:
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"image": torch.zeros(4, 4, 3), "caption": "x"}


@pytest.fixture
def calm(monkeypatch):
    """torch's signal handler, which may raise anywhere in the test runner, knows no worker: the loop finds out alone.

    A dead one would stay known until its loader is collected, and whatever child ended next would raise its death.
    The loop looks for dead workers every 5 s, here oftener.
    """
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))
    register = signal_handling._set_worker_pids
    monkeypatch.setattr(signal_handling, "_set_worker_pids", lambda loader, pids: register(loader, ()))


def test_a_worker_that_is_killed_is_told_with_its_fix(calm):
    with pytest.raises(Fault, match="DAT12") as caught:
        list(Loader(Keyed(Dies(), 0), [[(0, 0)], [(1, 1)], [(2, 2)]], num_workers=1))
    assert "data.params.num_workers=0" in caught.value.fix


def test_what_torch_raises_from_its_signal_handler_is_known_for_a_lost_worker():
    fault = lost_worker(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."))
    assert fault is not None and fault.id == "DAT12" and "Killed" in fault.what
    assert lost_worker(RuntimeError("another")) is None


class Heavy(Dies):
    def example(self, index: int, draws: object) -> dict[str, object]:
        return {"image": torch.zeros(4, 4, 3), "caption": "x"}


def refuse_memory(*_: object) -> None:
    raise RuntimeError("unable to allocate shared memory(shm)")


def test_a_worker_that_gets_no_shared_memory_ends_at_once_instead_of_being_waited_for(monkeypatch, calm):
    monkeypatch.setattr("torch.multiprocessing.reductions.storage_from_cache", refuse_memory)
    monkeypatch.setattr(torch.UntypedStorage, "_share_fd_cpu_", refuse_memory)
    monkeypatch.setattr(torch.UntypedStorage, "_share_filename_cpu_", refuse_memory)
    with pytest.raises(Fault, match="DAT12"):
        list(Loader(Keyed(Heavy(), 0), [[(0, 0)], [(1, 1)]], num_workers=1))


class Hangs(Dies):
    """Its second example is never read."""

    def example(self, index: int, draws: object) -> dict[str, object]:
        if index == 1:
            os.read(os.pipe()[0], 1)
        return {"image": torch.zeros(4, 4, 3), "caption": "x"}


def test_a_worker_that_reads_for_ever_is_ended_with_the_iteration(monkeypatch):
    monkeypatch.setattr("lun.data.loader.END_SECONDS", 0.05)
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 200.0)  # after which torch would end it
    batches = iter(Loader(Keyed(Hangs(), 0), [[(0, 0)], [(1, 1)]], num_workers=1))
    next(batches)
    (worker,) = multiprocessing.active_children()
    del batches
    worker.join()
    assert worker.exitcode == -signal.SIGKILL, "torch's own way is to wait for it, then SIGTERM"
