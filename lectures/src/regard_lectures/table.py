"""The table of figures: every picture of the lectures that the library draws again, by its number in the spec sheet.

Reading the table imports neither torch nor matplotlib.
"""

import importlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard_lectures import records, source

if TYPE_CHECKING:
    from regard_lectures.figure import FigureModule

FIGURES: dict[str, str] = {
    "1.1": "regard_lectures.foundations.width",
    "1.1b": "regard_lectures.foundations.pixels",
    "1.2": "regard_lectures.foundations.perplexity",
    "1.2b": "regard_lectures.foundations.contexts",
    "1.2c": "regard_lectures.foundations.search_box",
    "1.3": "regard_lectures.foundations.vowels",
    "1.3b": "regard_lectures.foundations.letters",
    "1.4": "regard_lectures.recurrent.unfolded",
    "1.4b": "regard_lectures.recurrent.layers",
    "1.4c": "regard_lectures.recurrent.sharing",
    "1.4d": "regard_lectures.recurrent.stacked",
    "1.5": "regard_lectures.recurrent.gru",
    "1.6": "regard_lectures.recurrent.lstm",
    "1.7": "regard_lectures.recurrent.both_ways",
    "1.7b": "regard_lectures.recurrent.tagging",
    "1.8": "regard_lectures.recurrent.long_gradients",
    "1.8b": "regard_lectures.recurrent.adding",
    "1.9": "regard_lectures.recurrent.five",
    "1.9b": "regard_lectures.recurrent.verse",
    "1.9c": "regard_lectures.recurrent.captions",
    "1.9d": "regard_lectures.recurrent.opinion",
    "1.10": "regard_lectures.recurrent.bird",
    "1.10b": "regard_lectures.recurrent.decoders",
    "1.10c": "regard_lectures.recurrent.backwards",
    "1.10d": "regard_lectures.recurrent.distance",
    "1.11": "regard_lectures.recurrent.lengths",
    "1.11b": "regard_lectures.recurrent.search",
    "1.11c": "regard_lectures.recurrent.published",
    "1.11d": "regard_lectures.recurrent.real_lengths",
    "2.1": "regard_lectures.attention.soft_dictionary",
    "2.1b": "regard_lectures.attention.video_search",
    "2.1c": "regard_lectures.attention.winner",
    "2.1d": "regard_lectures.attention.build_up",
    "2.2": "regard_lectures.attention.softmax_scale",
    "2.2b": "regard_lectures.attention.winner_takes_all",
    "2.2c": "regard_lectures.attention.root_scale",
    "2.3": "regard_lectures.attention.factorised",
    "2.3b": "regard_lectures.attention.additive_cost",
    "2.3c": "regard_lectures.attention.as_good",
    "2.4": "regard_lectures.attention.step_by_step",
    "2.4b": "regard_lectures.attention.server_sense",
    "2.4c": "regard_lectures.attention.matrices",
    "2.4d": "regard_lectures.attention.dense_cost",
    "2.4e": "regard_lectures.attention.dot_stack",
    "2.5": "regard_lectures.attention.gpt3_sizes",
    "2.5b": "regard_lectures.attention.multi_head",
    "2.5c": "regard_lectures.attention.value_rank",
    "2.5d": "regard_lectures.attention.two_lookups",
    "2.5e": "regard_lectures.attention.head_grid",
    "2.6": "regard_lectures.attention.wiring",
    "2.6b": "regard_lectures.attention.no_mask",
    "2.6c": "regard_lectures.attention.river_bank",
    "2.7": "regard_lectures.attention.mask_matrices",
    "2.7b": "regard_lectures.attention.off_by_one",
    "2.8": "regard_lectures.attention.cost_chart",
    "2.8b": "regard_lectures.attention.all_pairs",
    "2.8c": "regard_lectures.attention.all_costs",
    "3.1": "regard_lectures.learning.neighbours",
    "3.1b": "regard_lectures.learning.company",
    "3.1c": "regard_lectures.learning.head_start",
    "3.2": "regard_lectures.transformer.waves",
    "3.2b": "regard_lectures.transformer.reversal",
    "3.3": "regard_lectures.transformer.residuals",
    "3.3b": "regard_lectures.transformer.depth",
    "3.4": "regard_lectures.transformer.axes_normalised",
    "3.4b": "regard_lectures.transformer.batch_of_one",
    "3.4c": "regard_lectures.transformer.norms",
    "3.5": "regard_lectures.transformer.placements",
    "3.5b": "regard_lectures.transformer.gradients",
    "3.5c": "regard_lectures.transformer.warm_up",
    "3.6": "regard_lectures.transformer.sublayers",
    "3.6b": "regard_lectures.transformer.amplification",
    "3.6c": "regard_lectures.transformer.dependency",
    "3.6d": "regard_lectures.transformer.admin_curves",
    "3.7": "regard_lectures.transformer.whole",
    "3.7b": "regard_lectures.transformer.scores",
    "3.7c": "regard_lectures.transformer.side_by_side",
    "3.7d": "regard_lectures.transformer.opening",
    "3.7e": "regard_lectures.transformer.equal_time",
    "3.8": "regard_lectures.transformer.decoding",
    "3.8b": "regard_lectures.transformer.cache_cost",
    "3.9": "regard_lectures.learning.shifted",
    "3.9b": "regard_lectures.learning.song",
    "3.9c": "regard_lectures.learning.exposure",
    "3.10": "regard_lectures.learning.in_parallel",
    "3.11": "regard_lectures.learning.distillation",
    "3.11b": "regard_lectures.learning.students",
    "3.11c": "regard_lectures.learning.missing_three",
    "3.11d": "regard_lectures.learning.caption_students",
    "4.1": "regard_lectures.text.both_sides",
    "4.1b": "regard_lectures.text.fifteen",
    "4.1c": "regard_lectures.text.two_kinds",
    "4.1d": "regard_lectures.text.blanks",
    "4.1e": "regard_lectures.text.few_labels",
    "4.2": "regard_lectures.text.decoder_stack",
    "4.2b": "regard_lectures.text.two_sizes",
    "4.2c": "regard_lectures.text.bits",
    "4.3": "regard_lectures.text.few_shot",
    "4.3b": "regard_lectures.text.in_context",
    "4.3c": "regard_lectures.text.eight_sizes",
    "4.4": "regard_lectures.text.one_box",
    "4.4b": "regard_lectures.text.staircase",
    "4.4c": "regard_lectures.text.one_net",
    "4.4d": "regard_lectures.text.longer",
    "4.5": "regard_lectures.text.switch_layer",
    "4.5b": "regard_lectures.text.more_experts",
    "4.5c": "regard_lectures.text.speed_up",
    "4.5d": "regard_lectures.text.balance",
    "4.5e": "regard_lectures.text.languages",
    "4.6": "regard_lectures.text.paraphrases",
    "5.1": "regard_lectures.vision.nested",
    "5.1b": "regard_lectures.vision.effective",
    "5.2": "regard_lectures.vision.one_pixel",
    "5.2b": "regard_lectures.vision.corners",
    "5.3": "regard_lectures.vision.words_of_pixels",
    "5.3b": "regard_lectures.vision.hungry",
    "5.3c": "regard_lectures.vision.against_bit",
    "5.3d": "regard_lectures.vision.spoken",
    "5.4": "regard_lectures.vision.three_panels",
    "5.5": "regard_lectures.vision.two_tokens",
    "5.5b": "regard_lectures.vision.strip",
    "5.5c": "regard_lectures.vision.distilled",
    "5.5d": "regard_lectures.vision.recipe",
    "5.5e": "regard_lectures.vision.speed_and_sense",
    "5.6": "regard_lectures.vision.late_token",
    "5.6b": "regard_lectures.vision.layer_scale",
    "5.6c": "regard_lectures.vision.class_maps",
    "5.7": "regard_lectures.vision.pyramid_of_windows",
    "5.7b": "regard_lectures.vision.partition",
    "5.7c": "regard_lectures.vision.linear_cost",
    "5.7d": "regard_lectures.vision.shifts",
    "5.7e": "regard_lectures.vision.tiny_imagenet",
    "5.8": "regard_lectures.vision.res_post",
    "5.8b": "regard_lectures.vision.variance",
    "5.8c": "regard_lectures.vision.larger_windows",
    "5.9": "regard_lectures.vision.outlook_box",
    "5.9b": "regard_lectures.vision.outlookers",
    "5.10": "regard_lectures.vision.coarse_and_fine",
    "5.10b": "regard_lectures.vision.fine_detail",
    "5.10c": "regard_lectures.vision.pushed",
    "5.11": "regard_lectures.vision.shrinking",
    "5.11b": "regard_lectures.vision.front",
    "5.12": "regard_lectures.vision.pipeline",
    "5.12b": "regard_lectures.vision.assigned",
    "5.12c": "regard_lectures.vision.heard",
    "5.12d": "regard_lectures.vision.query_slots",
    "5.12e": "regard_lectures.vision.outlined",
    "5.12f": "regard_lectures.vision.cells",
    "5.12g": "regard_lectures.vision.published_boxes",
    "6.1": "regard_lectures.drawing.ring",
    "6.2": "regard_lectures.drawing.shuffle",
    "6.3": "regard_lectures.drawing.two_nets",
    "6.5": "regard_lectures.drawing.two_scores",
    "6.6": "regard_lectures.drawing.noise_schedules",
    "6.6b": "regard_lectures.drawing.perfect",
    "6.6c": "regard_lectures.drawing.orders",
    "10.1": "regard_lectures.efficient.masks",
    "10.1b": "regard_lectures.efficient.near_zero",
    "10.1c": "regard_lectures.efficient.near_and_far",
    "10.2": "regard_lectures.efficient.random_block",
    "10.3": "regard_lectures.efficient.features",
    "10.3b": "regard_lectures.efficient.brackets",
    "10.3c": "regard_lectures.efficient.swapped",
    "10.3d": "regard_lectures.efficient.equal_seconds",
    "10.4": "regard_lectures.efficient.guessed",
    "10.4b": "regard_lectures.efficient.synthesized",
    "10.4c": "regard_lectures.efficient.recalled",
    "10.5": "regard_lectures.efficient.low_rank",
    "10.5b": "regard_lectures.efficient.spectra",
    "10.5c": "regard_lectures.efficient.summed_up",
    "10.5d": "regard_lectures.efficient.fewer_keys",
    "10.5e": "regard_lectures.efficient.longer_inputs",
    "10.6": "regard_lectures.efficient.buckets",
    "10.6b": "regard_lectures.efficient.pies",
    "10.6c": "regard_lectures.efficient.two_streams",
    "10.6d": "regard_lectures.efficient.flat_memory",
    "10.6e": "regard_lectures.efficient.said_again",
    "10.6f": "regard_lectures.efficient.more_rounds",
    "10.6g": "regard_lectures.efficient.pixel_by_pixel",
    "10.7": "regard_lectures.efficient.tartan",
    "10.7b": "regard_lectures.efficient.any_order",
    "10.7c": "regard_lectures.efficient.asks_again",
    "10.8": "regard_lectures.efficient.workspace",
    "10.8b": "regard_lectures.efficient.equilateral",
    "10.9": "regard_lectures.efficient.mixer_sizes",
    "10.9b": "regard_lectures.efficient.two_mlps",
    "10.9c": "regard_lectures.efficient.shuffled_patches",
    "10.10": "regard_lectures.efficient.what_moves",
    "10.10b": "regard_lectures.efficient.fourier_box",
    "10.10c": "regard_lectures.efficient.without_attention",
    "11.1": "regard_lectures.looking.swaps",
    "11.1b": "regard_lectures.looking.ibm",
    "11.2": "regard_lectures.looking.eight",
    "11.2b": "regard_lectures.looking.origin",
    "11.2c": "regard_lectures.looking.animal",
    "11.3": "regard_lectures.looking.rolled",
    "11.3b": "regard_lectures.looking.twins",
    "11.4": "regard_lectures.looking.covered",
    "11.5": "regard_lectures.looking.far_heads",
    "11.7": "regard_lectures.looking.candies",
    "11.8": "regard_lectures.looking.beyond",
    "11.8b": "regard_lectures.looking.crossing",
    "11.8c": "regard_lectures.looking.tokenisers",
}

CONCLUSIONS = {  # what the decks end with, and the figure that makes a check of it
    "5.3b": "Data hungry",
    "2.8": "Quadratic",
    "11.8": "Outside of context window",
    "11.8b": "RNN better?",
    "11.8c": "Transform data into a sequence",
}


def names() -> list[str]:
    return list(FIGURES)


def rows() -> list[dict[str, Any]]:
    """One row for each figure: description, expectation, result, and whether the result is stale."""
    return [row(name) for name in FIGURES]


def row(name: str) -> dict[str, Any]:
    about, found = literals(name), record(name)
    told = {"id": name, "deck": " ".join(cast(tuple[str, ...], about["DECKS"])), "title": about["TITLE"]}
    told |= {"claim": about["CLAIM"], "command": records.command(name), "cost": about["COST"]}
    told |= {"conclusion": CONCLUSIONS.get(name), "expected": about.get("EXPECTED", about["CLAIM"])}
    if found is None:
        return told | {"last": "not recorded", "verdict": None, "agreement": "", "found": "", "stale": False}
    judged = {"last": records.words(found), "verdict": found["verdict"] or "quoted", "agreement": found["agreement"]}
    return told | judged | {"found": found["found"], "stale": records.stale(found, text_of(name))}


def cost(name: str) -> float:
    """Seconds on an idle machine."""
    return float(cast(float, literals(name)["COST"]))


def run(name: str, out: Path, check: bool) -> dict[str, Any]:
    """Compute and draw a figure as <id>.png, <id>.svg, <id>.json in ``out``; with ``check``, run its checks."""
    out.mkdir(parents=True, exist_ok=True)  # a figure may take hours: what is wrong with the folder is told before
    made = records.made(text_of(name))  # by the file as it is now: it may be edited in these hours
    result = records.judged(name, module(name), module(name).compute(), made)
    result |= {} if check else {"holds": None}
    tell(result, out)
    return result


def tell(result: dict[str, Any], out: Path) -> None:
    """Write the picture (png and svg) and the result of a figure to a folder."""
    from regard_lectures.pictures import encoded

    for kind in ("png", "svg"):
        records.replaced(out / f"{result['id']}.{kind}", encoded(module(result["id"]), result, kind))
    records.write(out / f"{result['id']}.json", result)


def record(name: str) -> dict[str, Any] | None:
    """The stored result of the last full run; None if there is none."""
    return records.read(name)


def picture(record: dict[str, Any], kind: str) -> bytes:
    """A recorded figure, drawn again: png or svg."""
    from regard_lectures.pictures import encoded

    return encoded(module(record["id"]), record, kind)


def module(name: str) -> "FigureModule":
    return cast("FigureModule", importlib.import_module(FIGURES[name]))


def lacking() -> list[str]:
    """The figures without EXPECTED or FOUND, for which the claim is used."""
    return [name for name in FIGURES if not {"EXPECTED", "FOUND"} <= set(literals(name))]


def literals(name: str) -> dict[str, object]:
    """The capitalised constants of a figure's module, read from its text: importing it would import torch."""
    return source.literals(text_of(name))


@cache
def text_of(name: str) -> str:
    """The source text of the file of a figure."""
    spec = find_spec(FIGURES[name])
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the module {FIGURES[name]} of figure {name} does not exist")
    return Path(spec.origin).read_text(encoding="utf8")
