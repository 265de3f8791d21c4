"""Every sentence of the tour, held against the model: what it says must be what the library computes for that cell.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import math
import re
from typing import Any

import pytest
import torch

import regard

from .conftest import Open, until

END = re.compile(r"(?<=[.!])\s+(?=[A-Z“])")
SAYS = r"""
The model reads {size} (?:token|patche)s, and each of them has a row in the map
Here {rows} tokens of the {row_axis} attend to {size} (?:token|patche)s of the {column_axis}
The bars show the weights of one query, {row}
The row is named after the word that is written there; what the decoder is fed in this row is the word before
  it, {fed}
In {name}, the vector of the row {row}(?:, which was fed {fed},)? is projected to a query of {width} numbers:
  what it is looking for
The red bars show it; the first number is {query}
Each of the {size} (?:token|patche)s that can be attended to is projected to a key of the same length: what it
  offers
The teal bars show the key of {column}; its first number is {key}
The dot product, the sum of {width} products, is q · k = {product} for {row} and {column}
It is large where both vectors are long and point in the same direction
A sum of {width} products grows with their number, so it is multiplied by {scale}, which is 1/√{width}:
  {product} becomes {score}
{hidden} of {size} keys are hidden from {row}, those that come after it
Their scores are set to minus infinity, so their weights are 0
No key is hidden from {row}: all {size} take part
In cross-attention the whole {column_axis} is known before a word is written, so nothing has to be hidden
First the largest score of the row, {top}, is subtracted from each, which does not change the weights
The exponential of {score} − {top} is {power}
Divided by the sum of all of them, {total}, it is the weight of {column}, {weight}
It is the largest weight of the row
The largest weight of the row is that of {best}, {best_weight}
A third vector of {column}, its value of {value_width} numbers, is multiplied by its weight, {weight}
The sum over all keys is the output of the head for the row {row}: its first number is {mixed}
All of this was {name}
This layer has {heads} heads, the model {maps} maps {parts}
Each head has its own queries, so it can attend to different positions
Mask {column}, switch the head off, or change the temperature: the model runs again, and the new answer is
  shown beside the old one
A high weight does not prove that a token matters; interventions test it
"""  # each sentence that the tour has, and what of it is a number or a name; what is indented goes on
FED = "what the decoder is fed"
CASES = [
    # the page's own example, which opens with the row of "Hund": nothing of a cross-attention is hidden
    ("tatoeba-en-de", "She has never seen such a big dog in her life.", "decoder.1.cross", 2, 6, 7),
    # a decoder, whose rows see what comes before them, and are named after what they write
    ("tatoeba-en-de", "I like tea.", "decoder.0.mixer", 1, 2, 1),
    # a language model, whose rows are what it reads
    ("recall", "Anna sings . Boris paints . Anna", "blocks.1.mixer", 1, 4, 1),
]


def told(value: float, digits: int) -> str:
    return f"{'−' if value < 0 else ''}{abs(value):.{digits}f}"


def truth(model: Any, text: str, site: str, head: int, row: int, column: int) -> dict[str, Any]:
    """What can be said of a cell, by the library."""
    trace = model.look(text)
    found = trace.sites[site]
    cell = found.cell(head, row, column)
    named = {"tokens": text.split()} | {
        axis: [label.strip() for label in one.labels]
        for each in trace.sites.values()
        for axis, one in zip(each.axes, (each.rows, each.columns), strict=True)
        if one.labels is not None
    }
    rows, columns = found.axes
    scores = cell.scores
    weights = scores.softmax(-1)
    part = {"tatoeba-en-de": f"{site.split('.')[0]} {site.split('.')[1]}"}.get(
        model.name, f"layer {site.split('.')[1]}"
    )
    cross = ", cross" if site.endswith("cross") else ""
    power = float((scores[column] - scores.max()).exp())
    best = int(weights.argmax())
    return {
        "size": len(named[columns]), "rows": len(named[rows]), "row_axis": rows, "column_axis": columns,
        "row": f"“{named[rows][row]}”", "column": f"“{named[columns][column]}”",
        "fed": f"“{named['target'][row]}”" if rows == "written" else None,
        "name": f"{part}{cross}, head {head}", "width": len(cell.query), "value_width": len(cell.value),
        "query": told(float(cell.query[0]), 2), "key": told(float(cell.key[0]), 2), "product": told(cell.product, 2),
        "scale": f"{cell.scale:#.3g}", "score": told(cell.score, 3), "hidden": int((scores == -math.inf).sum()),
        "top": told(float(scores.max()), 3), "power": f"{power:.3f}" if power >= 5e-4 else None,
        "total": f"{float((scores - scores.max()).exp().sum()):.3f}",
        "weight": f"{100 * float(weights[column]):.1f}\u202f%",
        "best": f"“{named[columns][best]}”", "best_weight": f"{100 * float(weights[best]):.1f}\u202f%",
        "mixed": told(float(cell.mixed[0]), 2), "heads": found.heads,
        "maps": sum(one.heads for one in trace.sites.values()),
        "parts": "(encoder self, decoder self and decoder cross)" if rows != "tokens" else "(self)",
        "is_best": best == column, "map": found.map(0).weights[0, head],
    }  # fmt: skip


def patterns(facts: dict[str, Any]) -> list[str]:
    fields = {
        name: "\\b\\B" if value is None else re.escape(str(value)) for name, value in facts.items() if name != "map"
    }
    return [
        re.sub(r"\{(\w+)\}", lambda match: fields[match[1]], one)
        for one in SAYS.strip().replace("\n  ", " ").splitlines()
    ]


@pytest.mark.parametrize(("name", "text", "site", "head", "row", "column"), CASES)
def test_every_sentence_of_the_tour_is_true(
    open_page: Open, name: str, text: str, site: str, head: int, row: int, column: int
):
    page = open_page(f"#model={name}&text={text.replace(' ', '+')}&site={site}&head={head}&row={row}&column={column}")
    facts = truth(regard.load(name), text, site, head, row, column)
    known = [re.compile(one + r"[.]") for one in patterns(facts)]
    page.click("[data-part=tour]")
    page.wait_for_selector(".tour:not([hidden])")
    said: list[str] = []
    for step in range(10):
        until(page, f"document.querySelector('.tour-count').textContent === '{step + 1} of 10'")
        said += END.split(page.inner_text(".tour .prose"))
        page.click(".tour .strong")
    unproved = [sentence for sentence in said if not any(one.fullmatch(sentence) for one in known)]
    assert unproved == []
    whole = " ".join(said)
    assert ("It is the largest weight" in whole) == facts["is_best"]
    assert ("hidden from" in whole and "those that come after it" in whole) == (facts["hidden"] > 0)
    if "those that come after it" in whole:
        assert not facts["map"].triu(1).any(), "a row sees what comes after it"
        assert torch.equal(facts["map"][row, row + 1 :] == 0, torch.ones(facts["hidden"], dtype=torch.bool))
    assert (FED in whole) == (facts["fed"] is not None)
    shown = page.inner_text('.cell [data-step="softmax"] .formula')
    assert f"{facts['score']} − {facts['top']}" in shown
    assert facts["total"] in shown
    assert "upper right" not in whole
