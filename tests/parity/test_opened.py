"""What was exported, opened by the other library alone: the same ids, texts, labels and numbers.

Nothing here tells that library anything: its Auto classes and pipelines read the folder.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.decode.settings import GREEDY, Decoding
from regard.decode.symbols import Symbols
from regard.folders import export
from regard.modalities.images.processor import Images
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols, with_frame
from regard.model import Model
from regard.zoo import FAMILIES
from tests.parity.references import CASES, TIMM, reference
from tests.parity.theirs import transformers
from tests.parity.twins import batch, run_reference, saved

WORDS = ["the dog sees a cat", "who runs today, and why?", "tea", "Straße, naïve: 3.14 €"]


def opened(folder: Path) -> Any:
    """By the Auto class under which the library itself files the class that the config names."""
    config = transformers.AutoConfig.from_pretrained(folder)
    (name,) = config.architectures
    for kind in AUTO:
        auto = getattr(transformers, kind)
        found = auto._model_mapping.get(type(config), ())
        if name in [one.__name__ for one in (found if isinstance(found, tuple) else (found,))]:
            return auto.from_pretrained(folder, attn_implementation="eager").eval()
    raise AssertionError(f"no Auto class knows {name}")


AUTO = [
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForPreTraining",
    "AutoModelForNextSentencePrediction",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
    "AutoModelForQuestionAnswering",
    "AutoModelForImageClassification",
    "AutoModelForObjectDetection",
    "AutoModel",
]


ALONE = ("cliptext",)  # a class that none of these knows, with its projection: see test_export.py


def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("case", [case for case in CASES if case not in TIMM and case not in ALONE])
def test_the_class_that_the_folder_names(case: str, tmp_path: Path) -> None:
    """It is found by the library itself, and gives the numbers of the model that came in and went out."""
    model = reference(case)
    export(saved(model, tmp_path / "there"), tmp_path / "out", "hf")
    asked = batch(case)
    first, again = (run_reference(case, x, asked).outputs for x in (model, opened(tmp_path / "out")))
    for name, x in first.items():
        torch.testing.assert_close(again[name], x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["tatoeba-en-de", "tatoeba-de-en"])
def test_a_translator_that_ships(name: str, tmp_path: Path) -> None:
    """It is pre-norm, with sines and cosines in turn, and had no place there; texts that spell special tokens count."""
    model = regard.load(name)
    export(model, tmp_path / "out")
    texts = ["Hello.", "I like tea.", "Wo hast du das alte Auto gekauft?", "He <end> writes <pad>.", "  two  spaces "]
    there, net = tokenizer(tmp_path / "out"), opened(tmp_path / "out")
    assert there.convert_ids_to_tokens(there("Hello.").input_ids)[-1] == "<end>"
    batch = there(texts, return_tensors="pt", padding=True)
    written = net.generate(**batch, num_beams=1)
    ours = [one.text for one in model.translate(texts, decoding=GREEDY)]
    assert there.batch_decode(written, skip_special_tokens=True) == ours
    assert len(set(ours)) > 3


def test_beams_unless_asked_otherwise(tmp_path: Path) -> None:
    """Both search with four beams by default. They rank what they find by lengths in different ways, which seldom
    matters."""
    model = regard.load("tatoeba-en-de")
    export(model, tmp_path / "out")
    there, net = tokenizer(tmp_path / "out"), opened(tmp_path / "out")
    texts = ["Hello.", "I like tea.", "Where did you buy that old car?", "She said she would come tomorrow."]
    written = [there.decode(net.generate(**there(x, return_tensors="pt"))[0], skip_special_tokens=True) for x in texts]
    assert net.generation_config.num_beams == Decoding().beam.beams
    assert written == [one.text for one in model.translate(texts)]


@pytest.mark.parametrize("prompt", ["ROMEO:", ""])
def test_a_generator_that_ships(prompt: str, tmp_path: Path) -> None:
    model = regard.load("shakespeare")
    export(model, tmp_path / "out")
    write = transformers.pipeline("text-generation", model=str(tmp_path / "out"))
    found = write(prompt, max_new_tokens=50)[0]["generated_text"]
    assert found == prompt + model.generate(prompt, decoding=replace(GREEDY, longest=50)).text


def test_a_generator_of_whole_words(tmp_path: Path) -> None:
    """Words are joined by spaces as a text is decoded; the pipeline decodes what is new alone, and would lose one."""
    model, prompt = regard.load("recall"), "Anna sings . Boris runs . Anna"
    export(model, tmp_path / "out")
    there = tokenizer(tmp_path / "out")
    found = opened(tmp_path / "out").generate(**there(prompt, return_tensors="pt"), max_new_tokens=9)
    assert there.decode(found[0]) == prompt + model.generate(prompt, decoding=replace(GREEDY, longest=9)).text


def test_a_generator_begins_with_its_own_token(tmp_path: Path) -> None:
    model = small("gpt", length=40, dim=16, depth=1, heads=2)
    export(model, tmp_path / "out")
    there = tokenizer(tmp_path / "out")
    assert there("the dog").input_ids == [model.symbols.begin, *model.text().unframed(["the dog"])[0]]
    assert there.padding_side == "left"


def small(family: str, kind: str = "bpe", **changes: Any) -> Model:
    """Random weights, and a tokenizer of this kind."""
    torch.manual_seed(1)
    row = FAMILIES[family]
    text = Vocabulary(kind, 300).learn(WORDS)
    text = with_frame(text) if family == "bert" else text
    config = row.config(**{"vocab": text.tokenizer.get_vocab_size(), **changes})
    net: Any = row.net(config).eval()
    for x in net.parameters():
        torch.nn.init.normal_(x, std=0.3)
    return Model(family, net, text, symbols=tokenizer_symbols(text))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "words", "characters"])
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_ids_and_texts_of_every_tokenizer(family: str, kind: str, tmp_path: Path) -> None:
    sizes = {"dim": 16, "depth": 1, "heads": 2, "hidden": 24}
    model = small(family, kind, **sizes, **({"length": 64} if family == "gpt" else {}))
    export(model, tmp_path / "out")
    there, own = tokenizer(tmp_path / "out"), model.text()
    for text in [*WORDS, "<end> is five letters", "unseen words: xyz ☃"]:
        ids = own.literal().unframed([text])[0]
        begin, end = ([model.symbols.begin], []) if family == "gpt" else ([], [model.symbols.end[0]])
        assert there(text).input_ids == [*begin, *ids, *end]
        decoded, ours = there.decode([*ids, *end], skip_special_tokens=True), own.decode(ids)
        assert decoded == (ours if family == "gpt" else ours.strip())


def test_a_classifier_of_texts(tmp_path: Path) -> None:
    model = small("bert", length=32, dim=16, depth=1, heads=2, hidden=24, head="label", classes=3)
    model = replace(model, labels=("bad", "so so", "good"), task="classify")
    export(model, tmp_path / "out")
    judge = transformers.pipeline("text-classification", model=str(tmp_path / "out"), top_k=None)
    for text, ours in zip(WORDS, model.classify(WORDS), strict=True):
        assert {one["label"]: one["score"] for one in judge(text)[0]} == pytest.approx(dict(ours.ranked), abs=1e-5)


def test_a_tagger(tmp_path: Path) -> None:
    model = small("bert", "words", length=32, dim=16, depth=1, heads=2, hidden=24, head="tags", classes=3)
    model = replace(model, labels=("NOUN", "VERB", "DET"), task="tag")
    export(model, tmp_path / "out")
    tag = transformers.pipeline("token-classification", model=str(tmp_path / "out"))
    found = tag("the dog sees a cat", ignore_labels=[])
    assert [one["entity"] for one in found] == list(model.tag("the dog sees a cat").tags)


@pytest.mark.parametrize("side", [12, 31])
def test_a_classifier_of_images(side: int, tmp_path: Path) -> None:
    """The picture goes through the other library's own preparation."""
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    torch.manual_seed(0)
    config = FAMILIES["vit"].config(image=12, patch=4, classes=3, dim=16, depth=1, heads=2, hidden=24, pool="class")
    images = Images(size=12, fit="stretch", channels=3, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    model = Model("vit", FAMILIES["vit"].net(config).eval(), images, labels=("cat", "dog", "eel"))
    export(model, tmp_path / "out")
    judge = transformers.pipeline("image-classification", model=str(tmp_path / "out"))
    ours = model.classify(str(tmp_path / "picture.png"))
    found = {one["label"]: one["score"] for one in judge(str(tmp_path / "picture.png"))}
    assert found == pytest.approx(dict(ours.ranked), abs=2e-3)


def test_the_digits_that_ship(tmp_path: Path) -> None:
    """Mean pooling is known to timm alone, which reads labels, sizes and preparation from the folder too."""
    timm = pytest.importorskip("timm")
    model = regard.load("digits")
    export(model, tmp_path / "out")
    net = timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True).eval()
    images = torch.rand(4, 1, 8, 8)
    with torch.inference_mode():
        torch.testing.assert_close(net(images), model.net(images), rtol=1e-4, atol=1e-4)
    assert net.pretrained_cfg["label_names"] == list(model.labels)
    assert (net.pretrained_cfg["mean"], net.pretrained_cfg["input_size"]) == ([0.5], [1, 8, 8])


def test_a_detector_trained_here(tmp_path: Path) -> None:
    """Its backbone has learned with batch norm, which is frozen in use."""
    torch.manual_seed(0)
    config = replace(FAMILIES["detr"].example(), stem="large", backbone_norm="batch")
    net: Any = FAMILIES["detr"].net(config).train()
    images = torch.randn(2, config.channels, 64, 64)
    net(images)  # its statistics move
    export(Model("detr", net.eval()), tmp_path / "out")
    with torch.inference_mode():
        ours, theirs = net(images), opened(tmp_path / "out")(images)
    torch.testing.assert_close(theirs.logits, ours.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(theirs.pred_boxes, ours.boxes, rtol=1e-4, atol=1e-4)


def test_what_is_never_written(tmp_path: Path) -> None:
    """Padding and a begin within a text, neither here nor there."""
    model = replace(small("gpt", length=40, dim=16, depth=1, heads=2), symbols=Symbols(2, (3,), 0))
    export(model, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text())["bad_words_ids"] == [[0], [2]]
    theirs = opened(tmp_path / "out").generate(torch.tensor([[2, 9, 8]]), max_new_tokens=20)[0, 3:].tolist()
    (ours,) = model.generate("", decoding=replace(GREEDY, longest=20)).nbest
    assert not {0, 2} & {*theirs, *ours.ids}
