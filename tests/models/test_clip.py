"""What only CLIP claims: a loss of the whole batch, in both directions, and texts that serve as labels."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.modalities.captions.matching import Match, Matched, framed_text, read_texts
from regard.modalities.captions.processor import Captions
from regard.modalities.captions.zero_shot import label_texts
from regard.modalities.images.processor import Images
from regard.modalities.text.vocabulary import END, Vocabulary
from regard.model import Model
from regard.models import clip, cliptext

CONFIG: clip.Config = clip.FAMILY.example()
WORDS = Vocabulary("words", 12).learn(["a photo of a red cat", "a green dog"])


def batch(rows: int = 4) -> Matched:
    draw = torch.Generator().manual_seed(0)
    keys = torch.arange(6) < torch.tensor([6, 3, 4, 5])[:rows, None]
    ids = torch.randint(4, 13, (rows, 6), generator=draw)
    return Matched(torch.randn(rows, 3, 8, 8, generator=draw), ids, keys)


def test_the_loss_by_hand() -> None:
    """Of each image the caption, and of each caption the image, at a factor of 1 / 0.07; as a sum over the rows."""
    torch.manual_seed(0)
    net, given = clip.CLIP(CONFIG), batch()
    task = Match(net)
    (loss,) = task.losses(given, 0)
    images = [net.image(x[None])[0].detach() for x in given.images]
    texts = [net.text(x[None, k])[0].detach() for x, k in zip(given.ids, given.keys, strict=True)]
    near = torch.stack([torch.stack([torch.cosine_similarity(a, b, 0) for b in texts]) for a in images]) / 0.07
    wanted = -(near.log_softmax(1).diagonal().sum() + near.log_softmax(0).diagonal().sum()) / 2
    assert loss.terms["loss"].sum.detach().item() == pytest.approx(wanted.item(), rel=1e-4)
    assert task.counts(given) == {"images": 4.0}
    with torch.no_grad():
        metrics = task.metrics(task.evaluate(given))
    assert metrics["loss"] == pytest.approx(wanted.item() / 4, rel=1e-4)
    assert metrics["recall_of_captions"] == (near.argmax(1) == torch.arange(4)).float().mean().item()
    assert metrics["recall_of_images"] == (near.argmax(0) == torch.arange(4)).float().mean().item()


def test_the_factor_has_a_bound_in_training_alone() -> None:
    net = clip.CLIP(CONFIG)
    torch.nn.init.constant_(net.scale, 9.0)
    with torch.no_grad():
        list(Match(net).losses(batch(), 0))
    assert float(net.scale.detach()) == 9.0
    list(Match(net).losses(batch(), 0))
    assert float(net.factor().detach()) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"ending": "highest"}, [1, 4, 2]),
        ({"end": 7}, [2, 4, 3]),  # the first of two; the only one; none: the last that is real
        ({}, [5, 4, 3]),
    ],
)
def test_where_a_text_ends(changes: dict[str, object], places: list[int]) -> None:
    net = cliptext.CLIPText(cliptext.Config(vocab=13, length=12, dim=8, depth=1, heads=2, hidden=8, **changes))
    ids = torch.tensor([[1, 9, 7, 3, 7, 2], [4, 5, 6, 3, 7, 12], [1, 2, 5, 4, 7, 12]])
    keys = torch.arange(6) < torch.tensor([6, 5, 4])[:, None]
    assert net.places(ids, keys).tolist() == places


def test_a_text_without_tokens_has_no_end() -> None:
    net = cliptext.CLIPText(cliptext.FAMILY.example())
    with pytest.raises(ValueError, match="got 2 rows of 0 tokens"):
        net(torch.zeros(2, 0, dtype=torch.long))
    assert net(torch.zeros(0, 0, dtype=torch.long)).shape == (0, 5)


@pytest.mark.parametrize("changes", [{"end": 13}, {"end": 3, "ending": "highest"}, {"text_dim": 18}, {"joint": 0}])
def test_bad_settings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        clip.Config(**vars(CONFIG) | changes)


def test_what_is_too_long_keeps_its_end() -> None:
    framed = framed_text(WORDS)
    found = read_texts(framed, ["a photo of a red cat a green dog", "dog"], 5)
    end = WORDS.id_of(END)
    assert found.ids[:, -1].tolist()[0] == end
    assert found.keys is not None
    assert [int(row[own].tolist()[-1]) for row, own in zip(found.ids, found.keys, strict=True)] == [end, end]
    assert WORDS.tokenizer.post_processor is None, "the tokenizer itself is not changed"


def test_a_label_of_one_word_is_put_into_a_sentence() -> None:
    assert label_texts(["cat", "a red cat"]) == ["a photo of a cat", "a red cat"]


def test_labels_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model = Model("clip", clip.CLIP(CONFIG).eval(), Captions(Images(size=8, channels=3), WORDS))
    regard.save(model, tmp_path / "model")
    Image.new("RGB", (9, 9), (200, 30, 30)).save(tmp_path / "cat.png")
    asked = ["classify", str(tmp_path / "model"), str(tmp_path / "cat.png"), "--top", "2", "--json"]
    assert main([*asked, "--labels", "cat, a green dog"]) == 0
    (found,) = json.loads(f"[{capsys.readouterr().out.strip().strip('[]')}]")
    wanted = model.classify(tmp_path / "cat.png", labels=["cat", "a green dog"])
    assert [one["label"] for one in found["ranked"]] == [name for name, _ in wanted.ranked]
    assert main(asked) != 0
    assert "was given none" in capsys.readouterr().out
