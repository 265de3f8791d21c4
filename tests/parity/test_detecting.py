"""Detection against the reference: its loss, its boxes in pixels, padded images one by one, and timm's backbones."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.modalities.boxes.detection import BoxedBatch, Detect, decode_boxes
from regard.models.detr import DETROutput
from regard.nn.convolution import real_pixels
from tests.parity.ours import assert_close
from tests.parity.references import detr, redraw
from tests.parity.theirs import transformers
from tests.parity.twins import batch, paired, run_reference, saved


def target(classes: int = 4) -> BoxedBatch:
    draw = torch.Generator().manual_seed(2)
    boxes = torch.rand(2, 3, 4, generator=draw) * 0.4 + 0.2
    labels = torch.randint(classes, (2, 3), generator=draw)
    labels[1, 1:] = -1
    return BoxedBatch(batch("detr")["images"], boxes, labels)


def as_theirs(wanted: BoxedBatch) -> list[dict[str, Tensor]]:
    return [
        {"class_labels": labels[labels >= 0], "boxes": boxes[labels >= 0]}
        for boxes, labels in zip(wanted.boxes, wanted.classes, strict=True)
    ]


def total(task: Detect, wanted: BoxedBatch) -> Tensor:
    (loss,), counts = task.losses(wanted, 0), task.counts(wanted)
    return sum((term.weight * term.sum / counts[term.count] for term in loss.terms.values()), torch.zeros(()))


def test_the_loss_and_its_gradient(tmp_path: Path) -> None:
    """Without the losses of earlier layers: a twin with one layer has none."""
    pair, wanted = paired("detr-basic", tmp_path / "theirs"), target()
    ours = total(Detect(pair.ours, tuple("abcd")), wanted)
    theirs = pair.theirs(wanted.images, labels=as_theirs(wanted)).loss
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    ours.backward()
    theirs.backward()
    for name, weight in {"class_labels_classifier": pair.ours.label, "model.input_projection": pair.ours.input}.items():
        their = pair.theirs.get_submodule(name).weight.grad
        torch.testing.assert_close(weight.weight.grad, their, rtol=1e-4, atol=1e-5)


def test_the_losses_of_earlier_layers(tmp_path: Path) -> None:
    """Their loss of what our net says after each layer. Their own net, asked for these losses, takes the norm of what
    goes on to the next layer as well, and so is another net: that is why its config is refused."""
    from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss

    pair, wanted = paired("detr", tmp_path / "theirs"), target()
    config = pair.theirs.config
    config.auxiliary_loss = True
    out = pair.ours(wanted.images)
    every = (*out.earlier, out)
    theirs, parts, _ = ForObjectDetectionLoss(
        out.logits, as_theirs(wanted), out.logits.device, out.boxes, config,
        torch.stack([x.logits for x in every]), torch.stack([x.boxes for x in every]),
    )  # fmt: skip
    assert {"loss_ce_0", "loss_bbox_0", "loss_giou_0"} <= parts.keys()
    torch.testing.assert_close(total(Detect(pair.ours, tuple("abcd")), wanted), theirs, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(pair.theirs(wanted.images).logits, out.logits, atol=1e-3)


def test_boxes_in_pixels(tmp_path: Path) -> None:
    processor = transformers.models.detr.image_processing_pil_detr.DetrImageProcessorPil
    out = DETROutput(torch.randn(3, 6, 5) * 2, torch.rand(3, 6, 4))
    sizes = torch.tensor([[100, 200], [33, 17], [5, 5]])
    theirs: list[dict[str, Any]] = processor().post_process_object_detection(
        SimpleNamespace(logits=out.logits, pred_boxes=out.boxes), threshold=0.4, target_sizes=sizes
    )
    for found, wanted in zip(decode_boxes(out, sizes, 0.4), theirs, strict=True):
        torch.testing.assert_close(found.scores, wanted["scores"])
        assert torch.equal(found.classes, wanted["labels"])
        torch.testing.assert_close(found.boxes, wanted["boxes"])


@pytest.mark.parametrize("case", ["detr", "detr-basic"])
def test_a_padded_batch_equals_each_image_by_itself(case: str, tmp_path: Path) -> None:
    """Theirs, padded, is not: its convolutions see the padding."""
    pair, sizes = paired(case, tmp_path), torch.tensor([[20, 28], [13, 9], [8, 28]])
    images = torch.randn(3, 3, 20, 28).masked_fill(~real_pixels(sizes, 20, 28)[:, None], 0.0)
    whole = pair.ours(images, sizes)
    for i, (rows, columns) in enumerate(sizes.tolist()):
        alone = pair.run_theirs({"images": images[i : i + 1, :, :rows, :columns]})
        found = {"logits": whole.logits[i : i + 1], "boxes": whole.boxes[i : i + 1]}
        assert_close(found, alone.outputs)
    padded = pair.theirs(images, pixel_mask=real_pixels(sizes, 20, 28).long())
    assert (padded.logits[1] - whole.logits[1]).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_backbone_of_timm(name: str, dilated: bool, tmp_path: Path) -> None:
    """As in the folders that are published; the smallest there is has eleven million weights."""
    pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    model = detr(backbone=name, dilation=dilated).eval()
    model.set_attn_implementation("eager")
    redraw(model, 0, size=0.05)
    folder = saved(model, tmp_path)
    inputs = {"images": torch.randn(1, 3, 40, 70)}
    theirs = run_reference("detr", model, inputs)
    said = json.loads((folder / "config.json").read_text())
    older = {key: x for key, x in said.items() if key != "backbone_config"}  # as it was said when they were published
    older |= {"backbone": name, "use_timm_backbone": True, "use_pretrained_backbone": True, "scale_embedding": False}
    older |= {"num_hidden_layers": said["encoder_layers"], "max_position_embeddings": 1024, "backbone_config": None}
    older |= {"dilation": dilated}
    for config in (said, older):
        (folder / "config.json").write_text(json.dumps(config))
        ours = regard.load(folder)
        assert ours.config.stride == (16 if dilated else 32)
        found = ours(inputs["images"])
        assert_close({"logits": found.logits, "boxes": found.boxes}, theirs.outputs)
