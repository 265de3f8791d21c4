"""Captions of a user's own images, from a run file to a sentence: paired, split, refused, resumed, measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.modalities.captions.captioned import CaptionedImages
from regard.modalities.captions.processor import Captions
from regard.modalities.images.processor import Images
from regard.modalities.text.bleu import bleu_and_chrf, bleu_of_several
from regard.run.check import check_run
from regard.run.job import PreparedRun
from regard.run.settings import read_run
from regard.run.templates import all_templates
from regard.run.training import reopen_run
from regard.train.engine import Engine

from .runs import fingerprint, lines, refused, trained, written

COUNT, WAYS = 20, 3  # images, and captions of each
RUN = """
[task]
kind = "describe"
[data]
kind = "captions"
train = "captions.csv"
images = ["photos"]
batch = 8
share = 0.2
[data.vocabulary]
kind = "characters"
{augment}
[model]
name = "captioner-tiny"
image = 8
patch = 4
dim = 16
depth = 1
decoder_depth = 1
heads = 2
hidden = 32
[train]
steps = 6
log = 1
evaluate = 6
save = 2
threads = 1
"""
PLAIN = RUN.format(augment="")
CHANGED = RUN.format(augment="[data.augment]\narea = 0.4\nmirror = 0.5")


def colour(i: int) -> tuple[int, int, int]:
    return 12 * i, 255 - 12 * i, 128


def data(folder: Path, *more: tuple[str, str]) -> None:
    """Images of one colour each, with captions that end with the image's number; those of an image stand apart."""
    (folder / "photos").mkdir(parents=True)
    for i in range(COUNT):
        Image.new("RGB", (12 + i, 10), colour(i)).save(folder / "photos" / f"{i}.png")
    rows = [(f"{i}.png", f"{'a photo of ' * way}{i}") for way in range(WAYS) for i in range(COUNT)]
    text = "".join(f"{name},{caption}\n" for name, caption in (*rows, *more))
    (folder / "captions.csv").write_text("image,caption\n" + text)


def here(place: Path, text: str = PLAIN) -> str:
    """The run file with the paths of one folder, for runs in others."""
    text = text.replace('"captions.csv"', json.dumps(str(place / "captions.csv")))
    return text.replace('"photos"', json.dumps(str(place / "photos")))


def seen(job: PreparedRun, split: str, step: int) -> list[str]:
    """The captions of a batch, once each was seen to stand beside its image."""
    batches, text = job.sources.splits[split], job.model.text()
    batch = batches.collate(batches.rows(step).tolist(), step)
    assert batch.source.shape[1:] == (3, 8, 8)
    found = []
    for image, wanted, real in zip(batch.source, batch.wanted, batch.keys, strict=True):
        said = text.decode(wanted[real].tolist()).strip()
        pixels = ((image * 0.5 + 0.5) * 255).round().long()
        assert [tuple(x) for x in pixels.flatten(1).T.tolist()] == [colour(int(said.split()[-1]))] * 64, said
        found.append(said)
    return found


def every(job: PreparedRun, split: str) -> list[str]:
    return [caption for step in range(len(job.sources.splits[split])) for caption in seen(job, split, step)]


# ------------------------------------------------------------------------------------------------------ what is learned


@pytest.mark.parametrize("text", [PLAIN, CHANGED])
def test_captions_stay_with_their_images_and_images_with_their_split(text: str, place: Path) -> None:
    data(place)
    job = reopen_run(trained(place, "train.steps=2", text=text))
    learned, kept_out = every(job, "train"), every(job, "held_out")
    assert (len(learned), len(kept_out)) == (48, 12)
    assert len({*learned, *kept_out}) == COUNT * WAYS
    images = [{caption.split()[-1] for caption in part} for part in (learned, kept_out)]
    assert [len(part) for part in images] == [16, 4]
    assert not images[0] & images[1]
    train, held_out = (job.sources.splits[split] for split in ("train", "held_out"))
    assert all(isinstance(x.source, CaptionedImages) for x in (train, held_out))
    assert held_out.rows(0).tolist() == held_out.rows(len(held_out)).tolist()
    assert train.rows(0).tolist() != train.rows(len(train)).tolist()


def test_images_change_only_where_they_are_learned(place: Path) -> None:
    """And by default in no way: a caption may name what is left and right."""
    assert all_templates()["describe"].data.augment.mirror == 0
    data(place)
    for i in range(COUNT):
        image = Image.new("RGB", (16, 16), colour(i))
        image.paste((0, 0, 0), (0, 0, 8, 16))
        image.save(place / "photos" / f"{i}.png")
    plain = reopen_run(trained(place / "one", "train.steps=2", text=here(place)))
    changed = reopen_run(trained(place / "two", "train.steps=2", text=here(place, CHANGED)))
    for split in ("train", "held_out"):
        one, two = (job.sources.splits[split] for job in (plain, changed))
        assert one.rows(0).tolist() == two.rows(0).tolist()
        rows = one.rows(0).tolist()
        assert one.collate(rows, 0).wanted.equal(two.collate(rows, 0).wanted)
        assert one.collate(rows, 0).source.equal(one.collate(rows, 1).source)
        assert torch.equal(one.collate(rows, 0).source, two.collate(rows, 0).source) == (split == "held_out")
        assert torch.equal(two.collate(rows, 0).source, two.collate(rows, 1).source) == (split == "held_out")
        assert bool((one.collate(rows, 0).source[:, :, :, :3] == -1).all())  # black is left


@pytest.mark.parametrize("text", [PLAIN, CHANGED])
def test_it_is_the_same_after_a_stop_and_in_pieces(text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data(place)
    whole = trained(place / "one", text=here(place, text))
    path, update = written(place / "two", here(place, text)), Engine.update

    def stop(self: Engine, *given: Any) -> Any:
        if self.state.step == 3:
            raise KeyboardInterrupt
        return update(self, *given)

    monkeypatch.setattr(Engine, "update", stop)
    assert main(["train", str(path), f"folder={place / 'two' / 'run'}"]) == 130
    monkeypatch.setattr(Engine, "update", update)
    assert main(["resume", str(place / "two" / "run")]) == 0
    assert fingerprint(place / "two" / "run", 6) == fingerprint(whole, 6)
    one, two = reopen_run(whole), reopen_run(place / "two" / "run")
    for step in range(12):
        assert seen(one, "train", step) == seen(two, "train", step)
    pieces = trained(place / "three", "train.split=3", text=here(place, text))
    losses = [[line["loss"] for line in lines(folder) if "loss" in line] for folder in (pieces, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_vocabulary_is_learned_without_a_look_at_images(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image is decoded once to check it, and then not before a batch needs it."""
    data(place)
    taken: list[str] = []
    take = Images.take
    monkeypatch.setattr(Images, "take", lambda self, where, name: taken.append(name) or take(self, where, name))
    trained(place, "train.steps=1", "train.evaluate=5", "data.vocabulary.vectors=word2vec", text=PLAIN)
    assert len(taken) < 40  # a batch, some that wait, and what is held out


def test_it_goes_on_from_another_captioner(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its words, and images prepared as it knows them."""
    data(place)
    first = trained(place, "data.mean=[0.4]", "data.deviation=[0.3]", text=PLAIN)
    model = PLAIN.partition("[model]")[2].partition("[train]")[0]
    text = PLAIN.replace(f"[model]{model}", '[start]\nmodel = "./run"\n').replace(
        '[data.vocabulary]\nkind = "characters"\n', ""
    )
    assert main(["train", str(written(place, text, "more.toml")), "folder=more", "train.steps=1"]) == 0
    one, two = regard.load(first / "model"), regard.load(place / "more" / "model")
    assert isinstance(two.processor, Captions)
    assert two.processor.images == Images(size=8, mean=(0.4,), std=(0.3,))
    assert one.text().to_bytes() == two.text().to_bytes()


# ---------------------------------------------------------------------------------------------------------- what is not


def test_bad_rows_are_told_before_any_work(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data(place, ("gone.png", "a photo of 1"), ("1.png", " "), ("text.png", "a photo of 2"))
    (place / "photos" / "text.png").write_text("no image")
    written(place, PLAIN)
    for verb in ("check", "train"):
        told = refused(capsys, verb, "tiny.toml", "folder=run")
        assert "3 of 63 rows are bad" in told
        assert f"{place / 'captions.csv'}:62: gone.png: cannot be read: No such file" in told
        assert "captions.csv:63: column 2 (caption) is empty" in told
        assert "captions.csv:64: text.png: unsupported image format" in told
    assert not (place / "run").exists()
    assert main(["train", "tiny.toml", "folder=run", "data.bad=0.05", "train.steps=1"]) == 0
    assert "3 bad rows are skipped" in capsys.readouterr().out
    assert "gone.png" in (place / "run" / "faults.txt").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data.image=picture", "the header has no column 'picture'"),
        ("data.caption=3", "column 3 does not exist"),
        ("data.caption=image", "caption = 'image' is also the column of the image"),
        ("data.train=none.csv", "file not found"),
        ('data.images=["none"]', "file not found"),
        ('data.images=["captions.csv"]', "image folder or .zip archive not found"),
        ('data.images=["photos", "photos"]', "must have 0, 1 or 3 entries"),
        ("data.test=captions.csv", "the image is also in data.train"),
        ("data.share=0.999", "both the training split and the held-out split must have images"),
        ("data.longest=1", "longest = 1"),
        ("data.deviation=[0.0]", "not above 0"),
        ("data.augment.mixup=0.8", "unknown key"),
        ("data.augment.area=0", "area = 0.0 must be greater than 0"),
        ("data.augment.strength=11", "strength = 11"),
        ("data.size=8", "unknown key"),
        ("data.vocabulary.file=none.json", "file not found"),
        ("model.name=vit-cifar", "a vit model cannot be trained to describe"),
        ("task={kind='classify'}", "cannot be used for the task 'classify'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    change: str, words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data(place)
    written(place, PLAIN)
    assert words in refused(capsys, "train", "tiny.toml", "folder=run", change)
    assert not (place / "run").exists()


def test_other_images_are_refused_and_other_files_beside_them_are_not(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the table's own folder is that of the images, the run may stand there too."""
    data(place)
    rows = (place / "captions.csv").read_text().replace("\n", "\nphotos/").removesuffix("photos/")
    (place / "captions.csv").write_text(rows)
    run = trained(place, "data.images=[]", text=PLAIN)
    assert not (run / "faults.txt").exists()
    (place / "photos" / "notes.txt").write_text("more")
    assert main(["resume", str(run)]) == 0
    Image.new("RGB", (12, 10), "white").save(place / "photos" / "7.png")
    for verb in ("resume", "evaluate"):
        told = refused(capsys, verb, str(run))
        assert "the data has changed since the run started" in told
        assert "images of data.train" in told
    (place / "captions.csv").write_text("another table\n")
    assert "the data has changed" in refused(capsys, "resume", str(run))


def test_a_run_without_its_tokenizer(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data(place)
    run = trained(place, "train.steps=1", text=PLAIN)
    (run / "tokenizer.json").unlink()
    assert "tokenizer file is missing" in refused(capsys, "resume", str(run))


# ------------------------------------------------------------------------------------------------------------------ use


def test_it_learns_and_is_measured_by_what_it_writes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From JSON lines with other names, whose paths begin in their own folder."""
    data(place)
    rows = [{"file": f"photos/{i}.png", "text": f"a photo of {i}"} for i in range(6)]
    (place / "captions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = PLAIN.replace("captions.csv", "captions.jsonl").replace("characters", "words")
    text = text.replace('images = ["photos"]', 'image = "file"\ncaption = "text"')
    faster = ("train.steps=80", "optimizer.rate=1e-2", "schedule.warmup=5", "train.log=40", "train.evaluate=80")
    run = trained(place, *faster, text=text)
    model, source = regard.load(run), reopen_run(run).sources.splits["train"].source
    assert isinstance(source, CaptionedImages)
    said = [one.text for one in model.describe([place / name for name in source.names])]  # type: ignore[union-attr]
    captions = [source.caption(i) for i in range(len(source))]
    assert sum(one == two for one, two in zip(said, captions, strict=True)) >= 4
    capsys.readouterr()
    assert main(["evaluate", str(run), "--split", "train", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["described"]["bleu"] == pytest.approx(bleu_and_chrf(said, captions).bleu)
    assert found["described"]["sentences"] == len(captions) == 5
    assert {"loss", "accuracy"} <= found["metrics"].keys()
    assert main(["evaluate", str(run), "--beam", "1"]) == 0
    assert "\nbleu\t" in capsys.readouterr().out
    assert main(["describe", str(run), str(place / source.names[0])]) == 0
    assert capsys.readouterr().out == f"{said[0]}\n"


def test_an_image_is_described_once_and_held_against_all_of_its_captions(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To test, images of a folder of their own, whose names others have too; in training, parts are cut out."""
    data(place)
    data(place / "more")
    rows = "".join(f"{i}.png\tsome {i}\n{i}.png\tits {i}\n{i}.png\t{i} of all\n" for i in range(10))
    (place / "test.tsv").write_text(f"image\tcaption\n{rows}")
    words = ['data.images=["photos", "photos", "more/photos"]', "data.test=test.tsv", "train.steps=1"]
    run = trained(place, *words, text=CHANGED)
    report = check_run(place / "tiny.toml", (*words, "folder=other"))
    assert {name: split.rows for name, split in report.splits.items()} == {"train": 48, "held_out": 12, "test": 30}
    assert report.bad_rows == 0
    assert report.shapes["source"] == (8, 3, 8, 8)
    capsys.readouterr()
    for split, count in (("train", 16), ("test", 10)):
        assert main(["evaluate", str(run), "--split", split, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["described"]
        assert found["sentences"] == count
        assert "nrefs:3" in found["signatures"]["bleu"]


def test_several_ways_to_say_it() -> None:
    """The nearest counts, whatever number of others there is."""
    said = ["a dog runs through the snow", "a cat sleeps in the sun"]
    right = bleu_of_several(said, [["no", said[0]], [said[1]]])
    assert right.bleu == pytest.approx(100)
    assert right.sentences == 2
    assert "nrefs:var" in right.signatures["bleu"]
    assert bleu_of_several(said, [["no", said[1]], [said[1]]]).bleu < 90


def test_init_explains_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "describe"]) == 0
    text = capsys.readouterr().out
    for words in ('kind = "captions"', 'image = "image"', 'caption = "caption"', "mirror = 0.0", "[data.vocabulary]"):
        assert words in text
    assert "mixup" not in text
    assert read_run(written(place, text)).data.kind == "captions"
