"""Networks whose weights come from elsewhere: built without memory for them and without reading or drawing any."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn

_META_INIT: ContextVar[bool] = ContextVar("meta_init", default=False)


@contextmanager
def meta_init() -> Iterator[None]:
    """Within it, modules get parameters on the meta device, and those of this project read no weights.

    Buffers that are not stored (positions, schedules) are real, because they would never be filled. Building Stable
    Diffusion takes a second so, and most of a minute if it draws random weights that are replaced at once.
    """
    register = nn.Module.register_parameter

    def without_memory(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and not param.is_meta:
            param = nn.Parameter(param.data.to("meta"), requires_grad=param.requires_grad)
        register(self, name, param)

    token = _META_INIT.set(True)
    nn.Module.register_parameter = without_memory  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
        _META_INIT.reset(token)


def is_meta_init() -> bool:
    """Whether a module that is being built should leave its weights alone."""
    return _META_INIT.get()


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
