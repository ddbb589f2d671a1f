"""How a frozen base is kept in few bits below adapters: nf4 and int8."""

import importlib.util
import math

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.training.quantised import WHERE, Quantisation

LIBRARY = "bitsandbytes"
BLOCK = 64  # numbers that share a scale


@configurable
class Nf4(Quantisation):
    """4 bits a number: the 16 values that fit a normal distribution, times the largest of each 64 numbers, in fp32.

    QLoRA's data type (Dettmers et al. 2023, arXiv 2305.14314) by bitsandbytes: 0.56 bytes a number. Raises `Fault`
    DEP01 without that package.
    """

    name = "nf4"

    def __init__(self) -> None:
        if importlib.util.find_spec(LIBRARY) is None:
            why = f"it needs the package {LIBRARY}, which is not installed"
            fix = f"{install_line(LIBRARY)}, or base_config.target=ldm.adapters.Int8, which needs none"
            raise Fault("DEP01", "a base cannot be kept in nf4", where=WHERE, why=why, fix=fix)

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Of (out, in): two codes a byte, (out in / 2, 1), and scales (out in / 64,)."""
        from bitsandbytes.functional import quantize_4bit

        codes, state = quantize_4bit(weight.contiguous(), blocksize=BLOCK, quant_type=self.name)
        return codes.view(torch.int8), state.absmax.float()

    def decode(self, codes: Tensor, scales: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """The matrix (out, in) of codes (out in / 2, 1) and scales (out in / 64,)."""
        from bitsandbytes.functional import QuantState, dequantize_4bit

        state = QuantState(absmax=scales, shape=shape, dtype=dtype, blocksize=BLOCK, quant_type=self.name)
        matrix: Tensor = dequantize_4bit(codes.view(torch.uint8), state)
        return matrix

    def size(self, shape: torch.Size) -> int:
        numbers = math.prod(shape)
        return -(-numbers // 2) + 4 * -(-numbers // BLOCK)


@configurable
class Int8(Quantisation):
    """8 bits a number, times the largest of its row over 127, in fp32; inputs stay as precise as they are.

    1 byte a number, on any device.
    """

    name = "int8"

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Of (out, in): codes (out, in) and scales (out, 1)."""
        scales = weight.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
        return (weight / scales).round().clamp(-127, 127).to(torch.int8), scales

    def decode(self, codes: Tensor, scales: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """The matrix (out, in) of codes (out, in) and scales (out, 1)."""
        return (codes.float() * scales).to(dtype)

    def size(self, shape: torch.Size) -> int:
        return math.prod(shape) + 4 * shape[0]
