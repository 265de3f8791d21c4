"""The table of figures: every picture of the lectures that the library draws again, by its number in the spec sheet.

Reading the table imports neither torch nor matplotlib.
"""

import ast
import importlib
import json
import os
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regard import __version__

if TYPE_CHECKING:
    from regard.figures.figure import FigureModule, Numbers

FIGURES: dict[str, str] = {
    "1.1": "regard.figures.foundations.width",
    "1.1b": "regard.figures.foundations.pixels",
    "1.2": "regard.figures.foundations.perplexity",
    "1.2b": "regard.figures.foundations.contexts",
    "1.2c": "regard.figures.foundations.search_box",
    "1.3": "regard.figures.foundations.vowels",
    "1.3b": "regard.figures.foundations.letters",
    "1.4": "regard.figures.recurrent.unfolded",
    "1.4b": "regard.figures.recurrent.layers",
    "1.4c": "regard.figures.recurrent.sharing",
    "1.4d": "regard.figures.recurrent.stacked",
    "1.5": "regard.figures.recurrent.gru",
    "1.6": "regard.figures.recurrent.lstm",
    "1.7": "regard.figures.recurrent.both_ways",
    "1.7b": "regard.figures.recurrent.tagging",
    "1.8": "regard.figures.recurrent.long_gradients",
    "1.8b": "regard.figures.recurrent.adding",
    "1.9": "regard.figures.recurrent.five",
    "1.9b": "regard.figures.recurrent.verse",
    "1.9c": "regard.figures.recurrent.captions",
    "1.9d": "regard.figures.recurrent.opinion",
    "1.10": "regard.figures.recurrent.bird",
    "1.10b": "regard.figures.recurrent.decoders",
    "1.10c": "regard.figures.recurrent.backwards",
    "1.10d": "regard.figures.recurrent.distance",
    "1.11": "regard.figures.recurrent.lengths",
    "1.11b": "regard.figures.recurrent.search",
    "1.11c": "regard.figures.recurrent.published",
    "1.11d": "regard.figures.recurrent.real_lengths",
    "2.1": "regard.figures.attention.soft_dictionary",
    "2.1b": "regard.figures.attention.video_search",
    "2.1c": "regard.figures.attention.winner",
    "2.1d": "regard.figures.attention.build_up",
    "2.2": "regard.figures.attention.softmax_scale",
    "2.2b": "regard.figures.attention.winner_takes_all",
    "2.2c": "regard.figures.attention.root_scale",
    "2.3": "regard.figures.attention.factorised",
    "2.3b": "regard.figures.attention.additive_cost",
    "2.3c": "regard.figures.attention.as_good",
    "2.4": "regard.figures.attention.step_by_step",
    "2.4b": "regard.figures.attention.server_sense",
    "2.4c": "regard.figures.attention.matrices",
    "2.4d": "regard.figures.attention.dense_cost",
    "2.4e": "regard.figures.attention.dot_stack",
    "2.5": "regard.figures.attention.gpt3_sizes",
    "2.5b": "regard.figures.attention.multi_head",
    "2.5c": "regard.figures.attention.value_rank",
    "2.5d": "regard.figures.attention.two_lookups",
    "2.5e": "regard.figures.attention.head_grid",
    "2.6": "regard.figures.attention.wiring",
    "2.6b": "regard.figures.attention.no_mask",
    "2.6c": "regard.figures.attention.river_bank",
    "2.7": "regard.figures.attention.mask_matrices",
    "2.7b": "regard.figures.attention.off_by_one",
    "2.8": "regard.figures.attention.cost_chart",
    "2.8b": "regard.figures.attention.all_pairs",
    "2.8c": "regard.figures.attention.all_costs",
    "3.1": "regard.figures.learning.neighbours",
    "3.1b": "regard.figures.learning.company",
    "3.1c": "regard.figures.learning.head_start",
    "3.2": "regard.figures.transformer.waves",
    "3.2b": "regard.figures.transformer.reversal",
    "3.3": "regard.figures.transformer.residuals",
    "3.3b": "regard.figures.transformer.depth",
    "3.4": "regard.figures.transformer.axes_normalised",
    "3.4b": "regard.figures.transformer.batch_of_one",
    "3.4c": "regard.figures.transformer.norms",
    "3.5": "regard.figures.transformer.placements",
    "3.5b": "regard.figures.transformer.gradients",
    "3.5c": "regard.figures.transformer.warm_up",
    "3.6": "regard.figures.transformer.sublayers",
    "3.6b": "regard.figures.transformer.amplification",
    "3.6c": "regard.figures.transformer.dependency",
    "3.6d": "regard.figures.transformer.admin_curves",
    "3.7": "regard.figures.transformer.whole",
    "3.7b": "regard.figures.transformer.scores",
    "3.7c": "regard.figures.transformer.side_by_side",
    "3.7d": "regard.figures.transformer.opening",
    "3.7e": "regard.figures.transformer.equal_time",
    "3.8": "regard.figures.transformer.decoding",
    "3.8b": "regard.figures.transformer.cache_cost",
    "3.9": "regard.figures.learning.shifted",
    "3.9b": "regard.figures.learning.song",
    "3.9c": "regard.figures.learning.exposure",
    "3.10": "regard.figures.learning.in_parallel",
    "3.11": "regard.figures.learning.distillation",
    "3.11b": "regard.figures.learning.students",
    "3.11c": "regard.figures.learning.missing_three",
    "3.11d": "regard.figures.learning.caption_students",
    "4.1": "regard.figures.text.both_sides",
    "4.1b": "regard.figures.text.fifteen",
    "4.1c": "regard.figures.text.two_kinds",
    "4.1d": "regard.figures.text.blanks",
    "4.1e": "regard.figures.text.few_labels",
    "4.2": "regard.figures.text.decoder_stack",
    "4.2b": "regard.figures.text.two_sizes",
    "4.2c": "regard.figures.text.bits",
    "4.3": "regard.figures.text.few_shot",
    "4.3b": "regard.figures.text.in_context",
    "4.3c": "regard.figures.text.eight_sizes",
    "4.4": "regard.figures.text.one_box",
    "4.4b": "regard.figures.text.staircase",
    "4.4c": "regard.figures.text.one_net",
    "4.4d": "regard.figures.text.longer",
    "4.5": "regard.figures.text.switch_layer",
    "4.5b": "regard.figures.text.more_experts",
    "4.5c": "regard.figures.text.speed_up",
    "4.5d": "regard.figures.text.balance",
    "4.5e": "regard.figures.text.languages",
    "4.6": "regard.figures.text.paraphrases",
    "5.1": "regard.figures.vision.nested",
    "5.1b": "regard.figures.vision.effective",
    "5.2": "regard.figures.vision.one_pixel",
    "5.2b": "regard.figures.vision.corners",
    "5.3": "regard.figures.vision.words_of_pixels",
    "5.3b": "regard.figures.vision.hungry",
    "5.3c": "regard.figures.vision.against_bit",
    "5.3d": "regard.figures.vision.spoken",
    "5.4": "regard.figures.vision.three_panels",
    "5.5": "regard.figures.vision.two_tokens",
    "5.5b": "regard.figures.vision.strip",
    "5.5c": "regard.figures.vision.distilled",
    "5.5d": "regard.figures.vision.recipe",
    "5.5e": "regard.figures.vision.speed_and_sense",
    "5.6": "regard.figures.vision.late_token",
    "5.6b": "regard.figures.vision.layer_scale",
    "5.6c": "regard.figures.vision.class_maps",
    "5.7": "regard.figures.vision.pyramid_of_windows",
    "5.7b": "regard.figures.vision.partition",
    "5.7c": "regard.figures.vision.linear_cost",
    "5.7d": "regard.figures.vision.shifts",
    "5.7e": "regard.figures.vision.tiny_imagenet",
    "5.8": "regard.figures.vision.res_post",
    "5.8b": "regard.figures.vision.variance",
    "5.8c": "regard.figures.vision.larger_windows",
    "5.9": "regard.figures.vision.outlook_box",
    "5.9b": "regard.figures.vision.outlookers",
    "5.10": "regard.figures.vision.coarse_and_fine",
    "5.10b": "regard.figures.vision.fine_detail",
    "5.10c": "regard.figures.vision.pushed",
    "5.11": "regard.figures.vision.shrinking",
    "5.11b": "regard.figures.vision.front",
    "5.12": "regard.figures.vision.pipeline",
    "5.12b": "regard.figures.vision.assigned",
    "5.12c": "regard.figures.vision.heard",
    "5.12d": "regard.figures.vision.query_slots",
    "5.12e": "regard.figures.vision.outlined",
    "5.12f": "regard.figures.vision.cells",
    "5.12g": "regard.figures.vision.published_boxes",
    "10.1": "regard.figures.efficient.masks",
    "10.1b": "regard.figures.efficient.near_zero",
    "10.1c": "regard.figures.efficient.near_and_far",
    "10.2": "regard.figures.efficient.random_block",
    "10.3": "regard.figures.efficient.features",
    "10.3b": "regard.figures.efficient.brackets",
    "10.3c": "regard.figures.efficient.swapped",
    "10.3d": "regard.figures.efficient.equal_seconds",
    "10.4": "regard.figures.efficient.guessed",
    "10.4b": "regard.figures.efficient.synthesized",
    "10.4c": "regard.figures.efficient.recalled",
    "10.5": "regard.figures.efficient.low_rank",
    "10.5b": "regard.figures.efficient.spectra",
    "10.5c": "regard.figures.efficient.summed_up",
    "10.5d": "regard.figures.efficient.fewer_keys",
    "10.5e": "regard.figures.efficient.longer_inputs",
    "10.6": "regard.figures.efficient.buckets",
    "10.6b": "regard.figures.efficient.pies",
    "10.6c": "regard.figures.efficient.two_streams",
    "10.6d": "regard.figures.efficient.flat_memory",
    "10.6e": "regard.figures.efficient.said_again",
    "10.6f": "regard.figures.efficient.more_rounds",
    "10.6g": "regard.figures.efficient.pixel_by_pixel",
    "10.7": "regard.figures.efficient.tartan",
    "10.7b": "regard.figures.efficient.any_order",
    "10.7c": "regard.figures.efficient.asks_again",
    "10.8": "regard.figures.efficient.workspace",
    "10.8b": "regard.figures.efficient.equilateral",
    "10.9": "regard.figures.efficient.mixer_sizes",
    "10.9b": "regard.figures.efficient.two_mlps",
    "10.9c": "regard.figures.efficient.shuffled_patches",
    "10.10": "regard.figures.efficient.what_moves",
    "10.10b": "regard.figures.efficient.fourier_box",
    "10.10c": "regard.figures.efficient.without_attention",
    "11.1": "regard.figures.looking.swaps",
    "11.1b": "regard.figures.looking.ibm",
    "11.2": "regard.figures.looking.eight",
    "11.2b": "regard.figures.looking.origin",
    "11.2c": "regard.figures.looking.animal",
    "11.3": "regard.figures.looking.rolled",
    "11.3b": "regard.figures.looking.twins",
    "11.4": "regard.figures.looking.covered",
    "11.5": "regard.figures.looking.far_heads",
    "11.7": "regard.figures.looking.candies",
    "11.8": "regard.figures.looking.beyond",
    "11.8b": "regard.figures.looking.crossing",
    "11.8c": "regard.figures.looking.tokenisers",
}

RESULTS = Path(__file__).parent / "results"  # what the last full run found, one small file a figure


def rows() -> list[dict[str, object]]:
    """One row for each figure: id, deck, title, claim, command, cost in seconds, and the last result."""
    table: list[dict[str, object]] = []
    for name, module in FIGURES.items():
        about = literals(module)
        row = {"id": name, "deck": " ".join(cast(tuple[str, ...], about["DECKS"])), "title": about["TITLE"]}
        row |= {"claim": about["CLAIM"], "command": command(name), "cost": about["COST"], "last": last(name)}
        table.append(row)
    return table


def cost(name: str) -> float:
    """Seconds on a quiet machine."""
    return float(cast(float, literals(FIGURES[name])["COST"]))


def run(name: str, out: Path, check: bool) -> dict[str, object]:
    """Compute a figure and draw it: <id>.png, <id>.svg, <id>.json in ``out``; with ``check``, ask whether it holds."""
    out.mkdir(parents=True, exist_ok=True)  # a figure may take hours: what is wrong with the folder is told before
    return tell(name, module(name).compute(), out, check)


def tell(name: str, numbers: "Numbers", out: Path, check: bool) -> dict[str, object]:
    """What ``run`` does, with numbers that were computed before."""
    from regard.style import METADATA, family

    code = module(name)
    checks = code.holds(numbers) if check else []
    failed = [one.name for one in checks if not one.ok]
    result: dict[str, object] = {"id": name, "title": code.TITLE, "holds": not failed if check else None}
    result |= {"failed": failed, "decks": list(code.DECKS), "claim": code.CLAIM, "command": command(name)}
    result |= {
        "seed": code.SEED,
        "regard": __version__,
        "checks": [asdict(one) for one in checks],
        "numbers": numbers,
    }
    with family():
        picture = code.draw(numbers)
        for kind in ("png", "svg"):
            picture.savefig(out / f"{name}.part.{kind}", metadata=METADATA[kind])
            os.replace(out / f"{name}.part.{kind}", out / f"{name}.{kind}")
    write(out / f"{name}.json", result)
    return result


def module(name: str) -> "FigureModule":
    return cast("FigureModule", importlib.import_module(FIGURES[name]))


def command(name: str) -> str:
    return f"regard figure {name}"


def last(name: str) -> str:
    """What the last recorded run found."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return "not recorded"
    result = json.loads(path.read_text(encoding="utf8"))
    if result["holds"]:
        return f"holds ({len(result['checks'])} checks)"
    return f"fails: {', '.join(result['failed'])}"


def literals(module: str) -> dict[str, object]:
    """The capitalised constants of a module, read from its text: importing it would import torch."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the table names {module}, which does not exist")
    found: dict[str, object] = {}
    for line in ast.parse(Path(spec.origin).read_text(encoding="utf8")).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            name = line.targets[0].id
            if name in ("TITLE", "DECKS", "CLAIM", "COST", "SEED"):
                found[name] = ast.literal_eval(line.value)
    return found


def write(path: Path, result: dict[str, object]) -> None:
    """Whole or not at all; a list of numbers on one line."""
    part = path.with_suffix(".part.json")
    part.write_text(compact(result) + "\n", encoding="utf8")
    os.replace(part, path)


def compact(value: object, indent: str = "") -> str:
    """JSON that a person can read: objects one entry a line, lists without objects on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(name)}: {compact(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return (
            "[\n"
            + ",\n".join(inner + json.dumps(part, ensure_ascii=False, allow_nan=False) for part in value)
            + f"\n{indent}]"
        )
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
