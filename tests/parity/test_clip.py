"""CLIP beyond its twins: folders with all their files, older ones, whole answers, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, pre_tokenizers

import regard
from regard.errors import CheckpointError, InputError
from regard.interop.tokens import foreign_tokenizer
from regard.zoo import count_parameters, empty_net, find_preset
from tests.parity.references import clip, clip_towers, cliptext, redraw
from tests.parity.theirs import transformers

MERGES = [("t", "h"), ("th", "e</w>"), ("c", "a"), ("ca", "t</w>"), ("i", "n"), ("in", "g</w>"), ("Ã", "¶")]
TEXTS = [
    "the cat",
    " The  CAT\t\nsinging\u00a0now ",
    "",
    "   ",
    "it's 1234 o'CLOCK!! don't you'LL",
    "Ä ö o\u0308 ß ﬁ İ",
    "猫 🐱",
    "<|endoftext|> the",
    "x<|startoftext|>y <|endof",
    "a_b-c  d\u2028e",
]


def words(folder: Path) -> Path:
    """CLIP's vocabulary in small: all bytes, each within a word and at its end."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = ["".join(pair) for pair in MERGES]
    vocabulary = [*letters, *(f"{x}</w>" for x in letters), *whole, "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    return folder


VOCAB = 512 + len(MERGES) + 2
BEGIN, END = VOCAB - 2, VOCAB - 1


@pytest.mark.parametrize("kind", ["clip", "clip_text_model"])
def test_ids_of_odd_texts(kind: str, tmp_path: Path) -> None:
    raw = foreign_tokenizer(words(tmp_path), kind)
    assert isinstance(raw, bytes)
    ours, theirs = Tokenizer.from_buffer(raw), transformers.CLIPTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text).input_ids, text
        assert ours.encode(text).ids[0] == BEGIN
    assert ours.encode("the", "cat").ids == theirs("the", "cat").input_ids


# ------------------------------------------------------------------------------------------------------ whole folders


def whole(folder: Path, end: int = END, **changes: Any) -> Any:
    """A folder as published ones are: towers, vocabulary, and how images are prepared."""
    towers = clip_towers(end, **changes)
    towers["text_config"] |= {"vocab_size": VOCAB, "max_position_embeddings": 24}
    model = transformers.CLIPModel(transformers.CLIPConfig(**towers)).eval()
    redraw(model, 0)
    words(folder)
    model.save_pretrained(folder)
    preparation = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 12, "crop_size": 12, "resample": 3}
    preparation |= {"do_resize": True, "do_center_crop": True, "do_normalize": True}
    preparation |= {"image_mean": [0.481, 0.457, 0.408], "image_std": [0.268, 0.261, 0.275]}
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    return model


def photo(seed: int = 0, size: tuple[int, int] = (30, 21)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    return Image.fromarray(pixels).resize((size[0] * 2, size[1] * 2))


@pytest.mark.parametrize("end", [2, END])
def test_labels_that_are_texts(end: int, tmp_path: Path) -> None:
    """One word is put into the paper's sentence, several are read as they are; the reference gives the same chances."""
    model = whole(tmp_path / "theirs", end)
    ours = regard.load(tmp_path / "theirs")
    labels = ["cat", "the singing cat", "things"]
    found = ours.classify([photo(0), photo(1)], labels=labels)
    texts = ["a photo of a cat", "the singing cat", "a photo of a things"]
    theirs = transformers.CLIPTokenizer.from_pretrained(tmp_path / "theirs")
    given = theirs(texts, padding=True, return_tensors="pt")
    pixels = torch.cat(
        [ours.processor.images.enter(ours.net, ours.processor.images.take_image(x))[None] for x in (photo(0), photo(1))]
    )
    chances = model(**given, pixel_values=pixels).logits_per_image.softmax(-1)
    for one, wanted in zip(found, chances, strict=True):
        assert dict(one.ranked) == pytest.approx(dict(zip(labels, wanted.tolist(), strict=True)), rel=1e-4)
        assert one.label == labels[int(wanted.argmax())]
    assert ours.classify(photo(0), labels=labels).label == found[0].label


def test_images_are_prepared_as_there(tmp_path: Path) -> None:
    whole(tmp_path / "theirs")
    images = regard.load(tmp_path / "theirs").processor.images
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    theirs = CLIPImageProcessorPil.from_pretrained(tmp_path / "theirs")
    wanted = torch.as_tensor(theirs(photo(), return_tensors="pt").pixel_values[0])
    assert torch.allclose(images.normalise(images.take_image(photo())), wanted, atol=1e-5)


def test_what_has_no_labels_of_its_own_must_be_told_some(tmp_path: Path) -> None:
    whole(tmp_path / "theirs")
    ours = regard.load(tmp_path / "theirs")
    with pytest.raises(InputError, match="was given none"):
        ours.classify(photo())
    for wrong in ([], ["cat", ""], ["cat", "cat"], "cat"):
        with pytest.raises(InputError, match="invalid labels"):
            ours.classify(photo(), labels=wrong)
    with pytest.raises(InputError, match="cannot be told labels"):
        regard.build("vit-cifar").classify(photo(), labels=["cat"])


def test_looking_at_an_image_beside_a_text(tmp_path: Path) -> None:
    """Both towers are seen, and the words of the text stand on the axis of its tokens."""
    whole(tmp_path / "theirs")
    found = regard.load(tmp_path / "theirs").look(photo(), "the cat")
    assert {name.split(".")[0] for name in found.sites} == {"image", "text"}
    assert found.example.words["tokens"][0] == "<|startoftext|>"
    assert len(found.example.words["tokens"]) == 4


def test_out_and_back_in(tmp_path: Path) -> None:
    """The reference loads what is exported, and gives the same logits for the same ids."""
    model = whole(tmp_path / "theirs")
    regard.export(regard.load(tmp_path / "theirs"), tmp_path / "out")
    again = transformers.CLIPModel.from_pretrained(tmp_path / "out").eval()
    ids, images = torch.randint(1, VOCAB, (3, 7)), torch.randn(2, 3, 12, 12)
    ids[:, -1] = END
    assert torch.allclose(again(ids, images).logits_per_text, model(ids, images).logits_per_text, atol=1e-6)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs("the CAT").input_ids == [BEGIN, 513, 515, END]


# ------------------------------------------------------------------------------------------------------- older files


def saved(model: Any, folder: Path, change: Callable[[dict[str, Any]], Any], **tensors: Any) -> Path:
    """Its folder, with another config and more tensors."""
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    if tensors:
        found = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        save_file(found | {name: x for name, x in tensors.items() if x is not None}, folder / "model.safetensors")
    return folder


def test_the_names_of_older_files(tmp_path: Path) -> None:
    """``text_model.`` before all, counted positions among the tensors, a dropout that no layer has."""
    model = cliptext()
    redraw(model, 0)
    saved(model.eval(), tmp_path, lambda config: config.update(dropout=0.1))
    tensors = {f"text_model.{name}": x for name, x in load_file(tmp_path / "model.safetensors").items()}
    tensors["text_model.embeddings.position_ids"] = torch.arange(12)[None]
    (tmp_path / "model.safetensors").unlink()
    save_file(tensors, tmp_path / "model.safetensors")
    ids = torch.randint(4, 37, (2, 6))
    ids[:, 4] = 3
    net = regard.load(tmp_path).net
    assert torch.allclose(net(ids), model(ids).pooler_output, atol=1e-6)
    regard.export(regard.load(tmp_path), tmp_path / "out")
    again = transformers.CLIPTextModel.from_pretrained(tmp_path / "out").eval()
    assert torch.allclose(again(ids).pooler_output, model(ids).pooler_output, atol=1e-6)


def test_towers_that_are_told_twice(tmp_path: Path) -> None:
    """What stands in ``text_config_dict`` counts, and where it is silent the class, not ``text_config``."""
    model = clip()
    redraw(model, 0)

    def twice(config: dict[str, Any]) -> None:
        told = config["text_config"]
        config["text_config_dict"] = {key: x for key, x in told.items() if key not in ("layer_norm_eps", "hidden_act")}
        config["vision_config_dict"] = None
        told |= {"layer_norm_eps": 0.5, "hidden_act": "relu", "num_hidden_layers": 7}

    config = regard.load(saved(model, tmp_path, twice)).config
    theirs = transformers.CLIPConfig.from_pretrained(tmp_path)
    assert (config.text_eps, config.text_activation, config.text_depth) == (1e-5, "quick_gelu", 2)
    assert theirs.text_config.layer_norm_eps == config.text_eps
    assert theirs.text_config.hidden_act == config.text_activation


SD1 = {"attention_dropout": 0.0, "bos_token_id": 0, "dropout": 0.0, "eos_token_id": 2, "hidden_act": "quick_gelu"}
SD1 |= {"hidden_size": 768, "initializer_factor": 1.0, "initializer_range": 0.02, "intermediate_size": 3072}
SD1 |= {"layer_norm_eps": 1e-5, "max_position_embeddings": 77, "model_type": "clip_text_model", "pad_token_id": 1}
SD1 |= {"num_attention_heads": 12, "num_hidden_layers": 12, "projection_dim": 768, "torch_dtype": "float32"}
SD1 |= {"architectures": ["CLIPTextModel"], "transformers_version": "4.22.0.dev0", "vocab_size": 49408}
SD2 = SD1 | {"hidden_act": "gelu", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
SD2 |= {"num_hidden_layers": 23, "projection_dim": 512}


@pytest.mark.parametrize(("told", "name"), [(SD1, "cliptext-large"), (SD2, "cliptext-huge")])
def test_published_configs(told: dict[str, Any], name: str) -> None:
    """The text encoders of Stable Diffusion 1 and 2."""
    from regard.interop import cliptext as table
    from regard.interop.foreign import ForeignConfig

    foreign = ForeignConfig(told)
    config = table.complete(table.config(foreign), [])
    assert foreign.finish() == []
    assert config == find_preset(name, {})[1]


COUNTS = {"cliptext-large": 123_060_480, "clip-vit-base-32": 151_277_313, "clip-vit-large-14": 427_616_513}
COUNTS |= {"cliptext-base": 63_165_952, "cliptext-huge": 340_387_840, "clip-vit-base-16": 149_620_737}


@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name: str) -> None:
    assert count_parameters(empty_net(*find_preset(name, {}))) == COUNTS[name]


# ---------------------------------------------------------------------------------------------------- what is refused


def within(key: str, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: config[key].update(changes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (within("text_config", hidden_act="mish"), "text_config: hidden_act = 'mish'"),
        (within("vision_config", hidden_size=21), "vision_config: hidden_size = 21 is not a multiple"),
        (within("vision_config", patch_size=[4, 2]), "vision_config: patch_size = "),
        (within("text_config", eos_token_id=37), "eos_token_id = 37 is not an id of the vocabulary"),
        (within("text_config", eos_token_id=[3, 4]), "eos_token_id = [3, 4]"),
        (within("text_config", causal=False), "text_config: unknown key 'causal'"),
        (within("text_config", model_type="bert"), "text_config: model_type = 'bert'"),
        (lambda config: config.update(text_config=3), "text_config = 3 is not a table"),
        (lambda config: config.update(projection_dim=0), "projection_dim = 0"),
        (lambda config: config.update(temperature_of_logits=2), "unknown key 'temperature_of_logits'"),
    ],
)
def test_other_settings_are_refused_by_name(change: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        regard.load(saved(clip(), tmp_path, change))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("text_projection.weight", torch.zeros(8, 13), "text_projection.weight (8, 13), expected (8, 12)"),
        ("vision_model.head.weight", torch.zeros(2, 2), "vision_model.head.weight"),
        ("vision_model.embeddings.position_embedding.weight", torch.zeros(9, 20), "position_embedding.weight"),
    ],
)
def test_other_tensors_are_refused_by_name(name: str, value: torch.Tensor, words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        regard.load(saved(clip(), tmp_path, lambda config: None, **{name: value}))
    assert words in str(error.value)


def test_a_missing_tower_is_refused(tmp_path: Path) -> None:
    saved(clip(), tmp_path, lambda config: None)
    found = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    save_file({name: x for name, x in found.items() if not name.startswith("text_")}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"text_model\.embeddings\.token_embedding\.weight"):
        regard.load(tmp_path)


def test_without_an_end_nothing_is_exported(tmp_path: Path) -> None:
    model = regard.build("clip-tiny", image=8, dim=16, hidden=16, depth=1, text_depth=1)
    with pytest.raises(InputError, match="the id of its end token"):
        regard.export(model, tmp_path / "out")
