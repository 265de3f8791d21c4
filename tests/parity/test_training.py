"""The translator of benchmarks/training.py learns as PyTorch's nn.Transformer does: losses, gradients, whole runs."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from benchmarks.translators import Plain, Words, even, our_loss, plain_loss, ragged, step
from regard.models.transformer import Config, Transformer
from tests.parity.stock import copy_to_ours, layer_weights

SMALL = Config(vocab=50, dim=12, depth=2, heads=3, hidden=20, dropout=0.0)
REAL = Config(vocab=8000, dim=128, depth=4, heads=4, hidden=256, dropout=0.0)


def pair(config: Config, dtype: torch.dtype) -> tuple[Plain, Transformer, list[tuple[Tensor, ...]]]:
    """Both with the same weights, and which weight is which."""
    with warnings.catch_warnings(action="ignore"):  # it says which shortcuts it will not take
        theirs = Plain(config).to(dtype)
    ours = Transformer(config).to(dtype)
    pairs: list[tuple[Tensor, ...]] = [(theirs.embed.weight, ours.embed.weight)]
    for stack, blocks in ((theirs.core.encoder, ours.encoder), (theirs.core.decoder, ours.decoder)):
        for layer, block in zip(stack.layers, blocks, strict=True):
            pairs += layer_weights(layer, block)
    copy_to_ours(pairs)
    return theirs, ours, pairs


@pytest.mark.parametrize("lengths", ["even", "ragged"])
@pytest.mark.parametrize(
    ("config", "dtype", "error"),
    [(SMALL, torch.float64, 1e-10), (SMALL, torch.float32, 1e-5), (REAL, torch.float32, 1e-5)],
    ids=["small-float64", "small-float32", "real-float32"],
)
def test_losses_and_gradients(config: Config, dtype: torch.dtype, error: float, lengths: str) -> None:
    theirs, ours, pairs = pair(config, dtype)
    (batch,) = even(4, 16, config.vocab) if lengths == "even" else ragged(1, 4, config.vocab, by_length=False)
    wanted, found = plain_loss(theirs, batch), our_loss(ours, batch)
    torch.testing.assert_close(found, wanted, rtol=error, atol=0)
    wanted.backward()
    found.backward()
    for their, *our in pairs:
        assert their.grad is not None
        gradient = torch.cat([part.grad for part in our])
        if their.grad.norm() > 1e-6:  # a key's bias moves no weight, so its gradient is rounding alone
            assert (gradient - their.grad).norm() <= 3 * error * their.grad.norm()


def test_whole_runs() -> None:
    """Twenty steps of Adam, fused or not, end at the same weights."""
    theirs, ours, pairs = pair(SMALL, torch.float64)
    batches = ragged(20, 4, SMALL.vocab, by_length=True)

    def run(net: nn.Module, loss: Callable[..., Tensor], fused: bool) -> list[float]:
        optimizer, losses = torch.optim.Adam(net.parameters(), 1e-3, fused=fused), []
        for batch in batches:

            def measured(batch: Words = batch) -> Tensor:
                y = loss(net, batch)
                losses.append(y.item())
                return y

            step(measured, optimizer)
        return losses

    wanted, found = run(theirs, plain_loss, False), run(ours, our_loss, True)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert wanted[0] != pytest.approx(wanted[-1], rel=1e-3), "nothing was learned"
    assert len(pairs) > 10


def test_what_is_together_is_of_like_length() -> None:
    """The same share of real words costs less padding; no batch is empty."""
    random, together = (ragged(6, 16, 50, by_length=by_length) for by_length in (False, True))
    padding = [sum(x.wanted.numel() for x in some) / sum(x.real for x in some) for some in (random, together)]
    assert len(random) == len(together) == 6
    assert 1.0 <= padding[1] < 1.3 < padding[0] < 3.0
