"""One process of `support.ranks.Ranks`: joins the group, then runs cases until its parent goes away."""

import faulthandler
import importlib
import importlib.util
import os
import pickle
import signal
import sys
import traceback
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import torch
from support.unflushed import leave_unflushed
from torch import distributed

DEADLINE = float(os.environ["RANKS_DEADLINE"])  # seconds for a case, as its parent waits for it
TIMEOUT = timedelta(seconds=DEADLINE / 5)  # of any collective: where ranks part ways, a case fails instead of hanging
NEEDED = ("lun.run.session", "ldm.models.diffusion.ddpm", "ldm.modules.networks.unet")


@cache
def module_at(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"case_{abs(hash(path))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer(path: str, name: str, arguments: tuple[Any, ...]) -> tuple[str | None, Any]:
    faulthandler.dump_traceback_later(DEADLINE - 10, exit=True)
    try:
        return None, getattr(module_at(path), name)(*arguments)
    except BaseException:
        return traceback.format_exc(), None
    finally:
        faulthandler.cancel_dump_traceback_later()


def tell_of_crashes() -> None:
    """A library's crash leaves the frames of each thread: Python's, then, if the heap still allows it, those of C."""
    if sys.platform == "linux":
        torch._C._set_print_stack_traces_on_fatal_signal(True)
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))  # which torch would take for a crash
    faulthandler.enable()


def serve(end: Connection) -> None:
    tell_of_crashes()
    torch.set_num_threads(1)
    leave_unflushed()
    backend = os.environ.get("RANKS_BACKEND", "gloo")
    if "nccl" in backend:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group(backend, timeout=TIMEOUT)
    for name in NEEDED:
        importlib.import_module(name)
    while True:
        try:
            request = pickle.loads(end.recv_bytes())
        except EOFError:
            return
        end.send_bytes(pickle.dumps(answer(*request)))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)  # destructors of process groups may wait for each other
