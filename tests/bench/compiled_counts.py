"""How many launches compiled blocks save: those in the code that Inductor writes, against the blocks as written.

With CUDA graphs a pass of a block, or of the network, is one launch, after one that copies what it is given.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import program  # noqa: F401  # puts what is measured on the path
import torch
import torch._functorch.config as functorch_config
from small_model import Recipe
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ldm.diffusion.conditioning import Conditioning
from ldm.modules.networks.unet import UNet

NO_KERNEL = (
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "detach",
    "alias",
    "_unsafe_view",
)
CALL = r"^ +(?:\w+ = )?(?:{})\("
GENERATED = re.compile(CALL.format(r"cpp_fused\w*|triton_\w*\.run"), re.MULTILINE)
LIBRARIES = re.compile(CALL.format(r"extern_kernels\.\w+|torch\.ops\.[\w.]+"), re.MULTILINE)
"""Lines of Inductor's Python that launch something: a kernel of its own, or one of a library."""
REPLAYED = 4
"""Launches of a block, or of the network, in a step of CUDA graphs, forward and backward."""


class Calls(NamedTuple):
    """Launches in code that Inductor wrote: of its own kernels, and of libraries'."""

    generated: int = 0
    libraries: int = 0

    def plus(self, other: "Calls", times: int = 1) -> "Calls":
        return Calls(*(one + times * another for one, another in zip(self, other, strict=True)))


class Saved(NamedTuple):
    """Launches of a step that compiled blocks save, as they are, as CUDA graphs, and as one of the whole network; what
    is left within the first."""

    compiled: int
    replayed: int
    whole: int
    within: Calls


def computes(func: Any) -> bool:
    """Whether an operation of aten launches something."""
    return not (func.is_view or func._schema.name.removeprefix("aten::") in NO_KERNEL)


class Operations(TorchDispatchMode):
    """Counts operations that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += computes(func)
        return func(*args, **(kwargs or {}))


class Written:
    """A backend of torch.compile: Inductor's, which counts the launches in what it wrote each time that runs."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.__name__ = "counted_inductor"

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(graph, inputs, inner_compile=self._compiled)

    def _compiled(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner

        made = compile_fx_inner(graph, inputs, **settings)
        called, code = made.current_callable, made.source_code.partition("def call(")[2]
        calls = Calls(len(GENERATED.findall(code)), len(LIBRARIES.findall(code)))

        def counted(*arguments: Any) -> Any:
            self.calls = self.calls.plus(calls)
            return called(*arguments)

        made.current_callable = counted
        return made


class One(nn.Module):
    """A block as a network of its own."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.repeated_blocks = (type(block),)
        self.block = block


def saved(model: Path, recipe: Recipe) -> Saved:
    """Launches of a step that compiling the blocks of the UNet in `model` saves.

    One block of each kind is compiled, since launches do not depend on widths, and its kernels do nothing when they are
    called, since a C++ compiler would take most of the time.
    """
    from ldm.modules.regional_compilation import compile_blocks

    network = UNet(ckpt_path=str(model)).train()
    given = inputs(network, recipe)
    network_passes = operations_of(passes(network, *whole(recipe)))
    kinds: dict[str, list[nn.Module]] = {}
    for block in given:
        kinds.setdefault(str([(name, type(part)) for name, part in block.named_modules()]), []).append(block)
    written, within = 0, Calls()
    without_cache = functorch_config.patch(enable_autograd_cache=False)  # what it holds goes by no backend
    with without_cache, patch("torch._inductor.async_compile.AsyncCompile.cpp_pybinding", lambda *_: lambda *_: None):
        for blocks in kinds.values():
            act = passes(blocks[0], *given[blocks[0]])
            written += len(blocks) * operations_of(act)
            backend = Written()
            compile_blocks(One(blocks[0]), backend=backend)  # type: ignore[arg-type]  # a backend may be a callable
            act()
            backend.calls = Calls()
            act()
            within = within.plus(backend.calls, len(blocks))
    return Saved(written - sum(within), written - len(given) * REPLAYED, network_passes - REPLAYED, within)


def operations_of(act: Callable[[], object]) -> int:
    with Operations() as operations:
        act()
    return operations.count


def whole(recipe: Recipe) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the network gets: (arguments, keyword arguments)."""
    x = torch.randn(recipe.batch, 4, recipe.size // 8, recipe.size // 8)
    context = Conditioning(context=torch.randn(recipe.batch, 77, recipe.context))
    return (x, torch.ones(recipe.batch).long(), context), {}


def inputs(network: UNet, recipe: Recipe) -> dict[nn.Module, tuple[Any, Any]]:
    """What each repeated block of the network gets in a pass: (arguments, keyword arguments)."""
    given: dict[nn.Module, tuple[Any, Any]] = {}

    def note(block: nn.Module, args: Any, kwargs: Any) -> None:
        given[block] = tree_map(_leaf, (args, kwargs))

    blocks = [module for module in network.modules() if isinstance(module, network.repeated_blocks)]
    hooks = [block.register_forward_pre_hook(note, with_kwargs=True) for block in blocks]
    args, kwargs = whole(recipe)
    network(*args, **kwargs)
    for hook in hooks:
        hook.remove()
    return given


def _leaf(one: Any) -> Any:
    floating = isinstance(one, Tensor) and one.is_floating_point()
    return one.detach().requires_grad_(one.requires_grad) if floating else one


def passes(block: nn.Module, args: Any, kwargs: Any) -> Callable[[], object]:
    """Forward and backward of a block, and nothing else."""
    wanted = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor) and one.requires_grad]
    wanted += list(block.parameters())
    ones = torch.ones_like(block(*args, **kwargs))
    return lambda: torch.autograd.grad(block(*args, **kwargs), wanted, ones)
