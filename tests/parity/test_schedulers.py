"""diffusers' schedulers, number by number: with ``reference`` we take their steps. Their files, read and written."""

import importlib.metadata
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.interop.schedulers import (
    DEFAULTS,
    SOLVERS,
    VERSION,
    export_scheduler,
    import_scheduler,
    read_scheduler_config,
)
from regard.sample.loop import draw_steps
from regard.sample.plan import Plan, plan_steps, starting_state
from regard.sample.schedules import reference_alphas
from regard.storage.documents import json_bytes
from tests.guard import mend_torchvision

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of their numbers
SHAPE = (2, 3, 4, 4)
CLASSES = tuple(DEFAULTS)
STABLE = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012, "clip_sample": False}
STABLE |= {"set_alpha_to_one": False, "steps_offset": 1, "skip_prk_steps": True}  # as its published folders say
DOUBLE = ("DDIMScheduler", "DDPMScheduler", "PNDMScheduler")  # the others compute in float32, whatever they are given
ETA = 0.6


@pytest.fixture(scope="module", autouse=True)
def diffusers_imported() -> None:
    made("DDIMScheduler")  # what it needs is imported when it is asked for


def diffusers() -> Any:
    mend_torchvision()
    found = pytest.importorskip("diffusers", reason="the reference is not installed: pip install regard[parity]")
    found.utils.logging.set_verbosity_error()
    return found


def made(kind: str, **keys: Any) -> Any:
    return getattr(diffusers(), kind).from_config({**keys, "_class_name": kind})


def net(noisy: Tensor, time: Tensor) -> Tensor:
    """Of no meaning: it only has to depend on all that it is given."""
    told = time.to(noisy).view(-1, *(1 for _ in noisy.shape[1:])) / 1000
    return 0.7 * torch.sin(1.3 * noisy.flip(-1) + 2 * told) + 0.4 * noisy


def generator(index: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + index)


@dataclass(frozen=True)
class Seen:
    state: Tensor  # where x = signal * sample + noise * noise
    sigma: float  # of their state, in which errors grow as large
    sample: Tensor | None


def theirs(scheduler: Any, steps: int, start: Tensor, begin: int = 0, sample: Tensor | None = None) -> Iterator[Seen]:
    scheduler.set_timesteps(steps)
    euler, takes = "Euler" in type(scheduler).__name__, inspect.signature(scheduler.step).parameters
    times = scheduler.timesteps[begin:]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(begin)
    x = start * scheduler.init_noise_sigma if sample is None else scheduler.add_noise(sample, start, times[:1])
    for i, time in enumerate(times):
        output = net(scheduler.scale_model_input(x, time), time.expand(len(x)))
        extra = {"generator": generator(begin + i)} if "generator" in takes else {}
        extra |= {"eta": ETA} if "eta" in takes else {}
        found = scheduler.step(output, time, x, **extra)
        x = found.prev_sample
        sigma = float(scheduler.sigmas[begin + i + 1]) if euler else 0.0
        before = float(scheduler.sigmas[begin + i]) if euler or hasattr(scheduler, "sigmas") else 0.0
        yield Seen(x / (sigma**2 + 1) ** 0.5, before, found.get("pred_original_sample"))


def fresh(dtype: torch.dtype) -> Any:
    return lambda index: torch.randn(SHAPE, generator=generator(index), dtype=dtype)


def difference(kind: str, plan: Plan, scheduler: Any, *, sample: Tensor | None = None) -> float:
    """The largest of all steps, as a share of how large their own state is."""
    dtype = torch.float64 if kind in DOUBLE else torch.float32
    start = torch.randn(SHAPE, generator=generator(-1), dtype=dtype)
    sample = None if sample is None else sample.to(dtype)
    begin = plan.moves[0].index
    found = draw_steps(net, starting_state(plan, start, sample), plan, fresh(dtype))
    pairs = zip(found, theirs(scheduler, plan.settings.steps, start, begin, sample), strict=True)
    worst = 0.0
    for ours, other in pairs:
        assert torch.isfinite(ours.state).all()
        size = 1 + other.sigma
        worst = max(worst, float((ours.state - other.state).abs().max()) / size)
        if other.sample is not None:
            size *= 1 + float(other.sample.abs().max())
            worst = max(worst, float((ours.sample - other.sample).abs().max()) / size)
    return worst


def planned(kind: str, steps: int, **keys: Any) -> Plan:
    found = import_scheduler({"_class_name": kind, **keys}, steps)
    changes = {"eta": ETA} if kind == "DDIMScheduler" else {}
    return plan_steps(found.schedule, found.prediction, replace(found.settings, reference=True, **changes))


SPACED = ("leading", "trailing", "linspace")
PREDICTED = ("epsilon", "v_prediction", "sample")
DRAWN = [
    (kind, spacing, prediction)
    for kind in CLASSES
    for spacing in SPACED
    for prediction in PREDICTED
    if (kind, prediction) != ("PNDMScheduler", "sample")  # which neither knows
]
EXACT = ("DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler")  # every bit


def bound(kind: str, plan: Plan) -> float:
    """Theirs of Euler holds images of the size of sigma in float32; the order of sums differs with PNDM."""
    if kind in EXACT:
        return 0.0
    source = plan.moves[0].source
    return 1e-12 if kind in DOUBLE else 1e-6 * float(1 + source.noise / source.signal)


def assert_equal(kind: str, steps: int, **keys: Any) -> None:
    plan = planned(kind, steps, **keys)
    assert difference(kind, plan, made(kind, **keys)) <= bound(kind, plan)


@pytest.mark.parametrize("steps", [10, 13, 50])
@pytest.mark.parametrize(("kind", "spacing", "prediction"), DRAWN)
def test_every_step_of_a_run(kind: str, spacing: str, prediction: str, steps: int) -> None:
    """With the schedule of Stable Diffusion, and with what the reference does where nothing is told."""
    told = {"timestep_spacing": spacing, "prediction_type": prediction}
    assert_equal(kind, steps, **STABLE, **told)
    assert_equal(kind, steps, **told, skip_prk_steps=True)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("DDIMScheduler", {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}),
        ("DDPMScheduler", {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}),
        ("DDPMScheduler", {"variance_type": "fixed_large"}),
        ("DDPMScheduler", {"clip_sample": True, "clip_sample_range": 0.4}),
        ("DDIMScheduler", {"clip_sample": True, "clip_sample_range": 0.4}),
        ("DDIMScheduler", {"set_alpha_to_one": True}),
        ("PNDMScheduler", {"set_alpha_to_one": True}),
        ("DPMSolverMultistepScheduler", {"rescale_betas_zero_snr": True}),
        ("DPMSolverMultistepScheduler", {"solver_type": "heun"}),
        ("DPMSolverMultistepScheduler", {"solver_order": 1}),
        ("DPMSolverMultistepScheduler", {"final_sigmas_type": "sigma_min"}),
        ("DPMSolverMultistepScheduler", {"final_sigmas_type": "sigma_min", "lower_order_final": False}),
        ("DPMSolverMultistepScheduler", {"final_sigmas_type": "sigma_min", "euler_at_final": True}),
        ("EulerDiscreteScheduler", {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}),
        *((kind, {"beta_schedule": "squaredcos_cap_v2", "timestep_spacing": "leading"}) for kind in CLASSES),
        *((kind, {"num_train_timesteps": 100}) for kind in CLASSES),
    ],
)
def test_every_setting(kind: str, keys: dict[str, Any]) -> None:
    for steps in (11, 20):  # below and above those that the reference calls few
        assert_equal(kind, steps, **{**STABLE, "timestep_spacing": "trailing"} | keys)


def test_a_variance_of_the_reference_by_its_logarithm() -> None:
    plan = planned("DDPMScheduler", 10, **STABLE, variance_type="fixed_small_log")
    assert difference("DDPMScheduler", plan, made("DDPMScheduler", **STABLE, variance_type="fixed_small_log")) < 1e-6


@pytest.mark.parametrize("kind", CLASSES)
def test_a_run_that_begins_with_an_image(kind: str) -> None:
    plan = planned(kind, 10, **STABLE)
    plan = plan_steps(
        import_scheduler({"_class_name": kind, **STABLE}).schedule, "noise", replace(plan.settings, strength=0.6)
    )
    assert plan.moves[0].index == 4
    sample = torch.rand(SHAPE, generator=generator(0)) - 0.5
    # their DDIM, DDPM and PNDM take the roots of alpha in the precision of the image where they add the noise
    assert difference(kind, plan, made(kind, **STABLE), sample=sample) <= max(bound(kind, plan), 1e-6)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("kind", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_schedules(kind: str, terminal: bool) -> None:
    keys = {"beta_schedule": kind, "rescale_betas_zero_snr": terminal, "beta_start": 0.00085, "beta_end": 0.012}
    ours = import_scheduler({"_class_name": "DDIMScheduler", **keys}).schedule
    assert torch.equal(reference_alphas(ours), made("DDIMScheduler", **keys).alphas_cumprod)


def test_where_the_reference_misses_the_data() -> None:
    """What makes ``reference`` differ from the right way: this is known of the version that is installed."""
    scheduler = made("DDIMScheduler", timestep_spacing="linspace", clip_sample=False)
    scheduler.set_timesteps(10)
    noise, sample = torch.randn(SHAPE, dtype=torch.float64), torch.rand(SHAPE, dtype=torch.float64)
    x = scheduler.add_noise(sample, noise, scheduler.timesteps[:1])
    for time in scheduler.timesteps:
        x = scheduler.step(noise, time, x).prev_sample
    assert (x - sample).abs().max() > 0.05
    scheduler = made("DDIMScheduler", timestep_spacing="trailing")
    scheduler.set_timesteps(61)
    assert scheduler.timesteps[-1] == -1
    with pytest.raises(ValueError, match="steps = 61 and spacing = 'trailing' the reference visits a time step -1"):
        planned("DDIMScheduler", 61, timestep_spacing="trailing")


@pytest.mark.parametrize("kind", CLASSES)
def test_defaults_are_the_references(kind: str) -> None:
    found = inspect.signature(getattr(diffusers(), kind).__init__).parameters.values()
    assert DEFAULTS[kind] == {x.name: x.default for x in found if x.default is not inspect.Parameter.empty}
    assert importlib.metadata.version("diffusers") == VERSION


@pytest.mark.parametrize("kind", CLASSES)
def test_files_go_in_and_out(kind: str, tmp_path: Path) -> None:
    """What the reference writes is read, and what we write says the same to the reference."""
    for keys in (STABLE, {"skip_prk_steps": True}, {**STABLE, "timestep_spacing": "trailing", "steps_offset": 0}):
        scheduler = made(kind, **keys)
        scheduler.save_config(tmp_path)
        found = import_scheduler(read_scheduler_config(tmp_path / "scheduler_config.json"))
        assert found.settings.solver == SOLVERS[kind]
        again = export_scheduler(found.schedule, found.prediction, found.settings)
        read = made(**json.loads(json_bytes(again)), kind=kind).config
        passed_over = set() if read.get("clip_sample") else {"clip_sample_range"}
        assert {key: read[key] for key in DEFAULTS[kind].keys() - passed_over} == {
            key: scheduler.config[key] for key in DEFAULTS[kind].keys() - passed_over
        }
        assert import_scheduler(again) == found


def test_published_folders_are_read() -> None:
    """As Stable Diffusion 1.5, 2.1 and XL have it: with keys of classes that their own does not know."""
    first = import_scheduler({**STABLE, "_class_name": "PNDMScheduler", "_diffusers_version": "0.6.0"})
    assert (first.schedule.kind, first.schedule.first, first.schedule.last) == ("scaled-linear", 0.00085, 0.012)
    assert (first.settings.solver, first.settings.offset, first.settings.final) == ("plms", 1, "first")
    assert first.prediction == "noise"
    second = import_scheduler({**STABLE, "_class_name": "DDIMScheduler", "prediction_type": "v_prediction"})
    assert (second.settings.solver, second.settings.clip, second.prediction) == ("ddim", None, "velocity")
    third = import_scheduler({**STABLE, "_class_name": "EulerDiscreteScheduler", "use_karras_sigmas": False})
    assert (third.settings.solver, third.settings.spacing) == ("euler", "linspace")


def test_absent_keys_mean_the_references_own_defaults() -> None:
    assert import_scheduler({"_class_name": "DDIMScheduler"}).settings.clip == 1.0
    assert import_scheduler({"_class_name": "DDIMScheduler"}).settings.spacing == "leading"
    assert import_scheduler({"_class_name": "PNDMScheduler", "skip_prk_steps": True}).settings.final == "first"
    assert import_scheduler({"_class_name": "DDIMScheduler"}).settings.final == "data"
    assert import_scheduler({"_class_name": "DPMSolverMultistepScheduler"}).settings.spacing == "linspace"


@pytest.mark.parametrize(
    ("kind", "keys", "told"),
    [
        ("UniPCMultistepScheduler", {}, "UniPCMultistepScheduler"),
        ("DDIMScheduler", {"thresholding": True}, "thresholding = True"),
        ("DDIMScheduler", {"trained_betas": [0.1, 0.2]}, "trained_betas"),
        ("DDIMScheduler", {"beta_schedule": "sigmoid"}, "beta_schedule = 'sigmoid'"),
        ("DDIMScheduler", {"prediction_type": "flow_prediction"}, "prediction_type = 'flow_prediction'"),
        ("DDIMScheduler", {"timestep_spacing": "even"}, "timestep_spacing = 'even'"),
        ("DDIMScheduler", {"num_train_timesteps": "many"}, "num_train_timesteps = 'many' is not an integer"),
        ("DDIMScheduler", {"steps_offset": -1}, "steps_offset = -1 must be at least 0"),
        ("DDIMScheduler", {"no_such_key": 3}, "unknown key 'no_such_key' = '3'"),
        ("DDPMScheduler", {"variance_type": "learned_range"}, "variance_type = 'learned_range'"),
        ("DDPMScheduler", {"variance_type": "fixed_large_log"}, "variance_type = 'fixed_large_log'"),
        ("PNDMScheduler", {}, "skip_prk_steps is absent"),
        ("PNDMScheduler", {"skip_prk_steps": False}, "skip_prk_steps = False"),
        ("PNDMScheduler", {"skip_prk_steps": True, "prediction_type": "sample"}, "prediction_type = 'sample'"),
        ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}, "algorithm_type"),
        ("DPMSolverMultistepScheduler", {"solver_order": 3}, "solver_order = 3 must be 1 or 2"),
        ("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}, "use_karras_sigmas = True"),
        ("DPMSolverMultistepScheduler", {"lambda_min_clipped": -5.1}, "lambda_min_clipped = -5.1"),
        ("EulerDiscreteScheduler", {"timestep_type": "continuous"}, "timestep_type = 'continuous'"),
        ("EulerDiscreteScheduler", {"interpolation_type": "log_linear"}, "interpolation_type"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_name(kind: str, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckpointError, match=told):
        import_scheduler({"_class_name": kind, **keys})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"solver": "euler", "clip": 1.0}, "clip = 1.0"),
        ({"solver": "ddim", "eta": 0.5}, "eta = 0.5"),
    ],
)
def test_what_their_file_cannot_say_is_refused_by_name(changes: dict[str, Any], told: str) -> None:
    found = import_scheduler({"_class_name": "DDIMScheduler"})
    with pytest.raises(CheckpointError, match=told):
        export_scheduler(found.schedule, found.prediction, replace(found.settings, **changes))
