"""`regard draw`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json, as_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regard.modalities.drawing.drawer import DrawnImage
    from regard.modalities.drawing.settings import Drawing
    from regard.model import Model

KINDS = (".png", ".webp", ".jsonl")
STOPPED = 130  # as of a program that an interrupt has ended


def run(
    model: Annotated[str, typer.Option("--model", "-m", help="Path to a run or model folder.")],
    prompt: Annotated[str | None, typer.Argument(help="Text to draw, for a model that draws from text.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the image, or all images as a grid (.png, .webp), or row by row (.jsonl)."),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Number of images.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Random seed; an image depends on the seed and its own number alone, not on --n.")
    ] = 0,
    steps: Annotated[int | None, typer.Option(help="Number of denoising steps.")] = None,
    guidance: Annotated[
        float | None,
        typer.Option(help="Classifier-free guidance scale: 1 is none, more follows the text more closely."),
    ] = None,
    rescale: Annotated[
        float | None, typer.Option(help="Guidance rescale, from 0 to 1: against oversaturated images.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="Sampler: dpm-solver++, ddim, ddpm, plms or euler.")] = None,
    spacing: Annotated[str | None, typer.Option(help="Timestep spacing: trailing, leading or linspace.")] = None,
    eta: Annotated[
        float | None, typer.Option(help="Noise of each DDIM step: 0 is deterministic, 1 is like DDPM.")
    ] = None,
    negative: Annotated[str, typer.Option(help="Negative prompt: text to lead the image away from.")] = "",
    init: Annotated[
        Path | None, typer.Option(help="Image to begin with (image-to-image); see --strength and --mask.")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="How much of the --init image is changed, from 0 to 1.")
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Mask image: white where the --init image is drawn anew (inpainting).")
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Another prompt with as many tokens, whose attention maps are kept (prompt-to-prompt).")
    ] = "",
    kept: Annotated[
        float | None, typer.Option(help="Share of the steps in which the maps of --keep are used; 0.8 unless given.")
    ] = None,
    truncation: Annotated[
        float | None,
        typer.Option(help="Largest value of a GAN's noise, such as 1.5: better but more similar images."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw images of a text, or of noise by a seed; write them to a PNG file.

    Example: regard draw "a large red circle" -m runs/run --n 4 --out circles.png
    """
    writable(out, init, mask)
    from regard.building import prepare
    from regard.cli.printing import draw_answers, print_answers
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.look.terminal import terminal_text
    from regard.modalities.verbs import answer_view

    asked = {"steps": steps, "guidance": guidance, "rescale": rescale, "solver": solver, "spacing": spacing}
    asked |= {"eta": eta, "strength": strength}
    more = {"n": n, "seed": seed, "truncation": truncation, "negative": negative, "init": init, "mask": mask}
    more |= {"keep": keep} | ({} if kept is None else {"kept": kept})
    loaded = prepare(load(model))
    how = drawing({name: value for name, value in asked.items() if value is not None}, more, loaded)
    view = answer_view(loaded, "draw")  # or it is refused before anything is drawn
    use_one_thread()
    found, stopped = [], False
    try:
        for one in images(loaded, prompt, how):
            found.append(one)
    except KeyboardInterrupt:
        stopped = True
        print(f"regard: stopped after {len(found)} of {n} images", file=sys.stderr)
    if found and out is not None:
        draw_answers(view, found, out)
    if found and (out is None or as_json):
        print_answers(view, found, as_json)
    elif found:
        many = "1 image" if len(found) == 1 else f"{len(found)} images"
        done = "written" if out is not None and out.suffix.lower() == ".jsonl" else "drawn"
        print(f"{many} of seed {found[0].seed} {done} to {terminal_text(str(out))}")
    if stopped:
        raise typer.Exit(STOPPED)


def drawing(asked: dict[str, Any], more: dict[str, Any], model: "Model") -> "Drawing":
    """All that is wrong with the options in one error."""
    from regard.errors import InputError
    from regard.modalities.drawing.settings import Drawing, usual_of, with_options

    try:
        return Drawing(denoising=with_options(usual_of(model.config), asked) if asked else None, **more)
    except ValueError as error:
        raise InputError("invalid drawing options", got=as_typed(str(error), {})) from None


def images(model: "Model", prompt: str | None, how: "Drawing") -> "Iterator[DrawnImage]":
    """One after the other, with progress where a person looks."""
    from regard.modalities.drawing.prompt_runners import draw_each, drawer_for_prompts
    from regard.modalities.drawing.step_progress import StepProgress

    if model.takes[0] != "text":
        yield from model.draw(prompt, how=how)
        return
    with StepProgress(sys.stderr, how.n, drawer_for_prompts(model)) as progress:
        yield from draw_each(model, prompt, how, progress.step_done)


def writable(out: Path | None, *inputs: Path | None) -> None:
    """Found out before any work is done."""
    from regard.errors import InputError

    if out is None:
        return
    if out.suffix.lower() not in KINDS:
        raise InputError("unsupported output format", got=f"--out {out}", expected=" or ".join(KINDS))
    if not out.absolute().parent.is_dir():
        raise InputError("folder not found", where=str(out.absolute().parent), got=f"--out {out}")
    if out.exists() and any(one is not None and one.exists() and out.samefile(one) for one in inputs):
        raise InputError("the input image would be overwritten", where=str(out), fix="choose another name")
