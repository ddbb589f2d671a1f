"""Networks whose weights come from elsewhere: built without memory for them and without reading or drawing any."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

FILLING = {"constant_", "fill_", "kaiming_uniform_", "normal_", "trunc_normal_", "uniform_", "zero_"}
"""Functions of tensors and of `torch.nn.init` that initialisers end in: by name, for transformers replaces some."""


@contextmanager
def meta_init() -> Iterator[None]:
    """Within it, modules get parameters on the meta device, and those of this project read no weights.

    Buffers that are not stored (positions, schedules) are real, because they would never be filled. Building Stable
    Diffusion takes a second so, and most of a minute if it draws random weights that are replaced at once.
    """
    hook = register_module_parameter_registration_hook(_without_memory)  # type: ignore[arg-type]  # may replace
    try:
        with _WithoutValues():
            yield
    finally:
        hook.remove()


class _WithoutValues(TorchFunctionMode):
    """Leaves out what would fill a tensor without memory: nothing is drawn there, but finding out costs as much."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func.__name__ in FILLING and (tensor := args[0] if args else named["tensor"]).is_meta:
            return tensor
        return func(*args, **named)


def is_meta_init() -> bool:
    """Whether a module that is built here and now gets parameters without memory, and so leaves its weights alone."""
    asked = nn.Module()
    asked.register_parameter("weight", nn.Parameter(torch.empty(0)))
    return next(asked.parameters()).is_meta


def _without_memory(module: nn.Module, name: str, parameter: Tensor) -> nn.Parameter | None:
    if parameter.is_meta:
        return None  # as it is
    return nn.Parameter(parameter.data.to("meta"), requires_grad=parameter.requires_grad)


def give_memory(module: nn.Module) -> None:
    """Uninitialised memory for tensors that have none: whoever calls this fills every one of them."""
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            if parameter.is_meta:
                memory = torch.empty_like(parameter, device=torch.get_default_device())
                owner.register_parameter(name, nn.Parameter(memory, requires_grad=parameter.requires_grad))
        for name, buffer in list(owner.named_buffers(recurse=False)):
            if buffer.is_meta:
                setattr(owner, name, torch.empty_like(buffer, device=torch.get_default_device()))
