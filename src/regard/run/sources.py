"""The data of a run: files found, opened and checked."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.answers import Questions
from regard.data.boxes import BoxedImages
from regard.data.captioned import CaptionedImages, hold_out_images, open_captions
from regard.data.conllu import Sentences, open_conllu
from regard.data.draws import HOLDOUT, chance, shuffled
from regard.data.faults import Fault, tolerate
from regard.data.generated import Reversal
from regard.data.images import Images
from regard.data.labelled import LabelledTexts
from regard.data.places import Place, open_place
from regard.data.records import open_csv
from regard.data.rows import Rows, Some, held_out
from regard.data.scenes import Scenes
from regard.data.stream import open_passages
from regard.data.tables import open_jsonl, open_plain, open_tsv
from regard.errors import InputError
from regard.zoo import shipped

from .boxing import box_rows, boxes_prepared
from .goals import Classification, MaskedModel, Translation
from .imagery import Prepared, image_rows, images_of, scene_images, uncut
from .inputs import (
    AnswerFiles,
    BoxFiles,
    CaptionFiles,
    DigitImages,
    DrawnScenes,
    DrawnShapes,
    ImageFiles,
    LabelledFiles,
    PairFiles,
    Pictures,
    Reverse,
    TaggedFiles,
    TextFiles,
)
from .settings import Run


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows of each split, what was left out of them, and how images are prepared."""

    splits: dict[str, Rows]
    faults: Sequence[Fault]
    images: Images | None = None
    names: tuple[str, ...] = ()  # of labels


def found(name: str, base: Path) -> Path:
    """A path beside the run file, or as it is, or among the data that REGARD_DATA names."""
    places = places_of(name, base)
    for place in places:
        if place.exists():
            return place
    raise InputError("there is no such file", got=name, expected=" or ".join(map(str, places)), fix=elsewhere())


def places_of(name: str, base: Path) -> list[Path]:
    """Where a file or a folder is looked for, in this order."""
    data = os.environ.get("REGARD_DATA")
    places = [base / name, Path(name), *([Path(data) / name] if data else [])]
    return list(dict.fromkeys(place.resolve() for place in places))  # an absolute name is one place


def elsewhere() -> str:
    data = os.environ.get("REGARD_DATA") or "not set"
    return f"REGARD_DATA, the folder that holds your data, is {data}: set it, or give another path"


def found_model(name: str, base: Path) -> str:
    """A shipped model by its name, a folder by its path."""
    if not name or name in shipped():
        return name
    places = places_of(name, base)
    for place in places:
        if place.exists():
            return str(place)
    expected = "\n".join([f"a shipped model ({', '.join(shipped())}), or one of these folders:", *map(str, places)])
    raise InputError("there is no such model", got=name, expected=expected, fix=elsewhere())


def placed(run: Run, base: Path) -> Run:
    """The same run, the models that it names found: shipped ones by name, others where files are looked for."""
    task, start = run.task, run.start
    if isinstance(task, Translation | Classification | MaskedModel):
        task = replace(task, teacher=found_model(task.teacher, base))
    start = None if start is None else replace(start, model=found_model(start.model, base))
    return replace(run, task=task, start=start)


def opened(run: Run, base: Path) -> Opened:
    """All files of a run, checked. Too many bad rows stop here, before anything is made."""
    data = run.data
    if isinstance(data, Reverse):
        return Opened(
            {
                "train": Reversal(data.rows, data.longest, run.seed),
                "held_out": Reversal(200, data.longest, run.seed + 1),
                "test": Reversal(200, data.longest, run.seed + 2),
            },
            (),
        )
    if isinstance(data, DrawnScenes):
        images = scene_images(run)
        seeds = {"train": 0, "held_out": 1, "test": 2}
        scenes = {split: Scenes(data.rows if i == 0 else 200, images, run.seed + i) for split, i in seeds.items()}
        return Opened(dict(scenes), (), images)
    if isinstance(data, Pictures):
        return opened_images(data, run, base)
    if isinstance(data, BoxFiles | DrawnShapes):
        return opened_boxes(data, run, base)
    if isinstance(data, CaptionFiles):
        return opened_captions(data, run, base)
    paths = {
        split: [found(name, base) for name in names]
        for split, names in (("train", data.train), ("held_out", data.held_out), ("test", data.test))
        if names
    }
    if isinstance(data, TextFiles) and data.unit == "text":
        return opened_passages(paths, data.share)
    if isinstance(data, LabelledFiles):
        return opened_labelled(data, paths, run.seed)
    splits: dict[str, Rows] = {split: read_rows(data, files) for split, files in paths.items()}
    names = splits["train"].tags if isinstance(splits["train"], Sentences) else ()
    return checked(splits, data.bad, data.share, run.seed, names=names)


def read_rows(data: PairFiles | TextFiles | TaggedFiles | AnswerFiles, paths: Sequence[Path]) -> Rows:
    if isinstance(data, TaggedFiles):
        return open_conllu(only(paths), data.tags)
    if isinstance(data, AnswerFiles):
        columns = [data.question, data.context, data.answer, *([] if data.start == "" else [data.start])]
        return Questions(table_rows(only(paths), columns))
    return pair_rows(paths, data.columns) if isinstance(data, PairFiles) else text_rows(paths, data.key)


def opened_passages(paths: dict[str, list[Path]], share: float) -> Opened:
    """Whole texts; without a file for it, the end of the text is held out."""
    texts = {split: open_passages(only(files)) for split, files in paths.items()}
    if "held_out" not in texts:
        texts["train"], texts["held_out"] = texts["train"].cut(share)
    return Opened(dict(texts), ())


def opened_labelled(data: LabelledFiles, paths: dict[str, list[Path]], seed: int) -> Opened:
    """The labels are those of train. Where few rows are asked for, they are drawn after a part was held out."""
    columns = (*data.text, data.label)
    train = LabelledTexts(table_rows(only(paths["train"]), columns))
    if len(train.names) < 2:
        raise InputError(
            "all texts have the same label, so there is nothing to learn",
            where=str(only(paths["train"])),
            got=", ".join(map(repr, train.names)) or "none",
            fix="see that data.label names the column of the labels",
        )
    splits: dict[str, Rows] = {"train": train}
    for split in paths.keys() - {"train"}:
        splits[split] = LabelledTexts(table_rows(only(paths[split]), columns), train.names)
    ready = checked(splits, data.bad, data.share, seed, names=train.names)
    if 0 < data.rows < len(ready.splits["train"]):
        rows = ready.splits["train"]
        ready.splits["train"] = Some(rows, shuffled(chance(HOLDOUT, seed, 1), len(rows))[: data.rows], rows.faults)
    return ready


def checked(
    splits: dict[str, Rows],
    bad: float,
    share: float,
    seed: int,
    images: Images | None = None,
    names: tuple[str, ...] = (),
) -> Opened:
    """Held against the share of bad rows that is tolerated; a part held out where there is none."""
    faults = tolerated(splits, bad)
    if "held_out" not in splits:
        splits["train"], splits["held_out"] = held_out(splits["train"], share, seed)
    return Opened(splits, faults, images, names)


def tolerated(splits: Mapping[str, Rows], bad: float) -> list[Fault]:
    """All that is wrong, unless it is too much."""
    for split, rows in splits.items():
        if isinstance(rows, BoxedImages):
            tolerated_boxes(rows, bad, f"data.{split}")
        else:
            tolerate(rows.faults, len(rows) + len(rows.faults), bad, f"data.{split}")
    return [fault for rows in splits.values() for fault in rows.faults]


def tolerated_boxes(rows: BoxedImages, bad: float, name: str) -> None:
    """Images and boxes each by themselves: an image has many boxes, which would hide that every tenth image is bad."""
    boxes = set(rows.bad_boxes)
    images = [fault for fault in rows.faults if fault not in boxes]
    tolerate(images, len(rows) + len(images), bad, name, "image images")
    if boxes:
        tolerate(rows.bad_boxes, len(rows.boxes) + len(rows.bad_boxes), bad, name, "box boxes")


def opened_images(data: ImageFiles | DigitImages, run: Run, base: Path) -> Opened:
    images = images_of(run)
    splits, names = image_rows(data, images, base, found)
    apart(splits)
    ready = checked(splits, data.bad, data.share, run.seed, images=images, names=names)
    if data.augment.area < 1 and not getattr(data, "held_out", ""):
        ready.splits["held_out"] = Prepared(ready.splits["held_out"], images)
    return ready


def apart(splits: Mapping[str, Rows]) -> None:
    """Nothing is measured on what was learned from."""
    learned = splits["train"]
    known = {learned.where(i) for i in range(len(learned))} if len(splits) > 1 else set()
    for split, rows in splits.items():
        if split != "train" and (same := [place for i in range(len(rows)) if (place := rows.where(i)) in known]):
            raise InputError(
                f"images of train stand in {split} too: what was learned from measures nothing",
                where=f"data.{split}",
                got=f"{len(same)} of {len(rows)}, such as {same[0]}",
                fix=f"name others, or leave data.{split} out",
            )


def opened_boxes(data: BoxFiles | DrawnShapes, run: Run, base: Path) -> Opened:
    images = boxes_prepared(run, data)
    splits, names = box_rows(data, images, run.seed, base, found)
    if isinstance(data, DrawnShapes):
        return Opened(splits, (), images, names)
    apart(splits)
    return checked(splits, data.bad, data.share, run.seed, images, names)


def opened_captions(data: CaptionFiles, run: Run, base: Path) -> Opened:
    """No image is in two splits, whatever number of captions it has."""
    images = images_of(run)
    splits: dict[str, CaptionedImages] = {}
    for split, (table, place) in caption_tables(data, base).items():
        if split == "train":
            splits[split] = open_captions(table, place, uncut(images, data.augment.area))
        else:
            splits[split] = open_captions(table, place, images, splits["train"].files())
    faults = tolerated(splits, data.bad)
    if "held_out" not in splits:
        splits["train"], splits["held_out"] = hold_out_images(splits["train"], data.share, run.seed, images)
    return Opened(dict(splits), faults, images)


def caption_tables(data: CaptionFiles, base: Path) -> dict[str, tuple[Rows, Place]]:
    """Of each split that has one, the table and where its paths begin."""
    tables: dict[str, tuple[Rows, Place]] = {}
    for i, (split, name) in enumerate((("train", data.train), ("held_out", data.held_out), ("test", data.test))):
        if name:
            path = found(name, base)
            folder = found(data.images[i % len(data.images)], base) if data.images else path.parent
            tables[split] = table_rows(path, [data.image, data.caption]), open_place(folder)
    return tables


def pair_rows(paths: Sequence[Path], columns: Sequence[int | str]) -> Rows:
    if len(paths) == 2:
        return open_plain(*paths)
    if len(paths) != 1 or len(columns) != 2:
        raise InputError(
            "pairs come from one file with two columns, or from two files",
            got=f"{len(paths)} files, columns {list(columns)}",
        )
    return table_rows(paths[0], columns)


def text_rows(paths: Sequence[Path], key: int | str) -> Rows:
    path = only(paths)
    return table_rows(path, [key]) if form_of(path) in ("jsonl", "json", "tsv", "csv") else open_plain(path)


def table_rows(path: Path, columns: Sequence[int | str]) -> Rows:
    """By the file's name: jsonl, csv, or else columns between tabs."""
    form = form_of(path)
    if form in ("jsonl", "json"):
        return open_jsonl(path, [str(column) for column in columns])
    return open_csv(path, columns) if form == "csv" else open_tsv(path, columns)


def form_of(path: Path) -> str:
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").rpartition(".")[2]


def only(paths: Sequence[Path]) -> Path:
    if len(paths) != 1:
        raise InputError("this data comes from one file a split", got=", ".join(map(str, paths)), fix="join the files")
    return paths[0]
