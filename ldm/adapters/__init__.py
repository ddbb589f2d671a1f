"""Adapters that come with the program: their kinds, the rules that place them, and their files."""

from ldm.adapters.low_rank import DoRA, LoRA, PiSSA
from ldm.adapters.placement import Adapters
from ldm.adapters.products import LoHa, LoKr
from ldm.adapters.quantisation import Int8, Nf4

__all__ = ["Adapters", "DoRA", "Int8", "LoHa", "LoKr", "LoRA", "Nf4", "PiSSA"]
