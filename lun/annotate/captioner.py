"""Captions by a model of transformers that makes text of pictures: BLIP, BLIP-2, GIT, Florence-2, LLaVA, Qwen-VL ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor
from transformers import GenerationMixin

from ldm.errors import Fault
from lun.data.metadata.caption_files import one_line
from lun.features.pretrained import DType, Purpose, device_of, load_model, load_processor, on_device

QUESTION = "Describe this picture in one sentence."
TASK = "<CAPTION>"
"""What a model with a fixed list of tasks is asked to do."""


class Captioner:
    """One caption for each picture, by the most likely words, so that the same picture always gets the same.

    model       the folder of a model that `AutoModelForImageTextToText` reads
    prompt      what the caption goes on from (BLIP, BLIP-2, GIT), the task (Florence-2: `<DETAILED_CAPTION>`, or by
                default `<CAPTION>`), or the question that a model for conversations is asked
    max_tokens  longest caption
    beams       sequences that are searched at a time: more cost as many times as much
    """

    columns = ("caption",)

    def __init__(
        self,
        model: str,
        device: str | None = None,
        dtype: DType = "fp32",
        prompt: str | None = None,
        max_tokens: int = 75,
        beams: int = 1,
    ) -> None:
        _require_counts(max_tokens, beams)
        kind, purpose = "AutoModelForImageTextToText", Purpose("captions")
        self.model: Any = load_model(kind, Path(model), device_of(device), dtype, purpose)
        self.processor = load_processor("AutoProcessor", Path(model), purpose)
        self.converses = bool(getattr(self.processor, "chat_template", None))
        self.prompt = self._in_a_conversation(prompt or QUESTION) if self.converses else prompt or self._task()
        self.limits = {"max_new_tokens": max_tokens, "num_beams": beams, "do_sample": False}

    def _task(self) -> str | None:
        return TASK if TASK in getattr(self.processor, "task_prompts_without_inputs", ()) else None

    def _in_a_conversation(self, question: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": question}]
        asked = [{"role": "user", "content": content}]
        return str(self.processor.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Image]) -> list[dict[str, Any]]:
        inputs = on_device(self._inputs(pictures), self.model)
        words = self.model.generate(**inputs, **self.limits)
        asked = inputs.get("input_ids")
        if self.converses and asked is not None and torch.equal(words[:, : asked.shape[1]], asked):
            words = words[:, asked.shape[1] :]  # the answer without the question
        texts = self.processor.batch_decode(words, skip_special_tokens=True)
        return [{"caption": one_line(text)} for text in texts]

    def _inputs(self, pictures: Sequence[Image]) -> Mapping[str, Tensor]:
        given: dict[str, Any] = {"images": list(pictures), "return_tensors": "pt"}
        if self.prompt is not None:
            given |= {"text": [self.prompt] * len(pictures), "padding": True}
        if self.converses:
            given |= {"images": [[one] for one in pictures], "padding_side": "left"}  # answers follow at once
        try:
            return self._open_ended(self.processor(**given))
        except (ValueError, TypeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            fix = "--param 'prompt=\"<DETAILED_CAPTION>\"' for Florence-2, or what the model's page says"
            raise Fault(
                "CLI03", "the model does not take pictures so", where="--param prompt", why=why, fix=fix
            ) from error

    def _open_ended(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Without the token that ends a text, for models that go on from the tokens as they are (GIT).

        Encoders are trained with it, and BLIP takes it off by itself.
        """
        asked = inputs.get("input_ids")
        own = type(self.model).generate is not GenerationMixin.generate
        if asked is None or own or self.model.config.is_encoder_decoder:
            return inputs
        tokenizer = self.processor.tokenizer
        if int(asked[0, -1]) not in {tokenizer.eos_token_id, tokenizer.sep_token_id}:
            return inputs
        return {name: each[:, :-1] if each.shape == asked.shape else each for name, each in inputs.items()}


def _require_counts(max_tokens: int, beams: int) -> None:
    for name, value in (("max_tokens", max_tokens), ("beams", beams)):
        if value < 1:
            raise Fault("CLI03", f"param {name} cannot be {value}", why="it takes a number above 0")
