"""Noise schedules and solvers <-> diffusers' scheduler_config.json.

In these files stand keys of other classes too: a config outlives a change of the class, and each class passes over what
it does not know. So a key that only another of the five classes reads is passed over here; any other unknown key is an
error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from regard.errors import CheckpointError
from regard.sample.prediction import Prediction
from regard.sample.schedules import NoiseSchedule
from regard.sample.settings import Denoising, SolverName
from regard.storage.documents import parse_json, read_bytes

from .defaults import ReferenceDefaults
from .foreign import ForeignConfig

VERSION = "0.42.1"  # of the reference, whose defaults these are; a test compares them
SHARED: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "trained_betas": None,
    "prediction_type": "epsilon",
    "steps_offset": 0,
}
THRESHOLDING = {"thresholding": False, "dynamic_thresholding_ratio": 0.995, "sample_max_value": 1.0}
CLIPPING = {"clip_sample": True, "clip_sample_range": 1.0}
SIGMAS = {"use_karras_sigmas": False, "use_exponential_sigmas": False, "use_beta_sigmas": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "DDIMScheduler": {
        **SHARED,
        **THRESHOLDING,
        **CLIPPING,
        "set_alpha_to_one": True,
        "timestep_spacing": "leading",
        "rescale_betas_zero_snr": False,
    },
    "DDPMScheduler": {
        **SHARED,
        **THRESHOLDING,
        **CLIPPING,
        "variance_type": "fixed_small",
        "timestep_spacing": "leading",
        "rescale_betas_zero_snr": False,
    },
    "DPMSolverMultistepScheduler": {
        **SHARED,
        **THRESHOLDING,
        **SIGMAS,
        "solver_order": 2,
        "algorithm_type": "dpmsolver++",
        "solver_type": "midpoint",
        "lower_order_final": True,
        "euler_at_final": False,
        "use_lu_lambdas": False,
        "use_flow_sigmas": False,
        "flow_shift": 1.0,
        "final_sigmas_type": "zero",
        "lambda_min_clipped": -float("inf"),
        "variance_type": None,
        "timestep_spacing": "linspace",
        "rescale_betas_zero_snr": False,
        "use_dynamic_shifting": False,
        "time_shift_type": "exponential",
    },
    "PNDMScheduler": {
        **SHARED,
        "skip_prk_steps": False,
        "set_alpha_to_one": False,
        "timestep_spacing": "leading",
    },
    "EulerDiscreteScheduler": {
        **SHARED,
        **SIGMAS,
        "interpolation_type": "linear",
        "sigma_min": None,
        "sigma_max": None,
        "timestep_spacing": "linspace",
        "timestep_type": "discrete",
        "rescale_betas_zero_snr": False,
        "final_sigmas_type": "zero",
    },
}
SOLVERS: dict[str, SolverName] = {
    "DDIMScheduler": "ddim",
    "DDPMScheduler": "ddpm",
    "DPMSolverMultistepScheduler": "dpm-solver++",
    "PNDMScheduler": "plms",
    "EulerDiscreteScheduler": "euler",
}
KINDS = {"linear": "linear", "scaled_linear": "scaled-linear", "squaredcos_cap_v2": "cosine"}
PREDICTIONS = {"epsilon": "noise", "v_prediction": "velocity", "sample": "sample"}
VARIANCES = {"fixed_small": "small", "fixed_small_log": "small", "fixed_large": "large"}
SPACINGS = {"leading": "leading", "trailing": "trailing", "linspace": "linspace"}
ENDINGS = {"zero": "data", "sigma_min": "first"}


@dataclass(frozen=True)
class ForeignScheduler:
    """What a scheduler_config.json says."""

    schedule: NoiseSchedule
    prediction: Prediction
    settings: Denoising


def read_scheduler_config(path: Path) -> dict[str, Any]:
    """The file, strictly, but for the one key whose default is no JSON number."""
    raw = re.sub(rb'("lambda_min_clipped"\s*:\s*)-Infinity', rb"\1null", read_bytes(path))
    return parse_json(raw, path)


def import_scheduler(
    data: Mapping[str, Any], steps: int = 50, where: str = "scheduler_config.json"
) -> ForeignScheduler:
    """Every key is read, or changes nothing at the value that it has, or is an error by name. The number of steps
    stands in no such file."""
    kind = str(data.get("_class_name"))[:60]
    if kind not in SOLVERS:
        raise CheckpointError(
            "unknown scheduler", where=where, got=f"_class_name = {kind!r}", expected=", ".join(SOLVERS)
        )
    theirs = ForeignConfig(data)
    theirs.assume(ReferenceDefaults(DEFAULTS[kind]))
    theirs.ignore("_class_name", "_diffusers_version")
    theirs.ignore(*({key for keys in DEFAULTS.values() for key in keys} - DEFAULTS[kind].keys()))
    found, impossible = None, []
    try:
        found = read_scheduler(theirs, kind, steps)
    except ValueError as error:
        impossible = str(error).split("\n")
    wrong = theirs.finish()
    if not theirs.guessed:  # else it follows from what could not be read
        wrong += impossible
    if wrong or found is None:
        raise CheckpointError("this scheduler cannot be converted exactly", where=where, got="\n".join(wrong))
    return found


def read_scheduler(theirs: ForeignConfig, kind: str, steps: int) -> ForeignScheduler:
    known = DEFAULTS[kind]
    theirs.expect("trained_betas", None)
    zero = "rescale_betas_zero_snr" in known and theirs.take("rescale_betas_zero_snr", bool)
    schedule: dict[str, Any] = {
        "kind": word(theirs, "beta_schedule", KINDS),
        "steps": theirs.size("num_train_timesteps", least=2),
        "first": theirs.share("beta_start"),
        "last": theirs.share("beta_end"),
        "terminal": "zero" if zero else "as-is",
    }
    offset = theirs.checked("steps_offset", int, lambda value: value >= 0, "at least 0")
    spacing = word(theirs, "timestep_spacing", SPACINGS)
    predictions = {key: value for key, value in PREDICTIONS.items() if kind != "PNDMScheduler" or key != "sample"}
    prediction = cast(Prediction, word(theirs, "prediction_type", predictions))
    own: dict[str, Any] = {
        "solver": SOLVERS[kind],
        "steps": steps,
        "spacing": spacing,
        "offset": offset,
        **solver_settings(theirs, kind),
    }
    return ForeignScheduler(NoiseSchedule(**schedule), prediction, Denoising(**own))


def solver_settings(theirs: ForeignConfig, kind: str) -> dict[str, Any]:
    """What only this class reads."""
    found: dict[str, Any] = {}
    if "thresholding" in DEFAULTS[kind]:
        theirs.expect("thresholding", False)
        theirs.ignore("dynamic_thresholding_ratio", "sample_max_value")
    if "clip_sample" in DEFAULTS[kind]:
        found["clip"] = theirs.above_zero("clip_sample_range") if theirs.take("clip_sample", bool) else None
        theirs.ignore("clip_sample_range")
    if "set_alpha_to_one" in DEFAULTS[kind]:
        found["final"] = "data" if theirs.take("set_alpha_to_one", bool) else "first"
    if kind == "DDPMScheduler":
        found["variance"] = word(theirs, "variance_type", VARIANCES)
    elif kind == "DPMSolverMultistepScheduler":
        found |= dpm_settings(theirs)
    elif kind == "PNDMScheduler":
        theirs.expect("skip_prk_steps", True)
        if "skip_prk_steps" not in theirs.given:
            theirs.problems.append("skip_prk_steps is absent, which means False, which is not supported, expected True")
    elif kind == "EulerDiscreteScheduler":
        theirs.expect("final_sigmas_type", "zero")
        theirs.expect("interpolation_type", "linear")
        theirs.expect("timestep_type", "discrete")
        refuse_sigmas(theirs)
        theirs.ignore("sigma_min", "sigma_max")  # which only those read
    return found


def dpm_settings(theirs: ForeignConfig) -> dict[str, Any]:
    theirs.expect("algorithm_type", "dpmsolver++")
    theirs.expect("variance_type", None)
    theirs.expect("lambda_min_clipped", -float("inf"), None)
    theirs.expect("use_lu_lambdas", False)
    theirs.expect("use_flow_sigmas", False)
    theirs.expect("use_dynamic_shifting", False)
    theirs.ignore("flow_shift", "time_shift_type")  # which only those read
    refuse_sigmas(theirs)
    short, always = theirs.take("lower_order_final", bool), theirs.take("euler_at_final", bool)
    return {
        "order": theirs.checked("solver_order", int, lambda value: value in (1, 2), "1 or 2"),
        "correction": word(theirs, "solver_type", {"midpoint": "midpoint", "heun": "heun"}),
        "final": word(theirs, "final_sigmas_type", ENDINGS),
        "first_order_end": "always" if always else "short" if short else "never",
    }


def refuse_sigmas(theirs: ForeignConfig) -> None:
    for key in SIGMAS:
        theirs.expect(key, False, None)


def word(theirs: ForeignConfig, key: str, known: Mapping[str, str]) -> str:
    """Ours for one of theirs."""
    theirs.read.add(key)
    value: Any = theirs.data.get(key)
    if isinstance(value, str) and value in known:
        return known[value]
    theirs.guess(f"{key} = {value!r}"[:100] + f" is not supported, expected {' or '.join(map(repr, known))}")
    return next(iter(known.values()))


def export_scheduler(schedule: NoiseSchedule, prediction: Prediction, settings: Denoising) -> dict[str, Any]:
    """Every key of their class that JSON can say. Steps, guidance and strength stand in no such file."""
    kind = next(name for name, solver in SOLVERS.items() if solver == settings.solver)
    found: dict[str, Any] = {
        "num_train_timesteps": schedule.steps,
        "beta_start": schedule.first,
        "beta_end": schedule.last,
        "beta_schedule": theirs_for(KINDS, schedule.kind),
        "prediction_type": theirs_for(PREDICTIONS, prediction),
        "timestep_spacing": settings.spacing,
        "steps_offset": settings.offset,
        "rescale_betas_zero_snr": schedule.terminal == "zero",
        "clip_sample": settings.clip is not None,
        "clip_sample_range": 1.0 if settings.clip is None else settings.clip,
        "set_alpha_to_one": settings.final == "data",
        "final_sigmas_type": theirs_for(ENDINGS, settings.final),
        "skip_prk_steps": True,
        "solver_order": settings.order,
        "solver_type": settings.correction,
        "lower_order_final": settings.first_order_end == "short",
        "euler_at_final": settings.first_order_end == "always",
    }
    refuse_lost(kind, schedule, prediction, settings)
    if kind == "DDPMScheduler":
        found["variance_type"] = theirs_for(VARIANCES, settings.variance)
    known = {key: value for key, value in DEFAULTS[kind].items() if value != -float("inf")}  # absent, it means that
    return {"_class_name": kind, "_diffusers_version": VERSION} | {key: found.get(key, known[key]) for key in known}


def refuse_lost(kind: str, schedule: NoiseSchedule, prediction: Prediction, settings: Denoising) -> None:
    """What their class has no key for."""
    known, lost = DEFAULTS[kind], []
    if settings.clip is not None and "clip_sample" not in known:
        lost.append(f"clip = {settings.clip}")
    if schedule.terminal == "zero" and "rescale_betas_zero_snr" not in known:
        lost.append("terminal = 'zero'")
    if prediction == "sample" and kind == "PNDMScheduler":
        lost.append("prediction = 'sample'")
    if settings.eta:
        lost.append(f"eta = {settings.eta}")
    if lost:
        raise CheckpointError(f"a {kind} cannot say this", got="\n".join(lost))


def theirs_for(words: Mapping[str, str], ours: str) -> str:
    return next(key for key, value in words.items() if value == ours)
