"""Regional compilation: blocks of a network compiled by torch.compile, each by itself, for the passes that learn.

For CUDA graphs of one size a network is one block: what the host does around each of many takes longer than they save.
"""

import atexit
import importlib.util
import os
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.place import cache_root, private_folder
from ldm.torch_internals import inductors_own_folder, keep_activations, keep_every_graph, keep_headers

WHERE = "lightning.callbacks: CompiledBlocks"
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"
COMPILERS = {"cpu": ("CXX", "C++", ("g++",)), "cuda": ("CC", "C", ("gcc", "clang"))}
"""By device: the variable that names the compiler, its language, and the programs that are looked for."""


def compile_blocks(
    model: nn.Module,
    dynamic: bool = True,
    activation_memory_budget: float = 1.0,
    cuda_graphs: bool = False,
    convolutions: bool = True,
    backend: str = "inductor",
) -> int:
    """Compile the blocks of the networks in `model` that name the classes of these; returns how many graphs there are.

    Where gradients are recorded a block runs as compiled, in both passes of gradient checkpointing; samples, validation
    and previews, whose sizes are their own, run as they are written. Blocks of one shape share a graph. Names of
    modules and tensors stay, as do hooks around a block; adapters within it are part of its graph.

    dynamic                   sizes of pictures and batches are symbols: one graph serves them all. Without, each size
                              has its own, and for CUDA graphs each network as a whole is one: with symbols Inductor
                              writes code for blocks, but not for all of a UNet (torch 2.13)
    activation_memory_budget  share of a block's activations, 0 to 1, that is kept for the backward pass; the others
                              are computed again there, cheapest first
    cuda_graphs               a GPU replays the kernels of a graph's pass as one; each step then has to begin with
                              `torch.compiler.cudagraph_mark_step_begin`, since it is made of many graphs
    convolutions              whether blocks that hold any are compiled, too
    Raises `Fault` CFG08 where no network names its blocks.
    """
    blocks = list(networks_with_blocks(model) if cuda_graphs and not dynamic else repeated_blocks(model))
    if not blocks:
        raise no_blocks(type(model).__name__)
    if not convolutions:
        blocks = [block for block in blocks if not any(isinstance(part, nn.Conv2d) for part in block.modules())]
    keep_every_graph()
    keep_activations(activation_memory_budget)
    options = _options(cuda_graphs) if backend == "inductor" else None
    for block in blocks:
        _say_alike(block)
        _take_turns(block, torch.compile(block.forward, dynamic=dynamic, backend=backend, options=options))
    return len(blocks)


def repeated_blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The blocks of the networks in `model` that name the classes of these: what is called and compiled as a whole."""
    for network in networks_with_blocks(model):
        kinds: Any = network.repeated_blocks
        yield from (module for module in network.modules() if isinstance(module, kinds))


def networks_with_blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The networks in `model`, itself included, that name the classes of their blocks in `repeated_blocks`."""
    return (network for network in model.modules() if hasattr(network, "repeated_blocks"))


def no_blocks(name: str) -> Fault:
    """CFG08: nothing in the model or network of this name can be compiled."""
    why = f"no network of {name} names the classes of its blocks in `repeated_blocks`"
    return Fault("CFG08", "there are no blocks to compile", where=WHERE, why=why, fix="leave the callback out")


def require_compiler(device: str) -> None:
    """Raise `Fault` DEP01 without what Inductor makes code with on `device` (cpu, cuda), CFG08 for another device."""
    if device not in COMPILERS:
        fix = f"train on {' or '.join(COMPILERS)}, or leave the callback out"
        raise Fault("CFG08", f"blocks cannot be compiled for {device}", where=WHERE, fix=fix)
    variable, language, usual = COMPILERS[device]
    given = shlex.split(os.environ.get(variable, ""))[:1] or usual
    if not any(shutil.which(program) for program in given):
        fix = f"sudo apt install g++, or {variable}=PROGRAM"
        raise _missing(f"a {language} compiler", f"there is no {' or '.join(given)}", fix)
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        raise _missing("Python's headers", f"{header} is not there", "sudo apt install python3-dev")
    if device == "cuda" and importlib.util.find_spec("triton") is None:
        raise _missing("Triton", "the package triton is not installed", install_line("triton"))


def keep_compiled() -> None:
    """Let Inductor keep its code in the program's cache, unless the environment names another place.

    Code that others could have put there is not taken: where they can write, each process compiles anew. The folder
    that torch itself writes into the environment names no place: it lies among those of all users.
    """
    own = inductors_own_folder()
    if os.environ.get(INDUCTOR_CACHE, own) != own:
        return
    kept = cache_root() / "inductor"
    if not private_folder(kept):
        kept = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
    os.environ[INDUCTOR_CACHE] = str(kept)
    keep_headers(kept / "precompiled_headers")


def _missing(what: str, why: str, fix: str) -> Fault:
    return Fault("DEP01", f"blocks cannot be compiled without {what}", where=WHERE, why=why, fix=fix)


def _options(cuda_graphs: bool) -> dict[str, Any]:
    """Dropout draws the numbers that it draws uncompiled, so that a run repeats with compiled blocks and without."""
    return {"fallback_random": True, "triton.cudagraphs": cuda_graphs}


def _say_alike(block: nn.Module) -> None:
    """diffusers scales by 1 in some blocks and by 1.0 in others, for which equal blocks would be compiled twice."""
    if "output_scale_factor" in vars(block):
        vars(block)["output_scale_factor"] = float(vars(block)["output_scale_factor"])


def _take_turns(block: nn.Module, compiled: Callable[..., Any]) -> None:
    written = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (compiled if torch.is_grad_enabled() else written)(*args, **kwargs)

    block.forward = forward  # hooks around the block stay outside of its graph
