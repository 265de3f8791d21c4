"""`regard embed`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json, plain
from regard.cli.piping import chunks, given

if TYPE_CHECKING:
    from torch import Tensor

WIDE = 36  # letters of a text in the table
SOME = 12  # texts in it


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; lines of standard input if omitted or -.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the embeddings to this .npy file.")] = None,
    as_json: Json = False,
) -> None:
    """Embed texts as vectors of length 1. For a few texts, print a table of their cosine similarities.

    Example: regard embed ./minilm "a dog runs" "a puppy is running" "stock prices fell"
    """
    from regard.errors import InputError

    if out is not None and out.suffix != ".npy":
        raise InputError("unsupported file format for embeddings", got=str(out), expected=".npy")
    if out is not None and not out.absolute().parent.is_dir():
        fix = "create it, or choose another"
        raise InputError("folder not found", where=str(out.absolute().parent), got=f"--out {out}", fix=fix)
    import numpy as np
    import torch

    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    texts = given(texts)
    if texts:
        use_one_thread()
    every: list[str] = []
    found: list[Tensor] = []
    for some in [texts] if texts else chunks():
        vectors = loaded.embed(some)
        if as_json:
            for text, vector in zip(some, vectors.tolist(), strict=True):
                print(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
            sys.stdout.flush()
        if out is not None or not as_json:
            every += some
            found.append(vectors)
    if not found:
        return
    whole = torch.cat(found)
    if out is not None:
        part = out.with_name(f".{out.name}.part")
        with open(part, "wb") as file:
            np.save(file, whole.numpy(), allow_pickle=False)
        part.replace(out)
    if as_json:
        return
    told = [f"{len(every)} embeddings of size {whole.shape[1]}"] if len(every) > SOME else table(every, whole)
    print("\n".join(told))


def table(texts: list[str], vectors: "Tensor") -> list[str]:
    """The cosine of each text with each."""
    near = (vectors @ vectors.T).tolist()
    told = [f"{' ' * (WIDE + 3)}" + "".join(f"{i + 1:>7}" for i in range(len(texts)))]
    for i, text in enumerate(texts):
        short = plain(text) if len(text) <= WIDE else plain(text[: WIDE - 1]) + "…"
        told.append(f"{i + 1:>2} {short:<{WIDE}}" + "".join(f"{x:7.3f}" for x in near[i]))
    return told
