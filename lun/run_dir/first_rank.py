"""What rank 0 decides and all ranks have to know before they are a group: the run directory, a seed that was drawn."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore

from lun.run_dir.ranks import process_rank

PATIENCE = timedelta(minutes=30)  # the others may reach the question long before rank 0 has read its data


@dataclass
class FirstRank:
    """Sends what rank 0 decided, by the way that reaches the others.

    Those that Lightning starts inherit rank 0's environment. Those of torchrun, SLURM or another machine do not, so
    they ask a store at the address at which the group will form.

    meets_at   (address, port) of that store; None where all ranks are started from rank 0
    """

    meets_at: tuple[str, int] | None = None
    _store: Store | None = field(default=None, repr=False)

    def decides(self, name: str, choose: Callable[[], str]) -> str:
        """What `choose` returned on rank 0, on all ranks; with `LUN_<NAME>` in the environment of another, that."""
        if distributed.is_initialized():
            return self._in_group(choose)
        variable = f"LUN_{name.upper()}"
        if process_rank() == 0:
            os.environ[variable] = chosen = choose()
            if self.meets_at:
                self._open(*self.meets_at).set(name, chosen)
            return chosen
        if decided := os.environ.get(variable):
            return decided
        return self._open(*self.meets_at).get(name).decode() if self.meets_at else choose()

    def _in_group(self, choose: Callable[[], str]) -> str:
        shared = [choose() if distributed.get_rank() == 0 else ""]
        distributed.broadcast_object_list(shared)
        return shared[0]

    def _open(self, address: str, port: int) -> Store:
        if self._store is None:
            # torchrun keeps a store of its own at this address; else rank 0 does, and its group will share it.
            keeps = process_rank() == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
            store = TCPStore(address, port, None, keeps, PATIENCE, wait_for_workers=False, multi_tenant=True)
            self._store = PrefixStore(f"lun/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        return self._store
