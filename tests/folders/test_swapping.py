import pytest
import torch

import regard
from regard.errors import InputError


def test_the_same_attention_gives_the_same_bits() -> None:
    model = regard.load("recall")
    assert regard.swapped(model, "softmax").look("Anna sings .").answer == model.look("Anna sings .").answer


def test_another_attention_has_the_same_weights_and_looks_elsewhere() -> None:
    model = regard.load("recall")
    before = {name: x.clone() for name, x in model.state_dict().items()}
    other = regard.swapped(model, {"kind": "local", "window": 2})
    with torch.no_grad():
        for own in other.parameters():
            own.add_(1)  # and they share no memory
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    maps = [one.look("Anna sings . Boris paints . Anna").maps["blocks.0.mixer"].weights for one in (model, other)]
    assert maps[0][..., -1, 0].max() > 0
    assert maps[1][..., -1, 0].max() == 0


def test_features_come_from_the_seed() -> None:
    model = regard.load("recall")
    first, again, third = (regard.swapped(model, "performer", seed).look("Anna sings .") for seed in (0, 0, 1))
    name = "blocks.0.mixer"
    assert torch.equal(first.maps[name].weights, again.maps[name].weights)
    assert not torch.equal(first.maps[name].weights, third.maps[name].weights)


@pytest.mark.parametrize("attention", ["linformer", "nonsense", "fourier", "additive"])
def test_what_leaves_a_weight_over_or_lacks_one_is_refused(attention: str) -> None:
    with pytest.raises(InputError, match="attention"):
        regard.swapped(regard.load("recall"), attention)
