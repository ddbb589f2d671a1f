"""Import this before diffusers and accelerate, which import DeepSpeed where it is installed, used or not."""

import sys

sys.modules["deepspeed"] = None  # type: ignore[assignment]
