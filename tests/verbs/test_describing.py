"""Captions in use: what is drawn, what it says of it, where it looked; in a folder, in a run, by the verb."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.errors import CheckpointError, ConfigError, InputError
from regard.modalities.captions import captioning
from regard.modalities.captions.processor import CaptionMaker, Captions
from regard.modalities.captions.runners import ImageDescription
from regard.modalities.captions.scenes import COLOURS, RELATIONS, SCENE_SIDE, SHAPES, SIZES, Scenes
from regard.modalities.images.processor import Images
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols
from regard.model import Model
from regard.nn.cache import Cache
from regard.train import curves

IMAGES = Images(size=16)


@pytest.fixture(scope="module")
def model() -> Model:
    scenes = Scenes(60, IMAGES, 0)
    text = Vocabulary("words", 100).learn(scenes[i].caption for i in range(60))
    torch.manual_seed(0)
    sizes = {"image": 16, "patch": 4, "dim": 16, "depth": 1, "decoder_depth": 1, "heads": 2, "hidden": 32}
    made = regard.build("captioner-tiny", vocab=text.tokenizer.get_vocab_size(), **sizes).eval()
    return replace(made, processor=Captions(IMAGES, text), task="describe", symbols=tokenizer_symbols(text))


def drawn(tmp_path: Path) -> Path:
    Image.fromarray(Scenes(1, Images(size=32), 5)[0].image.permute(1, 2, 0).numpy()).save(tmp_path / "scene.png")
    return tmp_path / "scene.png"


def test_scenes_are_what_their_captions_say() -> None:
    """Each follows from its seed and number; a caption's colours are in its image, and no others."""
    scenes = Scenes(200, Images(size=SCENE_SIDE), 3)
    assert scenes[7].caption == Scenes(200, Images(size=SCENE_SIDE), 3)[7].caption
    assert scenes[7].image.equal(Scenes(9, Images(size=SCENE_SIDE), 3)[7].image)
    assert len({scenes[i].caption for i in range(200)}) > 100
    assert {scenes[i].caption for i in range(9)} != {Scenes(9, Images(), 4)[i].caption for i in range(9)}
    known = {"a", "left", "of", *SHAPES, *SIZES, *COLOURS, *RELATIONS}
    for i in range(50):
        one = scenes[i]
        assert set(one.caption.split()) <= known
        pixels = one.image.permute(1, 2, 0).reshape(-1, 3).numpy().astype(int)
        there = {name for name, colour in COLOURS.items() if (np.abs(pixels - colour).max(1) < 3).sum() > 10}
        assert there == set(one.caption.split()) & set(COLOURS), one.caption
    with pytest.raises(IndexError):
        scenes[200]


@pytest.mark.parametrize("side", list(RELATIONS))
def test_what_is_said_first_stands_where_it_is_said(side: str) -> None:
    """By the middle of its colour, of scenes with two."""
    x, y = RELATIONS[side]
    scenes, seen = Scenes(300, Images(size=SCENE_SIDE), 1), 0
    for i in range(300):
        image, caption = scenes[i]
        words = caption.split()
        told = [word for word in words if word in COLOURS]
        if f" {side} " not in caption or len(set(told)) < 2:
            continue
        pixels = image.permute(1, 2, 0).numpy().astype(int)
        middles = [np.argwhere(np.abs(pixels - COLOURS[name]).max(-1) < 3).mean(0)[::-1] for name in told]
        away = middles[0] - middles[1]
        assert away @ np.array([x, y]) > 4, caption
        seen += 1
    assert seen > 10


def test_a_batch_is_an_image_and_its_words(model: Model) -> None:
    assert isinstance(model.processor, Captions)
    batch = CaptionMaker(IMAGES, model.text(), 32)([Scenes(3, IMAGES, 0)[i] for i in range(3)])
    assert batch.source.shape == (3, 3, 16, 16)
    assert batch.source_keys is None
    assert batch.given[:, 1:].equal(batch.wanted[:, :-1]) or batch.keys.logical_not().any()
    for i in range(3):
        said = model.text().decode(batch.wanted[i][batch.keys[i]].tolist())
        assert said.strip() == Scenes(3, IMAGES, 0)[i].caption
    short = CaptionMaker(IMAGES, model.text(), 3)([Scenes(3, IMAGES, 0)[0]])
    assert short.wanted.shape == (1, 3)


def test_words_are_written_one_by_one_as_all_at_once(model: Model) -> None:
    images, ids = torch.randn(2, 3, 16, 16), torch.randint(4, 12, (2, 5))
    whole = model(images, ids)
    memory, cache = model.net.encode(images), Cache()  # type: ignore[operator]
    parts = [model.net.decode(ids[:, i : i + 1], memory, cache=cache) for i in range(5)]  # type: ignore[operator]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-5)
    other = model(torch.randn(2, 3, 16, 16), ids)
    assert not torch.allclose(other, whole)  # it does look at the image
    with pytest.raises(ValueError, match="does not support padding"):
        model.net.encode(images, torch.ones(2, 16, dtype=torch.bool))  # type: ignore[operator]


def test_describe(model: Model, tmp_path: Path) -> None:
    path = drawn(tmp_path)
    one = model.describe(path, look="decoder.*.cross")
    assert isinstance(one, ImageDescription)
    assert one.image == str(path)
    assert one.text == one.nbest[0].text
    (cross,) = one.maps.values()
    assert cross.columns.grid == (4, 4)
    assert cross.rows.labels is not None
    assert len(cross.rows.labels) == len(one.nbest[0].ids) + 1
    torch.testing.assert_close(cross.weights.sum(-1), torch.ones(cross.weights.shape[:-1]))
    assert model.describe([Image.open(path), path])[0].text == one.text  # type: ignore[index]
    for call in (
        lambda: model.classify(path),
        lambda: model.translate("a text"),
        lambda: model.describe(tmp_path / "none.png"),
        lambda: regard.build("vit-cifar").describe(path),
    ):
        with pytest.raises(InputError):
            call()


def test_its_folder_keeps_both(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = drawn(tmp_path)
    regard.save(model, tmp_path / "model")
    back = regard.load(tmp_path / "model")
    assert isinstance(back.processor, Captions)
    assert back.processor.images == IMAGES
    wanted = model.describe(path)
    assert back.describe(path).text == wanted.text  # type: ignore[union-attr]
    assert main(["describe", str(tmp_path / "model"), str(path), str(path), "--json", "--nbest", "2"]) == 0
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert one == two
    assert one["text"] == wanted.text  # type: ignore[union-attr]
    assert len(one["nbest"]) == 2
    assert main(["describe", str(tmp_path / "model"), str(path)]) == 0
    assert capsys.readouterr().out == f"{wanted.text}\n"  # type: ignore[union-attr]
    for words in (["-"], [str(tmp_path / "none.png")], [str(path), "--nbest", "9"], [str(path), "--beam", "0"]):
        assert main(["describe", str(tmp_path / "model"), *words]) == 2
        assert "Traceback" not in "".join(capsys.readouterr())
    file = tmp_path / "model" / "regard.json"
    data = json.loads(file.read_text())
    for change, kind in (({"more": 1}, ConfigError), ({"images": 3}, ConfigError)):
        file.write_text(json.dumps(data | {"processor": data["processor"] | change}))
        with pytest.raises(kind):
            regard.load(tmp_path / "model")
    file.write_text(json.dumps(data))
    (tmp_path / "model" / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"the processor is missing a file[\s\S]*tokenizer\.json"):
        regard.load(tmp_path / "model")


def test_a_run_learns_to_describe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(curves, "draw", lambda lines, folder: None)  # it takes longer than this run
    monkeypatch.setattr(captioning, "LONGEST", 12)  # tokens: it has not learned to end
    small = ["data.rows=64", "data.batch=16", "train.steps=12", "train.log=1", "train.evaluate=12", "train.save=12"]
    small += [
        "model.image=16",
        "model.dim=16",
        "model.depth=1",
        "model.heads=2",
        "model.hidden=32",
        "train.threads=1",
        "schedule.warmup=2",
    ]
    assert main(["train", "scenes", "folder=run", *small]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.9 * losses[0]
    assert "caption     a " in (tmp_path / "run" / "samples" / "step-000012.txt").read_text()
    found = regard.load(tmp_path / "run" / "model")
    assert isinstance(found.describe(drawn(tmp_path)), ImageDescription)
    assert main(["evaluate", "run", "--split", "test"]) == 0
    assert "\nbleu\t" in capsys.readouterr().out
    (tmp_path / "run" / "tokenizer.json").unlink()
    assert main(["resume", "run"]) == 2
    assert "tokenizer file is missing" in capsys.readouterr().err
