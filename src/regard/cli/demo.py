"""`regard demo`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import translate
from regard.cli.options import Json

STORY = "Anna sings . Boris paints . Clara dances . Dora writes . Boris"
SENTENCE = "She has never seen such a big dog."
VERSE, LETTERS = "ROMEO:\n", 240


def run(
    story: Annotated[
        str, typer.Argument(help='Names and verbs, then one of the names again: "Ida reads . Ida".')
    ] = STORY,
    sentence: Annotated[str, typer.Option(help="English sentence to translate.")] = SENTENCE,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also draw the attention map of the story to this .png or .svg file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run shipped models: complete a story, translate a sentence, write verse, and draw attention maps.

    Example: regard demo "Ida reads . Leo runs . Hugo cooks . Leo"
    """
    from regard.cli.recall_demo import draw_recall, recall
    from regard.errors import InputError
    from regard.folders import load
    from regard.look.terminal import heat_map_lines, map_width
    from regard.modalities.text.translation_views import map_lines, translation_data

    model = load("recall")
    if not story.split():
        raise InputError("the story is empty", expected=f"a story such as: {STORY}")
    if out is not None and out.suffix not in (".png", ".svg"):
        raise InputError("unsupported image format", got=str(out), expected=".png or .svg")
    found = recall(model, story)
    weights = found.map(found.back)
    if out is not None:
        from regard.style import font_family

        with font_family():
            draw_recall(found).savefig(out)
    german = translate.looked(sentence)
    verse = written()
    if as_json:
        layer, head = found.back
        shown = {"name": layer, "head": head, "words": list(found.words), "weights": weights.tolist()}
        told = {"story": story, "answer": found.answer, "probability": found.probability, "map": shown}
        print(json.dumps(told | {"translation": translation_data(german), "verse": verse}))
        return
    source = int(weights[-1].argmax())
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f'\n  "{story}" continues with "{found.answer}" (probability {found.probability:.1%}).\n')
    print(f"  Attention map of {found.back[0]}, head {found.back[1]}: each row attends to the words above.\n")
    width = map_width()
    for line in heat_map_lines(weights.tolist(), found.words, found.words, colour=colour, width=width):
        print("  " + line)
    share = float(weights[-1, source])
    print(f'\n  The last row gives the answer: "{found.words[-1]}" attends to "{found.words[source]}" ({share:.0%}).\n')
    print(f'  "{sentence}" in German: "{german.text}"\n')
    print("  Cross-attention map, averaged over heads and layers: each row attends to the words above.\n")
    for line in map_lines(german):
        print("  " + line)
    print("\n  A character-level model trained on Shakespeare writes:\n")
    for line in verse.splitlines():
        print(f"    {line}")
    print('\n  Try your own: regard translate "..." --look, regard generate shakespeare "JULIET:"\n')


def written() -> str:
    """What a person of the play says."""
    from regard.building import prepare
    from regard.decode.sampling import Sampling
    from regard.decode.settings import Decoding
    from regard.folders import load
    from regard.modalities.text.runners import Generation

    decoding = Decoding(sampling=Sampling(temperature=0.5), longest=LETTERS)
    found = prepare(load("shakespeare")).generate(VERSE, decoding=decoding)
    assert isinstance(found, Generation)
    return VERSE + found.text.partition("\n\n")[0]
