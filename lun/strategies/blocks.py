"""Which modules of a network are gathered on their own, found by size and not by family."""

from collections.abc import Set
from dataclasses import dataclass, field

from torch import nn

from ldm.modules.regional_compilation import repeated_blocks


def blocks_of(module: nn.Module, size: int, whole: Set[nn.Parameter] = frozenset()) -> list[nn.Module]:
    """Members of lists of layers below `module` with at least `size` parameters, of which any train, inner ones first.

    Frozen parameters count, too, since below adapters they are what takes memory; those that stay `whole` do not.
    A member of a list is called as a whole, so that its weights can be gathered before and let go of after. What an
    inner block holds does not count for the one around it. A single layer is no block: what it returns may be written
    over in place, which loses the mark that gathers its weights for the backward pass. Nor is anything within a block
    that a network names in `repeated_blocks`: gathering would cut the graph into which that may be compiled.
    """
    search = _BlockSearch(size, whole, frozenset(repeated_blocks(module)))
    search.collect(module, in_list=False)
    return search.blocks


@dataclass
class _BlockSearch:
    """One walk through a network, by the arguments of `blocks_of`; `atoms` are not looked into."""

    size: int
    whole: Set[nn.Parameter]
    atoms: Set[nn.Module]
    blocks: list[nn.Module] = field(default_factory=list)

    def collect(self, module: nn.Module, in_list: bool) -> int:
        """The parameters of `module` that are cut and that no block holds."""
        closed, listed = module in self.atoms, isinstance(module, nn.ModuleList)
        left = sum(p.numel() for p in module.parameters(recurse=closed) if p not in self.whole)
        if not closed:
            left += sum(self.collect(child, listed) for child in module.children())
        trains = any(parameter.requires_grad for parameter in module.parameters())
        if not in_list or left < self.size or not trains or not list(module.children()):
            return left
        self.blocks.append(module)
        return 0
