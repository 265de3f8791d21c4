"""Head importance: by silencing, and to first order."""

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.look.importance import ablated, divergence, expected, fall, rise, silent, slopes
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import listen
from tests.contracts.families import inputs, net


class Linear(nn.Module):
    """Linear in what each head of its one attention brings."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixer = MultiHeadAttention(8, 4)
        self.readout = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, d) -> (b,)"""
        return self.readout(self.mixer(x)).sum((1, 2))


def test_where_an_answer_is_linear_both_are_one() -> None:
    model, x = Linear().double(), torch.randn(3, 5, 8).double()
    exact, estimate = ablated(model, lambda: model(x), fall), slopes(model, lambda: model(x))
    assert list(exact) == list(estimate) == ["mixer"]
    assert exact["mixer"].shape == (3, 4)
    assert torch.allclose(exact["mixer"], estimate["mixer"], atol=1e-12)
    assert float(exact["mixer"].abs().min()) > 0
    biases = 5 * model.readout(model.mixer.out.bias)  # all that is left when all are silent
    assert torch.allclose(exact["mixer"].sum(-1), model(x) - biases, atol=1e-12)
    assert torch.allclose(expected(estimate["mixer"]), exact["mixer"].abs().sum(0) / 3)
    assert torch.allclose(ablated(model, lambda: model(x), rise)["mixer"], -exact["mixer"])


def test_a_single_answer_of_many_rows() -> None:
    model, x = Linear().double(), torch.randn(3, 5, 8).double()
    exact, estimate = ablated(model, lambda: model(x).sum(), fall), slopes(model, lambda: model(x).sum())
    assert exact["mixer"].shape == estimate["mixer"].shape == (4,)
    assert torch.allclose(exact["mixer"], estimate["mixer"], atol=1e-12)
    with pytest.raises(InputError, match="one number per row"):
        slopes(model, lambda: model(x)[:, None].expand(3, 2))


@pytest.mark.parametrize("family", ["gpt", "transformer", "vit", "swin", "rnn", "bert"])
def test_heads_are_silenced_one_by_one(family: str) -> None:
    """Zero is a factor of zero, given to the one head; and the estimate is the slope at a factor of one."""
    model, given = net(family), inputs(family)

    def answer() -> Tensor:
        output = model(**given)
        logits = output if isinstance(output, Tensor) else output.words
        return logits.log_softmax(-1).flatten(1)[:, 1]

    exact, estimate = ablated(model, answer, fall), slopes(model, answer)
    assert list(exact) == list(estimate)
    with torch.no_grad():
        before = answer()
        for name, worth in exact.items():
            assert worth.shape == (len(before), worth.shape[1])
            for head in {0, worth.shape[1] - 1}:

                def times(factor: float, name: str = name, head: int = head) -> Tensor:
                    def hear(_: str, x: Tensor) -> Tensor:
                        factors = torch.ones(x.shape[1], 1, 1).to(x)
                        factors[head] = factor
                        return x * factors

                    with listen(model, f"{name}.mixed", hear):
                        return answer()

                assert torch.allclose(worth[:, head], before - times(0.0), atol=1e-12), name
                near = (times(1 + 1e-5) - times(1 - 1e-5)) / 2e-5
                assert torch.allclose(estimate[name][:, head], near, atol=1e-7, rtol=1e-4), name


def test_an_image_has_its_own_windows() -> None:
    """A batch of images, each cut into four, is its images one by one."""
    model, images = net("swin", image=16, window=2), torch.randn(3, 2, 16, 16).double()
    together = slopes(model, lambda: model(images)[:, 1])
    for i in range(3):
        alone = slopes(model, lambda i=i: model(images[i : i + 1])[:, 1])
        for name, worth in alone.items():
            assert torch.allclose(together[name][i], worth[0], atol=1e-12), name


def test_a_head_that_says_nothing_is_worth_exactly_nothing() -> None:
    model, ids = net("gpt").float(), torch.randint(13, (2, 6))
    width = model.config.dim // model.config.heads
    with torch.no_grad():
        model.blocks[1].mixer.out.weight[:, 2 * width : 3 * width] = 0.0
    for found in (
        ablated(model, lambda: model(ids)[:, -1, 3], fall),
        slopes(model, lambda: model(ids)[:, -1, 3]),
        ablated(model, lambda: model(ids), divergence),
    ):
        worth = found["blocks.1.mixer"]
        assert worth[:, 2].tolist() == [0.0, 0.0]
        assert float(worth[:, [0, 1, 3]].abs().min()) > 0
        assert float(found["blocks.0.mixer"].abs().min()) > 0


def test_divergence_is_that_of_kullback_and_leibler() -> None:
    before, after = torch.randn(2, 3, 5).double(), torch.randn(2, 3, 5).double()
    found = divergence(before, after)
    p, q = before.softmax(-1), after.softmax(-1)
    assert torch.allclose(found, torch.stack([(p[i] * (p[i] / q[i]).log()).sum(-1).mean() for i in range(2)]))
    assert not torch.allclose(found, divergence(after, before), atol=1e-3)
    assert torch.allclose(divergence(before[:, 0], after[:, 0]), (p * (p / q).log()).sum(-1)[:, 0])
    assert divergence(before, before + 3).tolist() == pytest.approx([0, 0])
    barred = torch.tensor([[0.0, 1.0, -torch.inf]])  # a word that may not be said
    assert divergence(barred, barred).tolist() == [0.0]


def test_only_what_is_named_is_silenced_and_nothing_is_left_behind() -> None:
    model, given = net("transformer"), inputs("transformer")
    before = model(**given)
    found = ablated(model, lambda: model(**given), divergence, "decoder.*.cross")
    assert list(found) == ["decoder.0.cross", "decoder.1.cross"]
    assert torch.equal(model(**given), before)
    frozen = net("transformer").requires_grad_(False)
    assert list(slopes(frozen, lambda: frozen(**given)[:, 0, 0], "encoder.*")) == ["encoder.0.mixer", "encoder.1.mixer"]
    with pytest.raises(InputError, match=r"decoder\.1\.cross"):
        ablated(model, lambda: model(**given), divergence, "blocks.*")
    fourier = net("bert", attention="fourier")
    with pytest.raises(InputError, match="no heads"):
        slopes(fourier, lambda: fourier(torch.randint(13, (1, 4))).words.sum())
    with pytest.raises(InputError, match="does not depend"):
        slopes(model, lambda: torch.ones(2))


def test_a_layer_that_runs_again_is_silenced_every_time() -> None:
    model, ids = net("bert", shared=True), torch.randint(13, (2, 5))
    found = ablated(model, lambda: model(ids).words[:, 0, 1], fall)
    assert list(found) == ["blocks.0.mixer"]
    calls = []

    def hear(name: str, x: Tensor) -> Tensor:
        calls.append(name)
        return silent(1)(name, x)

    with torch.no_grad(), listen(model, "*.mixed", hear):
        after = model(ids).words[:, 0, 1]
    assert len(calls) == 2
    assert torch.allclose(found["blocks.0.mixer"][:, 1], model(ids).words[:, 0, 1] - after)
