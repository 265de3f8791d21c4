"""The captioner: its halves are nets that are checked elsewhere, and what joins them are looks at patches."""

import torch
import torch.nn.functional as F

import regard
from regard.models.captioner import PRESETS, Captioner, Config
from regard.models.transformer import Config as OfTransformer
from regard.models.transformer import Transformer
from regard.models.vit import ViT
from regard.nn.cache import Cache
from tests.contracts.tools import stirred

SMALL = Config(image=8, patch=4, channels=2, vocab=13, dim=16, depth=2, decoder_depth=2, heads=4, hidden=24, dropout=0)


def built() -> Captioner:
    return stirred(Captioner(SMALL)).eval()


def test_its_eye_is_a_vit() -> None:
    net, vit = built(), ViT(SMALL.looking()).double().eval()
    vit.load_state_dict(net.encoder.state_dict())
    images = torch.randn(3, 2, 8, 8, dtype=torch.float64)
    assert torch.equal(net.encode(images), vit.features(images))


def test_its_hand_is_a_transformers() -> None:
    """The same weights in a pre-norm Transformer whose encoder is left out give the same words."""
    net = built()
    config = OfTransformer(
        vocab=13, dim=16, depth=2, heads=4, hidden=24, dropout=0.0, norm="pre", eps=SMALL.eps, activation="gelu"
    )
    other = Transformer(config).double().eval()
    own = {name: x for name, x in net.state_dict().items() if not name.startswith("encoder.")}
    renamed = {
        name.replace("norm.", "decoder_norm.") if name.startswith("norm.") else name: x for name, x in own.items()
    }
    rest = other.load_state_dict(renamed, strict=False)
    assert not rest.unexpected_keys
    assert all(name.startswith("encoder") for name in rest.missing_keys)
    memory, target = torch.randn(3, 4, 16, dtype=torch.float64), torch.randint(13, (3, 5))
    assert torch.allclose(net.decode(target, memory), other.decode(target, memory), atol=1e-12)


def test_every_word_looks_at_all_patches_and_the_axes_know_where_they_are() -> None:
    model = regard.build("captioner-tiny")
    looked = model(torch.randn(1, 3, 32, 32), torch.randint(64, (1, 5)), look="*")
    found = looked.maps["decoder.1.cross"]
    assert found.weights.shape == (1, 4, 5, 64)
    assert torch.allclose(found.weights.sum(-1), torch.ones(1, 4, 5))
    assert found.columns.grid == (8, 8)
    assert found.rows.kind == "text"


def test_written_word_by_word_it_says_the_same() -> None:
    net, images, target = built(), torch.randn(2, 2, 8, 8, dtype=torch.float64), torch.randint(13, (2, 6))
    memory, cache = net.encode(images), Cache()
    steps = [net.decode(target[:, i : i + 1], memory, cache=cache) for i in range(6)]
    assert torch.allclose(torch.cat(steps, 1), net(images, target), atol=1e-12)


def test_it_learns_to_name_what_it_sees() -> None:
    """Which of four patches is bright, by its number and an end: nothing but the image tells."""
    torch.manual_seed(0)
    net = Captioner(Config(**vars(SMALL) | {"dim": 32}))
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(120):
        places = torch.randint(4, (32,))
        images = F.one_hot(places, 4).float().view(32, 1, 2, 2).repeat(1, 2, 1, 1).repeat_interleave(4, 2)
        images = images.repeat_interleave(4, 3) + 0.1 * torch.randn(32, 2, 8, 8)
        given, wanted = F.pad(places[:, None], (1, 0), value=12), F.pad(places[:, None], (0, 1), value=11)
        loss = F.cross_entropy(net(images, given).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.05


def test_the_published_size_is_a_vit_base_and_four_layers() -> None:
    assert PRESETS["captioner-base"].looking().depth == 12
    assert len(regard.build("captioner-tiny").net.decoder) == 2
