"""Published weights give the published numbers."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.model import Model


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    found = shared_data / "weights_minilm_l6"
    if not found.is_dir():
        pytest.skip(f"needs the published weights of MiniLM, and there is no folder {found} (docs/data.md)")
    return found


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return regard.load(folder)


def test_sentence_embeddings(model: Model, folder: Path) -> None:
    """all-MiniLM-L6-v2, a file in float16: the first eight numbers of each embedding, and the cosines to the first."""
    golden = json.loads((folder / "golden.json").read_text())
    texts = [item["text"] for item in golden["items"]]
    found = model.embed(texts)
    first = torch.tensor([item["embedding_first8"] for item in golden["items"]])
    torch.testing.assert_close(found[:, :8], first, rtol=0, atol=1e-3)
    torch.testing.assert_close(found @ found[0], torch.tensor(golden["cos_to_first"]), rtol=0, atol=5e-4)
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(len(texts)))


def test_its_tokens(model: Model, folder: Path) -> None:
    golden = json.loads((folder / "golden.json").read_text())
    for item in golden["items"]:
        tokens = model.text().encode([item["text"]])
        assert tokens.ids.tolist() == [item["ids"]]


def test_one_text_equals_a_row_of_many(model: Model) -> None:
    texts = ["That is a happy person", "Today is a sunny day, and it will stay so for a week.", "No"]
    together = model.embed(texts)
    for text, row in zip(texts, together, strict=True):
        torch.testing.assert_close(model.embed(text)[0], row, rtol=0, atol=1e-5)
    assert sum(x.numel() for x in model.parameters()) == 22_713_216
