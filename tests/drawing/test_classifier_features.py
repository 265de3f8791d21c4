"""FID-c: the features of a classifier of ours, whichever family it is of."""

from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from regard.errors import InputError
from regard.folders import load
from regard.modalities.drawing.feature_networks import ClassifierFeatures
from regard.modalities.drawing.image_batches import measure
from regard.modalities.drawing.scores import Features, fid_between, inception_score
from regard.modalities.images.digits import Digits
from regard.modalities.images.processor import Images
from regard.model import Model
from regard.zoo import FAMILIES

CLASSIFIERS = [
    name
    for name, family in FAMILIES.items()
    if family.takes == ("image",) and "classify" in family.verbs(family.example(), None)
]


def small_model(name: str) -> Model:
    family = FAMILIES[name]
    config = family.example()
    return Model(name, family.net(config), Images(size=family.get(config, "image") or 16, channels=config.channels))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_image_classifier_has_features(name: str) -> None:
    model = small_model(name)
    network = ClassifierFeatures(model)
    seen = network.see(torch.randint(256, (3, 3, 20, 20), dtype=torch.uint8))
    assert seen.features.ndim == 2
    assert len(seen.features) == 3
    assert seen.probabilities is not None
    assert torch.allclose(seen.probabilities.sum(1), torch.ones(3))
    assert not model.net.training


def test_there_are_many_of_them() -> None:
    assert {"vit", "deit", "cait", "levit", "mixer", "perceiver", "swin", "swinv2", "volo", "resnet", "mlp"} <= set(
        CLASSIFIERS
    )


def test_the_features_are_what_the_head_reads() -> None:
    model = small_model("resnet")
    model.net.head.weight.data.normal_()
    seen = ClassifierFeatures(model).see(torch.randint(256, (5, 3, 16, 16), dtype=torch.uint8))
    with torch.inference_mode():
        assert torch.allclose(model.net.head(seen.features).softmax(1), seen.probabilities)
    assert seen.features.std() > 0


def test_both_heads_of_deit_count() -> None:
    model = small_model("deit")
    seen = ClassifierFeatures(model).see(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    assert seen.features.shape == (1, 2 * model.config.dim)


class Unread(nn.Module):
    """Classes without a linear map of one vector."""

    def __init__(self, config: object) -> None:
        super().__init__()
        self.config, self.scores = config, nn.Conv2d(3, 5, 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.scores(images).mean(dim=(2, 3))


def test_what_has_no_features_is_refused_by_name() -> None:
    model = small_model("vit")
    network = ClassifierFeatures(replace(model, net=Unread(model.config)))
    with pytest.raises(InputError, match=r"no features to compare[\s\S]+got: a vit"):
        network.see(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    for name in ("captioner", "detr", "gpt"):
        family = FAMILIES[name]
        with pytest.raises(InputError, match=rf"features need an image classifier\s+got: a {name}"):
            ClassifierFeatures(Model(name, family.net(family.example())))


def test_a_name_is_that_of_weights_and_preparation() -> None:
    model = small_model("vit")
    name = ClassifierFeatures(model).name
    assert name.startswith("FID-c:")
    assert ClassifierFeatures(small_model("vit")).name != name
    assert ClassifierFeatures(replace(model, name="other")).name == name
    assert isinstance(model.processor, Images)
    assert ClassifierFeatures(replace(model, processor=replace(model.processor, mean=(0.4,)))).name != name
    model.net.head.bias.data[0] += 1
    assert ClassifierFeatures(model).name != name


def test_it_sees_images_as_when_it_classifies_them() -> None:
    """Larger ones are made small by the model's own filter."""
    model = load("digits")
    network = ClassifierFeatures(model)
    pixels = torch.randint(256, (1, 3, 31, 17), dtype=torch.uint8)
    told = model.classify(Image.fromarray(pixels[0].permute(1, 2, 0).numpy()))
    seen = network.see(pixels).probabilities
    assert seen is not None
    assert float(seen.max()) == pytest.approx(told.probability, abs=1e-6)
    assert network.resize == "8 x 8, bilinear, with antialias"
    assert network.antialias


def test_noise_raises_fid_and_lowers_the_score() -> None:
    """On scikit-learn's digits, with the shipped classifier (spec 6.5)."""
    network = ClassifierFeatures(load("digits"))
    images = torch.from_numpy(Digits(Images(size=8, channels=1), 0, 1797).pixels)[:, None]
    real, test = images[:1500], images[1500:].float()
    noise = torch.randn(test.shape, generator=torch.Generator().manual_seed(0))

    def measured(batches: Tensor) -> Features:
        return measure(network, batches.split(300))

    reference = measured(real)
    found = [measured((test + level * noise).round().clamp(0, 255).byte()) for level in (0, 32, 64, 96, 128)]
    distances = [fid_between(reference, one) for one in found]
    scores = [inception_score(one).mean for one in found]
    assert distances == sorted(distances)
    assert distances[-1] > 5 * distances[0]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < 0.7 * scores[0]
