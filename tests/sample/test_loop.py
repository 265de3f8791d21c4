"""The loop hands over after each step; and what is known of an image stays."""

import weakref

import pytest
import torch
from torch import Tensor

from regard.sample.inpainting import KnownPart, inpainting_input, latent_mask
from regard.sample.loop import draw_steps, drawn
from regard.sample.noise import ImageNoise
from regard.sample.plan import plan_steps, starting_state
from regard.sample.schedules import NoiseSchedule
from regard.sample.settings import SOLVER_NAMES, Denoising

SHAPE = (3, 4, 4)
NOISE = ImageNoise(0, range(2), SHAPE)
SCHEDULE = NoiseSchedule()


def denoise(noisy: Tensor, time: Tensor) -> Tensor:
    return torch.sin(noisy.roll(1, -1)) + time.view(-1, 1, 1, 1) / 1000


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_steps_are_told_in_order(solver: str) -> None:
    plan = plan_steps(SCHEDULE, "noise", Denoising(solver=solver, steps=5))
    told: list[Tensor] = []

    def listening(noisy: Tensor, time: Tensor) -> Tensor:
        told.append(time)
        return denoise(noisy, time)

    steps = list(draw_steps(listening, NOISE.start(), plan, NOISE))
    count = 6 if solver == "plms" else 5  # its first step is taken twice
    assert [step.index for step in steps] == list(range(count))
    assert {step.count for step in steps} == {count}
    assert [step.time for step in steps] == [int(time[0]) for time in told]
    assert all(time.dtype == torch.long and time.shape == (2,) for time in told)
    assert all(step.state.shape == step.sample.shape == (2, *SHAPE) for step in steps)
    assert torch.equal(steps[-1].state, drawn(denoise, NOISE.start(), plan, NOISE))
    assert torch.allclose(steps[-1].state, steps[-1].sample, atol=1e-5)  # the last step ends at its estimate


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_an_image_is_drawn_alike_however_many_are(solver: str) -> None:
    plan = plan_steps(SCHEDULE, "noise", Denoising(solver=solver, steps=4))
    found = []
    for count in (1, 4, 16):
        noise = ImageNoise(5, range(count), SHAPE)
        found.append(drawn(denoise, noise.start(), plan, noise))
    assert torch.equal(found[0], found[1][:1])
    assert torch.equal(found[1], found[2][:4])


def test_a_run_can_be_left() -> None:
    calls: list[int] = []

    def counting(noisy: Tensor, time: Tensor) -> Tensor:
        calls.append(int(time[0]))
        return noisy

    for step in draw_steps(counting, NOISE.start(), plan_steps(SCHEDULE, "noise", Denoising(steps=20)), NOISE):
        if step.index == 2:
            break
    assert len(calls) == 3


def test_no_graph_is_built_and_the_caller_keeps_gradients() -> None:
    weight = torch.ones((), requires_grad=True)
    plan = plan_steps(SCHEDULE, "noise", Denoising(steps=3))
    for step in draw_steps(lambda noisy, time: weight * noisy, NOISE.start(), plan, NOISE):
        assert not step.state.requires_grad
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_memory_does_not_grow_with_steps(solver: str) -> None:
    """What a caller lets go is gone, but for what the solver looks back at."""
    plan = plan_steps(SCHEDULE, "velocity", Denoising(solver=solver, steps=40))
    states: list[weakref.ref[Tensor]] = []
    alive = []
    for step in draw_steps(denoise, NOISE.start(), plan, NOISE):
        states += [weakref.ref(step.state), weakref.ref(step.sample)]
        del step
        alive.append(sum(one() is not None for one in states))
    assert max(alive) <= 6


def test_a_part_of_a_run_changes_an_image_less() -> None:
    sample = torch.rand(2, *SHAPE) - 0.5
    changes = []
    for strength in (0.1, 0.5, 1.0):
        plan = plan_steps(SCHEDULE, "noise", Denoising(solver="ddim", steps=10, strength=strength))
        found = drawn(denoise, starting_state(plan, NOISE.start(), sample), plan, NOISE)
        changes.append(float((found - sample).abs().mean()))
    assert changes == sorted(changes)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_known_pixels_stay_exactly(solver: str, reference: bool) -> None:
    sample, redraw = torch.rand(2, *SHAPE), torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    redraw[..., 2:] = True
    plan = plan_steps(SCHEDULE, "noise", Denoising(solver=solver, steps=6, reference=reference))
    known = KnownPart(sample, redraw, NOISE.start())
    steps = list(draw_steps(denoise, NOISE.start(), plan, NOISE, known))
    result = steps[-1].state
    assert torch.equal(result[..., :2], sample[..., :2])
    assert not torch.isclose(result[..., 2:], sample[..., 2:]).all()
    level = plan.moves[2].target  # before, it is as noisy as the rest
    there = level.signal * sample + level.noise * NOISE.start()
    assert torch.equal(steps[2].state[..., :2], there[..., :2])
    without = drawn(denoise, NOISE.start(), plan, NOISE)
    assert not torch.equal(without[..., 2:], result[..., 2:])  # the rest is drawn to fit


def test_a_mask_must_say_yes_or_no() -> None:
    with pytest.raises(ValueError, match=r"redraw is torch.float32, not bool"):
        KnownPart(torch.zeros(1, *SHAPE), torch.zeros(1, 1, 4, 4), torch.zeros(1, *SHAPE))


def test_the_input_of_a_denoiser_that_reads_masks() -> None:
    """Noisy latent, mask, masked image: in this order, for each image of the batch."""
    noisy, known, redraw = torch.randn(2, 4, 3, 3), torch.randn(1, 4, 3, 3), torch.rand(1, 1, 3, 3) > 0.5
    found = inpainting_input(noisy, redraw, known)
    assert found.shape == (2, 9, 3, 3)
    assert torch.equal(found[:, :4], noisy)
    assert torch.equal(found[1, 4:5], redraw[0].float())
    assert torch.equal(found[1, 5:], known[0])


def test_a_mask_of_latents_is_not_blurred() -> None:
    redraw = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    redraw[..., :4, 4:] = True
    assert latent_mask(redraw, 2, 2)[0, 0].tolist() == [[False, True], [False, False]]
