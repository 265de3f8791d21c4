"""Which time steps a plan visits."""

from itertools import pairwise

import pytest

from regard.sample.plan import plan_steps
from regard.sample.schedules import NoiseSchedule
from regard.sample.settings import Denoising
from regard.sample.spacing import SPACINGS, interval_times, spaced_times


def test_spacings_of_ten_steps() -> None:
    """Table 2 of Lin et al."""
    assert spaced_times("leading", 10, 1000, 1) == [901, 801, 701, 601, 501, 401, 301, 201, 101, 1]
    assert spaced_times("trailing", 10, 1000) == [999, 899, 799, 699, 599, 499, 399, 299, 199, 99]
    assert spaced_times("linspace", 10, 1000) == [999, 888, 777, 666, 555, 444, 333, 222, 111, 0]
    assert interval_times("linspace", 9, 1000) == [999, 888, 777, 666, 555, 444, 333, 222, 111]
    assert interval_times("leading", 9, 1000, 1) == [901, 801, 701, 601, 501, 401, 301, 201, 101]
    assert interval_times("trailing", 4, 1000) == [999, 749, 499, 249]


@pytest.mark.parametrize("spacing", SPACINGS)
def test_every_number_of_steps_is_as_many_steps(spacing: str) -> None:
    """Each time step once, from noisy to clean, none of them outside of what was trained."""
    for total in (1000, 37):
        for steps in range(1, total + 1):
            times = spaced_times(spacing, steps, total)
            assert len(times) == len(set(times)) == steps
            assert times == sorted(times, reverse=True)
            assert times[-1] >= 0
            assert times[0] < total
        assert times == list(reversed(range(total)))


def test_only_leading_begins_below_the_last_time_step() -> None:
    assert {spacing for spacing in SPACINGS for n in (1, 7, 50) if spaced_times(spacing, n, 1000)[0] < 999} == {
        "leading"
    }


@pytest.mark.parametrize("solver", ["ddpm", "ddim", "dpm-solver++", "plms", "euler"])
def test_impossible_plans_are_refused(solver: str) -> None:
    schedule = NoiseSchedule(steps=20)

    def plan(**changes: object) -> None:
        plan_steps(schedule, "noise", Denoising(solver=solver, **changes))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="steps = 21 is greater than the 20 time steps of the noise schedule"):
        plan(steps=21)
    with pytest.raises(ValueError, match="begin at time step"):
        plan(steps=10, spacing="leading", offset=12)
    plan(steps=20)


def test_a_time_step_is_not_visited_twice() -> None:
    with pytest.raises(ValueError, match="20 steps with spacing 'leading' visit a time step twice"):
        interval_times("leading", 20, 20)
    with pytest.raises(ValueError, match="steps = 0 must be at least 1"):
        spaced_times("leading", 0, 20)


def test_pure_noise_tells_no_sample() -> None:
    schedule = NoiseSchedule(terminal="zero")
    with pytest.raises(ValueError, match="prediction = 'noise' cannot begin at a time step of pure noise"):
        plan_steps(schedule, "noise", Denoising())
    with pytest.raises(ValueError, match="solver = 'plms' cannot begin at a time step of pure noise"):
        plan_steps(schedule, "velocity", Denoising(solver="plms"))
    assert plan_steps(schedule, "noise", Denoising(spacing="leading")).moves[0].time < 999
    with pytest.raises(ValueError, match="prediction = 'epsilon' is not one of noise, velocity, sample"):
        plan_steps(schedule, "epsilon", Denoising())  # type: ignore[arg-type]


def test_moves_join() -> None:
    """Each begins where the one before has ended; the last ends without noise."""
    for solver in ("ddpm", "ddim", "dpm-solver++", "euler"):
        moves = plan_steps(NoiseSchedule(), "noise", Denoising(solver=solver, steps=13, spacing="linspace")).moves
        assert [move.last for move in moves] == [False] * 12 + [True]
        for one, other in pairwise(moves):
            assert one.target.alpha == other.source.alpha
        assert (moves[-1].target.alpha, moves[-1].target.noise) == (1, 0)


def test_strength_leaves_out_the_noisy_steps() -> None:
    whole = plan_steps(NoiseSchedule(), "noise", Denoising(solver="ddim", steps=10)).moves
    part = plan_steps(NoiseSchedule(), "noise", Denoising(solver="ddim", steps=10, strength=0.29)).moves
    assert [move.index for move in part] == [7, 8, 9]
    assert [move.time for move in part] == [move.time for move in whole[7:]]
    assert len(plan_steps(NoiseSchedule(), "noise", Denoising(solver="ddim", steps=10, strength=0.01)).moves) == 1
    with pytest.raises(ValueError, match=r"strength = 0.01 leaves none of 10 steps"):
        plan_steps(NoiseSchedule(), "noise", Denoising(solver="ddim", steps=10, strength=0.01, reference=True))
