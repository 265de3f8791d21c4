"""`regard export` of a correct model of every kind succeeds, and says what it compared.

The other library opens the folder as it does in its child process, but here, where it is imported already.
"""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.cli.app import main
from regard.decode.settings import GREEDY
from regard.errors import InputError
from regard.export_check import SPELLED, numbers_apart
from regard.folders import save
from regard.interop import reopening
from regard.modalities.text.vocabulary import with_mask
from regard.model import Model
from regard.models.probing import answers_of
from regard.zoo import FAMILIES
from tests.parity.references import CASES, TIMM, reference
from tests.parity.references import FAMILIES as FAMILY_OF
from tests.parity.test_opened import small
from tests.parity.theirs import transformers
from tests.parity.twins import saved

SIZES: dict[str, Any] = {"length": 48, "dim": 16, "depth": 1, "heads": 2, "hidden": 24}
DISTIL: dict[str, Any] = {"segments": 0, "pooling": "relu"}


@pytest.fixture(autouse=True)
def opened_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transformers.BertConfig  # torchvision is mended before the library is imported

    def run(child: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        reopening.main(Path(child[-1]))
        return subprocess.CompletedProcess(child, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


def exported(source: Path | Model, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """What the command says of its check."""
    if isinstance(source, Model):
        save(source, folder / "ours")
    given = folder / "ours" if isinstance(source, Model) else source
    capsys.readouterr()
    status = main(["export", str(given), str(folder / "out"), "--json", *more])
    told = capsys.readouterr()
    assert status == 0, told.err + told.out
    found: dict[str, Any] = json.loads(told.out)["check"]
    return found


def reader(head: str, task: str | None, **changes: Any) -> Model:
    labels = ("a", "b", "c") if head in ("label", "tags") else ()
    classes = {"classes": 3} if labels else {}
    model = small("bert", "wordpiece", **{**SIZES, "head": head, **classes, **changes})
    return replace(model, labels=labels, task=task)


@pytest.mark.parametrize(
    ("head", "task", "changes"),
    [
        ("label", "classify", {}),
        ("label", "classify", DISTIL),
        ("tags", "tag", {}),
        ("tags", "tag", {"segments": 0, "pooler": False}),
        ("span", "answer", {}),
        ("words", "masked", {}),
        ("pretraining", None, {}),
        ("follows", None, {}),
        ("none", "similar", {}),
    ],
)
def test_readers(
    head: str, task: str | None, changes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = exported(reader(head, task, **changes), tmp_path, capsys)
    assert found["compared"] == ["numbers", "token ids"]
    fills = head in ("words", "pretraining")  # these have to be given masks, there as tokens of the vocabulary
    assert [one.partition(" of ")[2].partition(",")[0] for one in found["differs"]] == [SPELLED] * fills


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.endswith(("-label", "-tags", "-span", "-follows", "-pretraining"))],
)
def test_imported_readers(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(reference(case), tmp_path / "there")
    assert exported(source, tmp_path, capsys)["compared"] == ["numbers"]


def test_the_answer_is_what_the_head_says() -> None:
    """Each head's own output, not the states before it."""
    wanted = {"label": ["label"], "tags": ["tags"], "span": ["span"], "words": ["words"], "none": ["states"]}
    for head, names in (wanted | {"pretraining": ["words", "follows"]}).items():
        net = reader(head, None).net
        assert list(answers_of(FAMILIES["bert"], net(torch.tensor([[2, 9, 3]])))) == names


def test_shapes_that_differ_are_told() -> None:
    found = numbers_apart({"label": torch.zeros(2, 3)}, [torch.zeros(2, 4)])
    assert found == ["label of shape (2, 4), here (2, 3)"]
    assert numbers_apart({"": torch.zeros(2)}, [torch.tensor([0.0, 0.5])]) == ["logits up to 0.5 apart"]
    assert numbers_apart({"": torch.zeros(2)}, [torch.zeros(2)] * 2) == ["2 outputs, here 1: "]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_translator_that_does_not_come_to_an_end(
    norm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There, the last token that is asked for is the end in any case."""
    model = small("transformer", dim=16, depth=1, heads=2, hidden=24, norm=norm)
    end = model.symbols.end[0]
    with torch.no_grad():
        next(x for name, x in model.net.named_parameters() if name.startswith("embed"))[end] *= 0.01
    assert end not in model.translate("the dog sees a cat", decoding=replace(GREEDY, longest=20)).nbest[0].ids
    assert exported(model, tmp_path, capsys)["compared"] == ["numbers", "token ids", "generated text"]


def test_generators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small("gpt", length=60, dim=16, depth=1, heads=2)
    assert exported(model, tmp_path, capsys)["compared"] == ["numbers", "token ids", "generated text"]


def first_case(family: str, to: str) -> list[str]:
    return [case for case in CASES if FAMILY_OF[case] == family and (case in TIMM) == (to == "timm")][:1]


IMAGES = ["vit", "swin", "deit", "levit", "detr", "resnet", "cait"]


@pytest.mark.parametrize(
    ("case", "to"), [(case, to) for family in IMAGES for to in ("hf", "timm") for case in first_case(family, to)]
)
def test_images(case: str, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(reference(case), tmp_path / "there")
    assert exported(source, tmp_path, capsys, "--to", to)["compared"] == ["numbers"]


@pytest.mark.parametrize("case", ["t5", "switch", "gpt", "gpt-llama"])
def test_imported_writers(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(reference(case), tmp_path / "there")
    assert exported(source, tmp_path, capsys)["compared"] == ["numbers"]


def test_an_unfinished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(event: regard.TrainingEvent) -> None:
        raise regard.StopTraining

    rows = [(f"a lovely day {i}", "good") for i in range(60)] + [(f"rain again {i}", "bad") for i in range(60)]
    settings = {"model.dim": 16, "model.depth": 1, "model.heads": 2, "train.steps": 4, "train.evaluate": 1}
    regard.train(
        "classify",
        rows,
        folder=tmp_path / "run",
        settings=settings | {"data.vocabulary.size": 300, "train.save": 1},
        callbacks={"evaluated": stop},
        progress=False,
    )
    assert exported(tmp_path / "run", tmp_path, capsys)["compared"] == ["numbers", "token ids"]


def test_a_refused_folder_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(model: Model, folder: Path) -> None:
        assert (folder / "config.json").exists()
        raise InputError("the exported folder does not give the same", fix="please report it")

    monkeypatch.setattr("regard.export_check.check_export", refused)
    save(reader("label", "classify"), tmp_path / "ours")
    assert main(["export", str(tmp_path / "ours"), str(tmp_path / "out")]) == 2
    assert "the folder was removed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_masks_are_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vocabulary of ours: the pipeline finds the mask in a text, and fills it as we do."""
    text = with_mask(reader("words", "masked").text())
    model = replace(reader("words", "masked", vocab=text.tokenizer.get_vocab_size()), processor=text)
    exported(model, tmp_path, capsys)
    fill = transformers.pipeline("fill-mask", model=str(tmp_path / "out"), top_k=3)
    ours = model.look("the <mask> sees a cat").answer.places[0][1]
    assert [one["score"] for one in fill("the <mask> sees a cat")] == pytest.approx([x for _, x in ours[:3]], abs=1e-5)
