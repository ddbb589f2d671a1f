"""Each kind of annotation by a tiny model as people have it, from the command line to what training reads of it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from support import tiny_annotators, tiny_captioners
from support.runs import make_pictures

from lun.annotate.captioner import Captioner
from lun.annotate.command import run
from lun.annotate.scorer import Scorer
from lun.data.local import Local


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("models")
    for name in ("captioner", "clip", "clipseg"):
        getattr(tiny_annotators, name)(at / name)
    tiny_annotators.classifier(at / "good", "good", "bad")
    tiny_annotators.classifier(at / "one", "score")
    tiny_annotators.head(at / "head.pth")
    tiny_annotators.tagger(at / "tagger")
    return at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four pictures, two of which have captions."""
    made = make_pictures(tmp_path / "set", 4)
    for number in (1, 3):
        (made / "txt" / f"00{number}.txt").unlink()
    return made


def test_captions_lie_beside_pictures_that_had_none(models: Path, root: Path) -> None:
    assert run([str(root), "--with", "caption", "--model", str(models / "captioner"), "--param", "max_tokens=4"]) == 0
    read = Local(str(root), size=8)
    captions = [read.caption(index) for index in range(4)]
    assert captions[::2] == ["red noise 0", "blue noise 2"]
    assert all(set(text.split()) <= set(tiny_annotators.WORDS) and text for text in captions[1::2])


def test_a_caption_goes_on_from_its_prompt_and_does_not_depend_on_the_batch(models: Path, root: Path) -> None:
    annotator = Captioner(str(models / "captioner"), device="cpu", prompt="a cat", max_tokens=4)
    pictures = [Local(str(root), size=8, allow_empty_captions=True).path(index) for index in range(4)]
    from lun.data.images.decode import decode

    together = annotator([decode(path) for path in pictures])
    assert together == [annotator([decode(path)])[0] for path in pictures]


def test_a_model_for_conversations_is_asked_and_its_answer_alone_is_the_caption(models: Path, root: Path) -> None:
    folder = tiny_annotators.converser(models / "converser")
    annotator = Captioner(str(folder), device="cpu", prompt="grass dog grass", max_tokens=3)
    pictures = [Image.effect_noise((20 + number, 30), 60).convert("RGB") for number in range(2)]
    told = annotator(pictures)
    assert annotator.prompt == "<image> grass dog grass on"
    assert all(0 < len(row["caption"].split()) <= 3 and "grass dog grass" not in row["caption"] for row in told)
    assert told == [annotator([picture])[0] for picture in pictures]


@pytest.mark.parametrize("name", ["git", "blip2", "florence2", "qwen2_vl", "qwen2_5_vl"])
def test_each_model_that_the_page_names_tells_pictures_in_words(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    getattr(tiny_captioners, name)(tmp_path)
    annotator = Captioner(str(tmp_path), device="cpu", max_tokens=4)
    pictures = [Image.effect_noise((20 + number, 30), 60).convert("RGB") for number in range(2)]
    told = annotator(pictures)
    assert all(row["caption"] and set(row["caption"].split()) <= set(tiny_annotators.WORDS[4:]) for row in told)
    assert told == [annotator([picture])[0] for picture in pictures]
    assert (annotator.prompt == "<CAPTION>") == (name == "florence2")


@pytest.mark.parametrize("name", ["git", "blip2"])
def test_a_caption_that_goes_on_from_its_own_beginning_is_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    getattr(tiny_captioners, name)(tmp_path)
    picture = Image.effect_noise((20, 30), 60).convert("RGB")
    whole = Captioner(str(tmp_path), device="cpu", prompt="a", max_tokens=3)([picture])[0]["caption"]
    begun = " ".join(whole.split()[:2])
    assert len(whole.split()) > 2
    assert Captioner(str(tmp_path), device="cpu", prompt=begun, max_tokens=2)([picture])[0]["caption"] == whole


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_weights_may_be_half_as_large(models: Path, dtype: str) -> None:
    annotator = Captioner(str(models / "captioner"), device="cpu", dtype=dtype, max_tokens=2)
    assert next(annotator.model.parameters()).element_size() == 2
    assert annotator([Image.effect_noise((20, 30), 60).convert("RGB")])[0]["caption"]


def test_tags_are_read_as_tags(models: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_annotators.stand_for_onnxruntime(monkeypatch)
    assert run([str(root), "--with", "tag", "--model", str(models / "tagger")]) == 0
    read = Local(str(root), size=8, captions={"split_tags": ",", "tag_separator": ", ", "non_caption_tags": ["^_^"]})
    assert read.caption(1) == "mary (a), long hair"


@pytest.mark.parametrize(
    ("model", "param", "low", "high"),
    [("clip", "head=HEAD", -10, 10), ("good", "label=good", 0, 1), ("one", None, -10, 10)],
)
def test_scores_are_what_min_score_reads(
    models: Path, root: Path, model: str, param: str | None, low: float, high: float
) -> None:
    params = ["--param", param.replace("HEAD", str(models / "head.pth"))] if param else []
    assert run([str(root), "--with", "score", "--model", str(models / model), *params]) == 0
    rows = list(map(json.loads, (root / "metadata.jsonl").read_text().splitlines()))
    scores = {row["file_name"]: row["score"] for row in rows}
    assert len(set(scores.values())) == 4 and all(low < score < high for score in scores.values())
    least = sorted(scores.values())[2]
    read = Local(str(root), size=8, metadata_params={"min_score": least}, allow_empty_captions=True)
    assert {read.name(index) for index in range(len(read))} == {name for name, s in scores.items() if s >= least}


def test_masks_are_what_the_loss_reads(models: Path, root: Path) -> None:
    words = [str(root), "--with", "mask", "--model", str(models / "clipseg"), "--param", "text='a cat'"]
    assert run([*words, "floor=0.2", "--batch", "3"]) == 0
    read = Local(str(root), size=8, flip_p=0, mask="folder", allow_empty_captions=True)
    masks = [read.picture(index, False)["mask"] for index in range(4)]
    white = 1.0 if masks[0].is_floating_point() else 255
    assert all(mask.shape == (8, 8) and 0.19 * white <= mask.min() < mask.max() <= white for mask in masks)
    before = {path: path.read_bytes() for path in (root / "mask").rglob("*.png")}
    assert run([*words, "threshold=0.5"]) == 0
    assert {path: path.read_bytes() for path in (root / "mask").rglob("*.png")} == before and len(before) == 4


def test_a_linear_head_is_the_sum_that_it_stands_for(models: Path, tmp_path: Path) -> None:
    weight, bias = torch.arange(12.0)[None], torch.tensor([0.5])
    torch.save({"weight": weight, "bias": bias}, tmp_path / "head.pth")
    annotator = Scorer(str(models / "clip"), device="cpu", head=str(tmp_path / "head.pth"))
    picture = Image.effect_noise((20, 30), 60).convert("RGB")
    pixels = annotator.processor(images=[picture], return_tensors="pt")["pixel_values"]
    seen = annotator.model.get_image_features(pixel_values=pixels)
    seen = seen if isinstance(seen, torch.Tensor) else seen.pooler_output
    expected = float((seen / seen.norm() * weight).sum() + 0.5)
    assert annotator([picture])[0]["score"] == pytest.approx(expected, abs=1e-4)


def broken(folder: Path, change: str) -> None:
    """A model folder with something wrong."""
    config = json.loads((folder / "config.json").read_text())
    if change == "pickles":
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    elif change == "no weights":
        (folder / "model.safetensors").unlink()
    elif change == "own code":
        config |= {"model_type": "mine", "auto_map": {"AutoModelForImageTextToText": "mine.Model"}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "mine.py").write_text("raise SystemExit('was run')")
    elif change == "no tokenizer":
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
    elif change == "tensors missing":
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        save_file(dict(list(state.items())[5:]), folder / "model.safetensors")
    elif change == "cut":
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("pickles", "MOD05"),
        ("no weights", "MOD01"),
        ("own code", "code of its own, which is not run"),
        ("no tokenizer", "has no processor for captions"),
        ("tensors missing", "is not a whole model for captions"),
        ("cut", "is no model for captions"),
    ],
)
def test_a_model_that_is_not_whole_is_one_message(
    models: Path, root: Path, tmp_path: Path, change: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(models / "captioner", tmp_path / "m"))
    broken(folder, change)
    assert run([str(root), "--with", "caption", "--model", str(folder)]) == 4
    said = capsys.readouterr().err
    assert told in said and said.count("error[") == 1 and not list((root / "txt").glob("001*"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["caption", "clipseg"], "clipseg, CLIPSegForImageSegmentation"),
        (["mask", "captioner", "--param", "text=a"], "blip, BlipForConditionalGeneration"),
        (["score", "clip"], "of CLIP with --param head=FILE"),
        (["score", "good", "--param", "head=HEAD"], "vit, ViTForImageClassification"),
        (["score", "good"], "one of --param 'label=\"good\"'"),
        (["score", "good", "--param", "label=ugly"], "the model has no class ugly"),
        (["score", "one", "--param", "label=good"], "the model has one output"),
        (["score", "clip", "--param", "head=captioner/model.safetensors"], "is no head for this model"),
        (["score", "clip", "--param", "head=nowhere.pth"], "MOD01"),
    ],
)
def test_a_model_of_another_kind_is_one_message(
    models: Path, root: Path, words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(models)
    words = [word.replace("HEAD", "head.pth") for word in words]
    assert run([str(root), "--with", words[0], "--model", words[1], *words[2:]]) in (2, 4)
    said = capsys.readouterr().err
    assert told in said and said.count("error[") == 1
