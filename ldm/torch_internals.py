"""What torch does not promise and this program needs, in one place. Tried with torch 2.13.

Each function has a test of what it means, so that a torch in which it means something else is noticed there.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode, unset_fake_temporarily
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["DataDependentOutputException", "FakeTensorMode", "TorchDispatchMode", "tree_leaves"]
__all__ += ["unset_fake_temporarily"]

MOST_GRAPHS = 1 << 16
"""Of one function, far more than a network has."""


def tensor_without_memory(kind: type[Tensor], shape: Sequence[int], dtype: torch.dtype) -> Any:
    """An instance of a subclass of `Tensor` with this shape, on the CPU, that has no elements of its own."""
    make: Any = Tensor._make_wrapper_subclass
    return make(kind, torch.Size(shape), dtype=dtype, device="cpu")


def as_a_plain_tensor() -> AbstractContextManager[None]:
    """Within it, functions of torch treat a subclass of `Tensor` as `Tensor` itself."""
    within: AbstractContextManager[None] = torch._C.DisableTorchFunctionSubclass()
    return within


def writes_into_its_arguments(operation: Any) -> bool:
    """Whether an operation that `__torch_dispatch__` is given writes into a tensor, as `aten.add_` does."""
    return bool(operation._schema.is_mutable)


def identity_of(storage: torch.UntypedStorage) -> int:
    """A number that only this memory has as long as it lives; fake tensors, which have no address, included."""
    return int(storage._cdata)


class ModuleEntries(NamedTuple):
    """What a module itself holds by name, None at an empty place; `transient` names buffers that are not stored."""

    parameters: Mapping[str, nn.Parameter | None]
    buffers: Mapping[str, Tensor | None]
    children: Mapping[str, nn.Module | None]
    transient: Set[str]


def entries_of(module: nn.Module) -> ModuleEntries:
    """What a module itself holds: torch's own iterators leave out empty places and what they have seen before."""
    return ModuleEntries(
        module._parameters, module._buffers, module._modules, frozenset(module._non_persistent_buffers_set)
    )


def apply_to_tensors(module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
    """Put `function` of each parameter, gradient and buffer below `module` in its place, as `Module.to` does."""
    module._apply(function)


def ignore_moves(module: nn.Module) -> None:
    """Let `to`, `cuda` and the like, of a module or of one around it, leave its tensors as they are."""
    module._apply = lambda fn, recurse=True: module  # type: ignore[method-assign]


def keep_own_tensors(module: nn.Module) -> None:
    """Let `to`, `cuda` and the like leave the module's own tensors as they are, and move those of its children."""

    def apply(fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        for child in module.children() if recurse else ():
            child._apply(fn)
        return module

    module._apply = apply  # type: ignore[method-assign]


def set_last_rates(schedule: LRScheduler, rates: Sequence[float]) -> None:
    """What `schedule.get_last_lr()` returns until its next step."""
    schedule._last_lr = list(rates)


def scales_inside_its_step(optimizer: Optimizer) -> bool:
    """Whether an optimizer divides gradients by float16's loss scale in its own step, as torch's fused ones do."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def can_leave_out(optimizer: Optimizer) -> bool:
    """Whether an optimizer heeds `leave_out`: torch's Adam and AdamW, where all that they step is stepped fused."""
    return type(optimizer) in (Adam, AdamW) and all(group["fused"] for group in optimizer.param_groups)


def leave_out(optimizer: Optimizer, flag: Tensor | None) -> None:
    """Let steps change neither weights nor state where `flag`, a scalar on their device, is 1.0; None takes it back.

    The kernels look at it themselves, as they do for float16's scaler, so that the host need not know.
    """
    if flag is None:
        vars(optimizer).pop("found_inf", None)
    else:
        vars(optimizer)["found_inf"] = flag


def flag_not_finite(numbers: Tensor, flag: Tensor, one: Tensor) -> None:
    """Write 1.0 into `flag`, a scalar of 0.0, if any of the numbers, of any shape, is not finite; all in float32.

    In one launch, by the kernel that looks at scaled gradients, which it divides by `one`, a scalar of 1.0.
    """
    torch._amp_foreach_non_finite_check_and_unscale_([numbers], flag, one)


def keep_every_graph() -> None:
    """Let `torch.compile` keep as many graphs as there are shapes of blocks, and none for pictures that are square.

    By default it runs the ninth of a function as written, without a word, and what it saw first of equal sides it
    compiles again for others. Under DDP it would cut graphs where gradients are reduced, for the sake of models that
    are compiled whole: a block is far smaller than what is reduced at a time.
    """
    dynamo: Any = import_module("torch._dynamo.config")
    dynamo.recompile_limit = dynamo.accumulated_recompile_limit = MOST_GRAPHS
    dynamo.optimize_ddp = False
    shapes: Any = import_module("torch.fx.experimental._config")
    shapes.use_duck_shape = False


def keep_activations(budget: float) -> None:
    """Let what `torch.compile` makes from now on keep this share of activations, 0 to 1, for the backward pass.

    At 0 it computes all of a graph again there, at 1 only what costs no more than reading it. Graphs that were made
    for another share are forgotten.
    """
    functorch: Any = import_module("torch._functorch.config")
    if budget != functorch.activation_memory_budget:
        import_module("torch._dynamo").reset()
    functorch.activation_memory_budget = budget


def inductors_own_folder() -> str:
    """Where Inductor keeps compiled code by itself. Parts of torch write it into the environment when imported."""
    folders: Any = import_module("torch._inductor.runtime.cache_dir_utils")
    return os.path.abspath(folders.default_cache_dir())


def keep_headers(folder: Path) -> None:
    """Let Inductor keep precompiled headers there, which otherwise lie in its own folder, whatever the environment."""
    codecache: Any = import_module("torch._inductor.codecache")
    codecache._HEADER_DIR = str(folder)
    codecache._HEADER_LOCK_DIR = str(folder / "locks")


def end_workers(batches: Iterator[Any], seconds: float) -> None:
    """End the processes that a `DataLoader`'s iterator reads with; those that do not end in time are killed.

    torch itself waits five seconds for each, one after the other, and then sends SIGTERM, which a worker may ignore.
    """
    workers = getattr(batches, "_workers", ())  # without workers there is no such list
    if not workers or batches._shutdown:  # type: ignore[attr-defined]
        return

    def kill() -> None:
        for worker in workers:
            worker.kill()

    late = threading.Timer(seconds, kill)
    late.daemon = True
    with suppress(RuntimeError):  # torch's for a child that was killed; or the interpreter ends, and starts no thread
        late.start()
        batches._shutdown_workers()  # type: ignore[attr-defined]
    late.cancel()
