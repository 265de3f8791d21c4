"""Images with captions, in files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from PIL import Image

from regard.data.encodings import AUTO
from regard.data.files import find_file, open_table
from regard.data.fingerprints import fingerprint_named
from regard.data.locations import DataPlace, open_place
from regard.data.rows import Rows
from regard.data.table_format import BEFORE, Header, TableFormat, find_format, not_table_options, table_options
from regard.data.table_reading import TableReading, reading_of
from regard.data.table_words import DELIMITER_HELP, ENCODING_HELP, HEADER_HELP
from regard.modalities.captions.captioned import CaptionedImages, hold_out_images, image_names, open_captions
from regard.modalities.captions.preparation import CAPTION_PREPARATION
from regard.modalities.images.augmentation import CaptionedAugmentation
from regard.modalities.images.preparation import (
    AUGMENT_HELP,
    DEVIATION_HELP,
    FIT_HELP,
    HALF,
    MEAN_HELP,
    image_settings,
    not_deviations,
    source_processor,
)
from regard.modalities.images.survey import preparation_notes, prepared_words, survey_place
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan, TableColumns
from regard.modalities.splits import SPLITS, check_tolerated
from regard.modalities.text.preparation import VocabularySettings
from regard.nn.config import not_above_zero, not_at_least, not_positive, not_shares, refuse
from regard.train.runfile import required_setting, setting

ROLES = ("image", "caption")


@dataclass(frozen=True)
class CaptionFiles:
    """Images with captions: a table with the path of an image and a caption in each row, and the images."""

    kind: Literal["captions"] = "captions"
    train: str = required_setting(
        "training data: a csv, tsv or jsonl file; an image with several captions has several rows"
    )
    held_out: str = setting(
        "", "validation data in the same form, evaluated during training; empty: a fraction of the images of train"
    )
    test: str = setting("", "test data in the same form for `regard evaluate --split test`")
    images: tuple[str, ...] = setting(
        (),
        "folder or zip archive that image paths are relative to: one for all, or one each for train, held_out and "
        "test; empty: the folder of each file",
    )
    image: int | str = setting("image", "column of the image path, by name or number; for jsonl: the key")
    caption: int | str = setting("caption", "column or key of the caption")
    header: Header = setting("auto", HEADER_HELP)
    delimiter: str = setting(AUTO, DELIMITER_HELP)
    encoding: str = setting(AUTO, ENCODING_HELP)
    share: float = setting(
        0.1, "fraction of the images of train to hold out for validation, with all their captions, if held_out is empty"
    )
    bad: float = setting(0.01, "maximum fraction of bad rows; above it the run does not start")
    batch: int = setting(32, "batch size in captions, each with its image")
    longest: int = setting(64, "maximum length of a caption in tokens; longer captions are truncated")
    fit: Literal["stretch", "crop"] = setting("stretch", FIT_HELP)
    mean: tuple[float, ...] = setting(HALF, MEAN_HELP)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION_HELP)
    augment: CaptionedAugmentation = setting(CaptionedAugmentation(), AUGMENT_HELP)
    vocabulary: VocabularySettings = setting(
        VocabularySettings(), "tokenizer of the captions, trained on the training data"
    )

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + ([] if self.train or self.train is None else ["train is empty"])
        wrong += not_at_least(2, self, "longest") + not_deviations(self.deviation)
        if self.images is not None and len(self.images) not in (0, 1, 3):
            wrong += [f"images = {list(self.images)} must have 0, 1 or 3 entries"]
        wrong += not_table_options(self, self.image, self.caption)
        if self.image is not None and self.image == self.caption:
            wrong += [f"caption = {self.caption!r} is also the column of the image"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF and self.fit == "stretch"


def open_caption_files(plan: RunPlan) -> OpenedData:
    """No image is in two splits, whatever number of captions it has."""
    data, images = plan.data, image_settings(plan)
    splits: dict[str, CaptionedImages] = {}
    tables: list[TableReading] = []
    for split, (path, form, table, place) in caption_tables(data, plan.base).items():
        tables.append(reading_of(split, path, form, table, [data.image, data.caption], ROLES))
        if split == "train":
            splits[split] = open_captions(table, place, source_processor(images, data.augment.area))
        else:
            splits[split] = open_captions(table, place, images, splits["train"].files())
    faults = check_tolerated(splits, data.bad)
    if "held_out" not in splits:
        splits["train"], splits["held_out"] = hold_out_images(splits["train"], data.share, plan.seed, images)
    train = splits["train"]
    survey = survey_place(train.place, list(dict.fromkeys(train.names)))
    notes = (*(note for one in tables for note in one.notes), *preparation_notes(survey, images))
    facts = {} if survey is None else {"images": f"{survey.words()}; read as {prepared_words(images)}"}
    return OpenedData(dict(splits), faults, images, notes=notes, tables=tuple(tables), facts=facts)


def columns(data: Any) -> TableColumns:
    return TableColumns((data.image, data.caption), ROLES)


class CaptionTable(NamedTuple):
    """A table, how it is read, and where its paths begin."""

    path: Path
    format: TableFormat
    rows: Rows
    place: DataPlace


def caption_tables(data: CaptionFiles, base: Path) -> dict[str, CaptionTable]:
    """Of each split that has one."""
    tables: dict[str, CaptionTable] = {}
    for i, (split, name) in enumerate((split, getattr(data, split)) for split in SPLITS):
        if name:
            path = find_file(name, base)
            folder = find_file(data.images[i % len(data.images)], base) if data.images else path.parent
            form = find_format(path, [data.image, data.caption], ROLES, table_options(data))
            tables[split] = CaptionTable(
                path, form, open_table(path, [data.image, data.caption], form), open_place(folder)
            )
    return tables


def texts_of(rows: Rows) -> Callable[[int], Sequence[str]]:
    """Without decoding an image."""
    assert isinstance(rows, CaptionedImages)
    return lambda i: [rows.caption(i)]


def images_of_tables(data: CaptionFiles) -> list[tuple[str, str]]:
    """Of the images in folders, those that have a caption: there may be more, such as this run."""
    found = []
    for split, one in caption_tables(data, Path()).items():
        if one.place.path.is_dir():
            names = sorted(set(image_names(one.rows)))
            found.append((f"images of data.{split}", fingerprint_named(one.place, names)))
    return found


def example(folder: Path) -> dict[str, Any]:
    rows = ["image,caption\n"]
    for i in range(12):
        colour = (40 + 20 * (i % 2) * 8, 64, 128)
        Image.new("RGB", (8, 8), colour).save(folder / f"{i}.png")
        rows.append(f"{i}.png,a {'red' if i % 2 else 'dark'} square\n")
    (folder / "captions.csv").write_text("".join(rows), "utf-8")
    vocabulary = {"kind": "words", "size": 64}
    return {"train": "captions.csv", "share": 0.25, "batch": 4, "longest": 10, "vocabulary": vocabulary}


KIND = DataKind(
    CaptionFiles,
    ("image", "text"),
    open_caption_files,
    CAPTION_PREPARATION,
    texts_of,
    paths=(*SPLITS, "images"),
    listed=("images",),
    more_files=images_of_tables,
    example=example,
    columns=columns,
    before=BEFORE,
)
