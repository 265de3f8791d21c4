"""How good a translator is on sentences whose translations are known."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from regard.data.faults import check_fault_share
from regard.data.files import find_file, pair_rows
from regard.data.rows import Rows
from regard.decode.settings import Decoding
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import Scores

from .bleu import Quality, bleu_and_chrf, bleu_by_length
from .runners import text_processor
from .translator import TranslationModel

EDGES = (10, 15, 20, 30)  # words of a source


def measure_translations(model: ModelView, rows: Rows, decoding: Decoding) -> Scores:
    """BLEU and chrF, and the same by the length of the source."""
    pairs = [rows[i] for i in range(len(rows))]
    sources, references = [str(pair[0]) for pair in pairs], [str(pair[1]) for pair in pairs]
    found = TranslationModel(model.net.eval(), text_processor(model), model.symbols).translate(sources, decoding)
    hypotheses = [own[0].text if own else "" for own in found]
    every, parts = bleu_and_chrf(hypotheses, references), bleu_by_length(sources, hypotheses, references, EDGES)
    told = [
        f"bleu for sources of {words} words\t{part.bleu:.2f}\t{part.sentences} sentences"
        for words, part in parts.items()
    ]
    data = {"translated": asdict(every), "lengths": {words: asdict(part) for words, part in parts.items()}}
    return Scores(data, (*bleu_lines(every), *told))


def bleu_lines(found: Quality) -> list[str]:
    """For a terminal, with what the numbers were computed by."""
    return [
        f"bleu\t{found.bleu:.2f}\t{found.signatures['bleu']}",
        f"chrf\t{found.chrf:.2f}\t{found.signatures['chrf']}",
    ]


def measure_files(model: ModelView, files: Sequence[str], columns: Sequence[int | str], decoding: Decoding) -> Scores:
    """Of any translator, on any sources with their translations: one file of two columns, or two files."""
    rows = pair_rows([find_file(name, Path()) for name in files], columns)
    check_fault_share(rows.faults, len(rows) + len(rows.faults), name="--data")
    return measure_translations(model, rows, decoding)
