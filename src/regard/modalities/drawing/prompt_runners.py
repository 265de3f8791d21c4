"""A model that draws from texts, asked: for images of one text or several, or for an example to look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, notify
from regard.look.examples import Example, TimeAxis
from regard.look.trace import Trace
from regard.modalities.inputs import ModelView, as_list, check_count, input_text
from regard.sample.noise import ImageNoise

from .drawer import DrawnImage
from .examples import DrawingAnswer
from .prompt_drawer import Canvas, PromptDrawer, StepCallback
from .prompted import Prompted
from .redrawing import Redrawing
from .runners import seed_of
from .settings import Drawing


def drawer_for_prompts(model: ModelView) -> PromptDrawer:
    net: Any = model.net
    if not isinstance(model.processor, Prompted):
        fix = "add one: dataclasses.replace(model, processor=regard.modalities.drawing.prompted.Prompted(...))"
        raise InputError("this model has no tokenizer for prompts", fix=fix)
    return PromptDrawer(net, model.processor)


def draw_each(
    model: ModelView, given: Any = None, how: Drawing | None = None, step_done: StepCallback | None = None
) -> Iterator[DrawnImage]:
    """Of each text so many images, one after the other; what a prompt is too long for is told."""
    drawer = drawer_for_prompts(model)
    if given is None:
        raise InputError("this model draws from a text, and was given none", fix='for example "a red circle"')
    prompts = [input_text(one) for one in as_list(given)]
    kept = [how.keep] if how is not None and how.keep else []
    for note in dict.fromkeys(note for prompt in [*prompts, *kept] for note in drawer.notes(prompt)):
        notify(note)
    for prompt in prompts:
        yield from drawer.draw(prompt, how or Drawing(), step_done)


def draw(model: ModelView, given: Any = None, how: Drawing | None = None) -> list[DrawnImage]:
    return list(draw_each(model, given, how))


@dataclass(frozen=True, eq=False)
class DrawingRun:
    """All steps of one image; its answer is the image."""

    drawer: PromptDrawer
    prompt: str
    how: Drawing
    canvas: Canvas | None = None  # what the image begins with

    def __call__(self, net: Any) -> Tensor:
        """The estimate after each step, and then the last state.  -> (steps + 1, c, h, w)"""
        steps = list(self.drawer.steps(self.prompt, self.how, 0, self.canvas))
        return torch.cat([*(step.sample for step in steps), steps[-1].state])

    def tell(self, output: Tensor) -> DrawingAnswer:
        return DrawingAnswer(DrawnImage(self.drawer.image(output[-1:], self.canvas), self.how.seed, 0))

    def sheet(self, found: Trace[Any]) -> Any:
        """-> a figure"""
        from .film_strip import film_of

        return film_of(self.drawer, self.prompt, found, self.canvas)


def example(model: ModelView, given: Sequence[Any]) -> Example:
    """A text, the seed of its image, and a ``Redrawing`` where only a part of another one is drawn. The maps of a step
    are those of the prompt, not of what guidance leaves."""
    check_count(model, given, 1, 2, 3)
    drawer, prompt = drawer_for_prompts(model), input_text(given[0])
    seed = seed_of(given[1]) if len(given) > 1 else 0
    how, told = Drawing(seed=seed), {"kind": "prompt", "text": prompt, "seed": seed}
    if len(given) == 3:
        part = given[2]
        if not isinstance(part, Redrawing):
            raise InputError("the third input is not a Redrawing", got=type(part).__name__, expected="Redrawing(...)")
        how, told = part.drawing(drawer, seed), told | part.record(drawer)
    run = DrawingRun(drawer, prompt, how, drawer.canvas(how))
    steps = len(drawer.plan(drawer.settings(how, run.canvas)).moves)
    ids = torch.tensor([drawer.tokens(prompt).ids])
    noise = ImageNoise(seed, [0], drawer.net.config.shape).start()
    return Example(
        (noise, torch.zeros(1, dtype=torch.long), ids),
        run.tell,
        ("text", "noise"),
        lambda: told,
        texts=(prompt,),
        words={"text": drawer.prompted.text.labels(ids[0].tolist())},
        time=TimeAxis("step", steps),
        runs=run,
        sheet=run.sheet,
    )
