"""Admin, the places of norms in the Transformer, and positions of images: what only one model has."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import transformer, vit
from regard.nn.embed import Patches, scaled_embedding
from regard.nn.mask import ALL, CAUSAL
from regard.nn.residual import Admin, Branch, profile
from regard.nn.tap import capture
from tests.contracts.families import config, net
from tests.contracts.tools import close, numbers, stirred


def pair() -> tuple[transformer.Transformer, transformer.Transformer]:
    """The same weights, post-norm and Admin with every omega at 1."""
    post = stirred(transformer.Transformer(config("transformer", norm="post")))
    admin = transformer.Transformer(config("transformer", norm="admin")).double()
    problems = admin.load_state_dict(post.state_dict(), strict=False)
    assert not problems.unexpected_keys
    assert all(name.endswith(".omega") for name in problems.missing_keys)
    assert len(problems.missing_keys) == 2 * 2 + 2 * 3
    return post, admin


def test_omega_of_one_is_post_norm_to_the_bit() -> None:
    post, admin = pair()
    source, target = torch.randint(13, (2, 5)), torch.randint(13, (2, 4))
    assert torch.equal(post(source, target), admin(source, target))
    assert all(torch.equal(x.omega, torch.ones(16).double()) for x in admin.modules() if isinstance(x, Admin))


def omegas(stack: nn.Module) -> list[float]:
    found = [x.omega for x in stack.modules() if isinstance(x, Admin)]
    assert all(torch.equal(x, x[:1].expand(16)) for x in found)
    assert all(x.requires_grad for x in found)
    return [x[0].item() for x in found]


def by_hand(x: Tensor, memory: Tensor | None, stack: nn.ModuleList) -> tuple[list[float], Tensor]:
    """systems.md A15, over the sub-layers in the order in which they are reached."""
    w, found = 1.0, []
    for block in stack:
        mask = ALL if memory is None else CAUSAL
        branches = [(lambda y, b=block, mask=mask: b.mixer(y, mask=mask), block.mixer_residual)]
        if memory is not None:
            branches.append((lambda y, b=block: b.cross(y, memory), block.cross_residual))
        branches.append((block.ffn, block.ffn_residual))
        for f, residual in branches:
            found.append(w)
            y, skip = f(x), w * x
            w = math.sqrt(float(skip.var(unbiased=False) + y.var(unbiased=False)))
            x = residual.norm(skip + y)
    return found, x


@torch.no_grad()
@pytest.mark.parametrize("training", [False, True])
def test_profile(training: bool) -> None:
    """Encoder and decoder accumulate apart, every sub-layer counts, and the mode of the model stays as it was."""
    model = pair()[1].train(training)
    source, target = torch.randint(13, (4, 5)), torch.randint(13, (4, 4))
    model.profile(source, target)
    embed = lambda ids: model.tokens(ids, ALL)  # noqa: E731
    encoder, memory = by_hand(embed(source), None, model.encoder)
    decoder, _ = by_hand(embed(target), memory, model.decoder)
    torch.testing.assert_close(omegas(model.encoder), encoder)
    torch.testing.assert_close(omegas(model.decoder), decoder)
    assert omegas(model.encoder)[0] == omegas(model.decoder)[0] == 1.0
    assert [x.training for x in (model, model.encoder, model.decoder[1])] == [training] * 3
    close(model.encode(source), memory)


def test_profile_twice_is_profile_once() -> None:
    """Of the same weights and batch: what was set before does not matter."""
    model = pair()[1]
    source, target = torch.randint(13, (4, 5)), torch.randint(13, (4, 4))
    model.profile(source, target)
    once = omegas(model.decoder)
    model.profile(source, target)
    torch.testing.assert_close(omegas(model.decoder), once)
    assert all(p.grad is None for p in model.parameters())


class Stack(nn.Module):
    def __init__(self, depth: int, d: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Admin(nn.LayerNorm(d), Branch(d), d) for _ in range(depth))
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        for linear in self.maps:
            nn.init.normal_(linear.weight, std=d**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        for layer, f in zip(self.layers, self.maps, strict=True):
            x = layer(x, f)
        return x


def test_the_share_of_branches_falls() -> None:
    """Of many alike branches each has half of the variance where it joins; after profiling the i-th has 1/(i + 1)."""
    stack, x = Stack(12, 64), F.layer_norm(torch.randn(256, 64), (64,))

    def shares() -> list[float]:
        with capture(stack, "*") as seen:
            stack(x)
        found = []
        for i, layer in enumerate(stack.layers):
            said, skip = seen[f"layers.{i}.branch.said"][0], layer.omega * seen[f"layers.{i}.skip"][0]
            found.append(float((said.var() / (said + skip).var()).detach()))
        return found

    assert all(0.4 < share < 0.6 for share in shares())
    profile([stack], lambda: stack(x))
    assert all(0.7 < share * (i + 2) < 1.3 for i, share in enumerate(shares()))


def test_only_admin_can_be_profiled() -> None:
    with pytest.raises(KeyError, match="no tap matches"):
        pair()[0].profile(torch.randint(13, (1, 3)), torch.randint(13, (1, 3)))


@pytest.mark.parametrize("norm", ["pre", "post", "admin"])
def test_final_norms(norm: str) -> None:
    """Pre-norm ends each stack with one more norm; post-norm ends in a norm by itself."""
    source, target = torch.randint(16, (2, 5)), torch.randint(16, (2, 4))
    model = transformer.Transformer(config("transformer", norm=norm, vocab=16)).double()
    assert (model.encoder_norm is None, model.decoder_norm is None) == (norm != "pre",) * 2
    nn.init.eye_(model.embed.weight)  # then the logits are the states
    for states in (model.encode(source), model(source, target)):
        close(states.mean(-1), torch.zeros(states.shape[:2]).double(), 1e-9)
        close(states.var(-1, unbiased=False), torch.ones(states.shape[:2]).double(), 1e-2)


def test_embeddings_are_scaled_and_shared() -> None:
    model = net("transformer")
    ids = torch.randint(13, (2, 3))
    close(scaled_embedding(model.embed, ids), model.embed.weight[ids] * 4.0)
    with torch.no_grad():
        states = model.tokens(ids, ALL)
        plain = net("transformer", scaled=False)
        plain.embed = model.embed
        close(states - plain.tokens(ids, ALL), model.embed.weight[ids] * 3.0)
    assert sum(p.shape == (13, 16) for p in model.parameters()) == 1


def test_images_of_the_trained_size_and_of_others() -> None:
    model = net("vit")
    images = numbers(2, 2, 8, 8)
    plain = torch.cat((model.class_token.expand(2, -1, -1), model.patch(images).flatten(1, 2)), 1)
    close(model.tokens(images), plain + model.positions)
    wide = numbers(2, 2, 12, 20)
    grid = model.positions[:, 1:].reshape(1, 2, 2, 16).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(3, 5), mode="bicubic", align_corners=False).permute(0, 2, 3, 1).reshape(1, 15, 16)
    body = model.patch(wide).flatten(1, 2) + grid
    head = (model.class_token + model.positions[:, :1]).expand(2, -1, -1)
    close(model.tokens(wide), torch.cat((head, body), 1))
    assert model(wide).shape == (2, 5)
    with pytest.raises(ValueError, match="9 x 8 cannot be divided"):
        model(numbers(1, 2, 9, 8))


def test_patches_walk_row_by_row() -> None:
    patches = stirred(Patches(2, 3, 5))
    images = numbers(1, 3, 4, 6)
    found = patches(images)
    assert found.shape == (1, 2, 3, 5)
    weight = patches.projection.weight.reshape(5, -1)
    for i in range(2):
        for j in range(3):
            square = images[0, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(-1)
            close(found[0, i, j], weight @ square + patches.projection.bias)


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_pools(pool: str) -> None:
    model, images = net("vit", pool=pool, classes=0), numbers(2, 2, 8, 8)
    states = model.features(images)
    assert states.shape[1] == 4 + (pool == "class")
    close(model(images), states[:, 0] if pool == "class" else states.mean(1))


def test_drop_path_grows_with_depth() -> None:
    model = vit.ViT(config("vit", depth=5, drop_path=0.4))
    rates = [block.mixer_residual.branch.drop_path for block in model.blocks]
    torch.testing.assert_close(rates, [0.0, 0.1, 0.2, 0.3, 0.4])
    assert [block.ffn_residual.branch.drop_path for block in model.blocks] == rates
