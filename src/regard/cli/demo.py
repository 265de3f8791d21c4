"""`regard demo`."""

import json
import os
import sys
from typing import Annotated

import typer

from regard.cli.options import Json

STORY = "Anna sings . Boris paints . Clara dances . Dora writes . Boris"


def run(
    story: Annotated[
        str, typer.Argument(help='Who does what, then one of them again: "Ida reads . Leo runs . Ida".')
    ] = STORY,
    as_json: Json = False,
) -> None:
    """Load a model that ships with regard, let it go on with a story, and draw what it looked at.

    Example: regard demo "Ida reads . Leo runs . Hugo cooks . Leo"
    """
    import torch

    from regard.errors import InputError
    from regard.look.terminal import heat
    from regard.model import load

    model = load("recall")
    words = story.split()
    known = model.text().tokenizer.get_vocab()
    if not words or (unknown := [word for word in words if word not in known]):
        raise InputError(
            "the model does not know these words" if words else "the story is empty",
            got=" ".join(unknown) if words else "",
            expected=" ".join(sorted(known)),
        )
    looked = model.look(story)
    probability, answer = (x.item() for x in torch.softmax(looked.output[0, -1], -1).max(-1))
    # The head that looks hardest at one word when it answers: where the answer comes from.
    strongest = [(float(x.weights[0, h, -1].max()), name, h) for name, x in looked.maps.items() for h in range(4)]
    _, name, head = max(strongest, key=lambda found: (found[1], found[0]))
    weights = looked.maps[name].weights[0, head]
    source = int(weights[-1].argmax())
    result = {
        "story": story,
        "answer": model.text().labels([int(answer)])[0],
        "probability": probability,
        "map": {"name": name, "head": head, "words": words, "weights": weights.tolist()},
    }
    if as_json:
        print(json.dumps(result, indent=2))
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f'\n  "{story}" goes on with "{result["answer"]}" ({probability:.1%} sure).\n')
    print(f"  Where it looked: layer {name.split('.')[1]}, head {head} ({name}). Each row looks at the words above.\n")
    for line in heat(weights.tolist(), words, words, colour=colour):
        print("  " + line)
    share = float(weights[-1, source])
    print(
        f'\n  The last row is the answer: "{words[-1]}" looks back at "{words[source]}" with {share:.0%} of its weight.'
    )
    print("  Nobody told it to: it learned to find the word that came after the same name before.\n")
