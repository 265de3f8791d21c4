"""What a run learns from: the [data] table, one kind for each form that data comes in."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.data.vocabulary import BYTES, Kind
from regard.nn.config import below, not_above_zero, not_positive, not_shares, refuse
from regard.train.runfile import required, setting

from .augmentation import Augment, Change

LEAST = 16  # tokens in which a question and some of its text find room


@dataclass(frozen=True)
class Vocabulary:
    kind: Kind = setting("bpe", "bpe loses no text; wordpiece may differ between two runs with one seed")
    size: int = setting(8000, "how many tokens at most")
    file: str = setting("", "a tokenizer.json to use instead of learning one; it needs the tokens <begin> and <end>")
    vectors: Literal["random", "word2vec"] = setting(
        "random", "of the words at the start; word2vec: learned from train"
    )

    def __post_init__(self) -> None:
        least = BYTES if self.kind == "bpe" and not self.file else 1
        refuse(below(least, self, "size"))


@dataclass(frozen=True)
class PairFiles:
    """Sentences and their translations."""

    kind: Literal["pairs"] = "pairs"
    train: tuple[str, ...] = required(
        "one tsv, csv or jsonl file, or two plain files of which line i belongs to line i"
    )
    held_out: tuple[str, ...] = setting(
        (), "files of the same form to evaluate on while training; none: a share of train"
    )
    test: tuple[str, ...] = setting((), "files of the same form for `regard evaluate --split test`")
    columns: tuple[int | str, ...] = setting(
        (1, 2), "of a tsv or csv: source and target, by number or name; of jsonl: the keys"
    )
    share: float = setting(0.01, "what is held out of train, where no files are given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, source and target, padding included")
    longest: int = setting(128, "tokens of a sentence; the rest is cut off")
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(2, self, "longest")
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"), no_files(self.train))


@dataclass(frozen=True)
class Reverse:
    """Generated: numbers in words, to be said backwards."""

    kind: Literal["reverse"] = "reverse"
    rows: int = setting(4000, "how many to train on")
    longest: int = setting(8, "words of the longest")
    budget: int = setting(1024, "tokens of a batch, source and target, padding included")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "budget"), below(2, self, "longest"))


@dataclass(frozen=True)
class TextFiles:
    """Plain text. Where an example is a line, what is longer than the model reads is cut off."""

    kind: Literal["text"] = "text"
    train: tuple[str, ...] = required("one file of plain text, jsonl, tsv or csv")
    held_out: tuple[str, ...] = setting((), "files to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "files for `regard evaluate --split test`")
    key: int | str = setting("text", "of jsonl: the key of the text; of tsv or csv: its column, by name or number")
    unit: Literal["line", "text"] = setting(
        "line", "an example is a line; or text: the file is read through a window as long as the model reads"
    )
    share: float = setting(0.01, "what is held out of train, where no files are given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, padding included")
    longest: int = setting(0, "tokens of a row or window; 0: as many as the model reads, or 512")
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(0, self, "longest") + no_files(self.train)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


@dataclass(frozen=True)
class LabelledFiles:
    """Texts, or pairs of texts, with a label."""

    kind: Literal["labelled"] = "labelled"
    train: tuple[str, ...] = required("one tsv, csv or jsonl file")
    held_out: tuple[str, ...] = setting((), "a file to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "a file for `regard evaluate --split test`")
    text: tuple[int | str, ...] = setting((1,), "the column of the text, or two, by number or name; of jsonl: the keys")
    label: int | str = setting(2, "the column or key of the label")
    rows: int = setting(0, "how many of train to learn from, drawn by the seed; 0: all")
    share: float = setting(0.1, "what is held out of train, where no file is given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, padding included")
    longest: int = setting(0, "tokens of a text, the rest is cut off; 0: as many as the model reads, at most 512")
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(0, self, "longest", "rows") + no_files(self.train)
        if self.text is not None and len(self.text) not in (1, 2):
            wrong += [f"text = {list(self.text)} names neither one column nor two"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


@dataclass(frozen=True)
class TaggedFiles:
    """Sentences with a tag for each word, as Universal Dependencies has them (CoNLL-U)."""

    kind: Literal["tagged"] = "tagged"
    train: tuple[str, ...] = required("one conllu file")
    held_out: tuple[str, ...] = setting((), "a file to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "a file for `regard evaluate --split test`")
    tags: Literal["upos", "xpos"] = setting("upos", "the universal tags, or the language's own")
    share: float = setting(0.1, "what is held out of train, where no file is given")
    bad: float = setting(0.01, "more than this share of bad sentences stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, padding included")
    longest: int = setting(0, "tokens of a sentence, the rest is cut off; 0: as many as the model reads, at most 512")
    vocabulary: Vocabulary = setting(Vocabulary(), "how words are cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(0, self, "longest") + no_files(self.train)
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


@dataclass(frozen=True)
class AnswerFiles:
    """Questions, each with a text in which its answer stands."""

    kind: Literal["answers"] = "answers"
    train: tuple[str, ...] = required("one tsv, csv or jsonl file")
    held_out: tuple[str, ...] = setting((), "a file to evaluate on while training; none: a share of train")
    test: tuple[str, ...] = setting((), "a file for `regard evaluate --split test`")
    question: int | str = setting(1, "the column of the question, by number or name; of jsonl: the key")
    context: int | str = setting(2, "the column or key of the text that answers it")
    answer: int | str = setting(3, "the column or key of the answer, as it stands in that text")
    start: int | str = setting(
        "", "the column or key of the place where the answer begins there, in letters from 0; none: where it first is"
    )
    share: float = setting(0.1, "what is held out of train, where no file is given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    budget: int = setting(4096, "tokens of a batch, padding included")
    longest: int = setting(
        0, "tokens of question and text: of a longer text, a part with the answer; 0: what the model reads, at most 512"
    )
    vocabulary: Vocabulary = setting(Vocabulary(), "how text is cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "budget") + below(0, self, "longest") + no_files(self.train)
        if self.longest is not None and 0 < self.longest < LEAST:
            wrong += [f"longest = {self.longest} is neither 0 nor at least {LEAST}"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))


MEAN = "of the pixels, 0 is black and 1 white: one, or one a channel"
DEVIATION = "of the pixels: one, or one a channel"
SIZE = "both sides of an image, for a model whose config does not tell it; 0: as the config says"
FIT = "an image that is no square: the whole of it, or a square from its middle"
AUGMENT = "how images change at random while they are learned"
HALF = (0.5,)
PHOTO_MEAN, PHOTO_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as DETR has it


@dataclass(frozen=True)
class ImageFiles:
    """Images with labels: a folder with a folder for each label, or with a table of labels, or with idx files; or a
    sheet of tiles."""

    kind: Literal["images"] = "images"
    train: str = required("a folder; or an image of tiles, whose labels NAME_labels.npy stand beside it")
    held_out: str = setting("", "of the same form, to evaluate on while training; none: a share of train")
    test: str = setting(
        "", "of the same form, for `regard evaluate --split test`; of idx files, their test split is the default"
    )
    labels: tuple[str, ...] = setting((), "names of the labels, where the data has only numbers")
    tile: int = setting(0, "the side of a tile, where train is an image of tiles")
    share: float = setting(0.1, "what is held out of train, where nothing is given")
    bad: float = setting(0.01, "more than this share of bad images stops the run before it begins")
    batch: int = setting(64, "images of a batch")
    size: int = setting(0, SIZE)
    fit: Literal["stretch", "crop"] = setting("stretch", FIT)
    mean: tuple[float, ...] = setting(HALF, MEAN)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION)
    augment: Augment = setting(Augment(), AUGMENT)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + ([] if self.train or self.train is None else ["train names no folder"])
        wrong += below(0, self, "tile", "size") + pictured(self.deviation, self.batch, self.augment)
        if twice := [name for name, count in Counter(self.labels or ()).items() if count > 1]:
            wrong += [f"labels: {', '.join(map(repr, twice[:3]))} is there more than once"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF and self.fit == "stretch"


@dataclass(frozen=True)
class DigitImages:
    """The 1,797 digits of 8 x 8 pixels that scikit-learn carries, the last 297 of them to test with."""

    fit: ClassVar[Literal["stretch"]] = "stretch"  # they are squares, and none is bad
    bad: ClassVar[float] = 0.0

    kind: Literal["digits"] = "digits"
    share: float = setting(0.1, "what is held out of the others")
    batch: int = setting(64, "images of a batch")
    size: int = setting(0, SIZE)
    mean: tuple[float, ...] = setting(HALF, MEAN)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION)
    augment: Augment = setting(Augment(), AUGMENT)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + below(0, self, "size")
        wrong += pictured(self.deviation, self.batch, self.augment)
        refuse(wrong, not_shares(self, "share"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF


@dataclass(frozen=True)
class DrawnScenes:
    """Generated: one or two coloured shapes, and a sentence that says so."""

    kind: Literal["scenes"] = "scenes"
    rows: int = setting(4000, "how many to train on")
    batch: int = setting(32, "images of a batch")
    longest: int = setting(32, "tokens of a caption; the rest is cut off")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "batch"), below(2, self, "longest"))


@dataclass(frozen=True)
class CaptionFiles:
    """Images with captions: a table with the path of an image and a caption in each row, and the images."""

    size: ClassVar[int] = 0  # the model's config tells it

    kind: Literal["captions"] = "captions"
    train: str = required("a csv, tsv or jsonl file; an image with several captions has several rows")
    held_out: str = setting("", "the same to evaluate on while training; none: a share of train's images")
    test: str = setting("", "the same for `regard evaluate --split test`")
    images: tuple[str, ...] = setting(
        (),
        "the folder or zip archive where the paths begin: one for all, or one each for train, held_out and test; "
        "none: the folder of each file",
    )
    image: int | str = setting("image", "the column of the image's path, by name or number; of jsonl: the key")
    caption: int | str = setting("caption", "the column or key of the caption")
    share: float = setting(0.1, "of train's images, held out with all of their captions where no file is given")
    bad: float = setting(0.01, "more than this share of bad rows stops the run before it begins")
    batch: int = setting(32, "captions of a batch, each with its image")
    longest: int = setting(64, "tokens of a caption; the rest is cut off")
    fit: Literal["stretch", "crop"] = setting("stretch", FIT)
    mean: tuple[float, ...] = setting(HALF, MEAN)
    deviation: tuple[float, ...] = setting(HALF, DEVIATION)
    augment: Change = setting(Change(), AUGMENT)
    vocabulary: Vocabulary = setting(Vocabulary(), "how captions are cut into tokens, learned from train")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + ([] if self.train or self.train is None else ["train names no file"])
        wrong += below(2, self, "longest") + not_deviations(self.deviation)
        if self.images is not None and len(self.images) not in (0, 1, 3):
            wrong += [f"images = {list(self.images)} names neither no folder nor one nor three"]
        if self.image is not None and self.image == self.caption:
            wrong += [f"caption = {self.caption!r} is the column of the image"]
        refuse(wrong, not_shares(self, "share", "bad"), not_above_zero(self, "share"))

    def as_usual(self) -> bool:
        return self.mean == self.deviation == HALF and self.fit == "stretch"


def not_deviations(deviation: tuple[float, ...] | None) -> list[str]:
    if deviation is None or all(x > 0 for x in deviation):
        return []
    return [f"deviation = {list(deviation)} is not above 0"]


def pictured(deviation: tuple[float, ...] | None, batch: int | None, augment: Augment | None) -> list[str]:
    """What is wrong with how images become batches."""
    wrong = not_deviations(deviation)
    if augment is not None and batch and batch > 0 and batch % (augment.copies or 1):
        wrong += [f"batch = {batch} is not a multiple of augment.copies = {augment.copies}"]
    return wrong


@dataclass(frozen=True)
class BoxFiles:
    """Images with boxes: COCO's JSON, a JSON list, or Pascal VOC's folder of XML files; and the images."""

    kind: Literal["boxes"] = "boxes"
    train: str = required("COCO's JSON, a JSON list, or a folder of Pascal VOC's XML files")
    held_out: str = setting("", "the same to evaluate on while training; none: a share of train")
    test: str = setting("", "the same for `regard evaluate --split test`")
    images: tuple[str, ...] = required(
        "their folder or zip archive: one for all, or one each for train, held_out and test"
    )
    splits: tuple[str, ...] = setting((), "of a JSON list or VOC: the names of its splits for train, held_out, test")
    longest: int = setting(320, "pixels that the longer side of an image is scaled to")
    share: float = setting(0.1, "what is held out of train, where nothing else is")
    bad: float = setting(0.01, "more than this share of bad images, or of bad boxes, stops the run before it begins")
    batch: int = setting(8, "images of a batch")
    mirror: float = setting(0.5, "the chance that left and right are exchanged, in training")
    cut: float = setting(0.5, "the chance that a random part of the image is cut out, in training")
    part: float = setting(0.6, "the smallest such part, as a share of each side")
    scale: float = setting(0.8, "the smallest scale that an image is shown in, in training; the largest is 1")
    mean: tuple[float, ...] = setting(PHOTO_MEAN, "of the pixels, 0 is black and 1 white")
    deviation: tuple[float, ...] = setting(PHOTO_DEVIATION, "of the pixels")

    def __post_init__(self) -> None:
        wrong = not_positive(self, "batch") + ([] if self.train or self.train is None else ["train names no file"])
        if self.images is not None and len(self.images) not in (1, 3):
            wrong += [f"images = {list(self.images)} names neither one folder nor three"]
        if self.splits is not None and len(self.splits) not in (0, 2, 3):
            wrong += [f"splits = {list(self.splits)} names neither two splits nor three"]
        if self.splits and len(set(self.splits)) < len(self.splits):
            wrong += [f"splits = {list(self.splits)} names one of them twice"]
        if self.splits and (self.held_out or self.test):
            wrong += ["splits: these are parts of train's file, so held_out and test have none of their own"]
        wrong += not_deviations(self.deviation)
        wrong += [
            f"{name} = {value} is above 1"
            for name in ("mirror", "cut", "part", "scale")
            if (value := getattr(self, name)) is not None and value > 1
        ]
        refuse(wrong, below(16, self, "longest"), below(0, self, "mirror", "cut"))
        refuse(not_shares(self, "share", "bad"), not_above_zero(self, "share", "part", "scale"))

    def as_usual(self) -> bool:
        return self.mean == PHOTO_MEAN and self.deviation == PHOTO_DEVIATION


@dataclass(frozen=True)
class DrawnShapes:
    """Generated: coloured squares, discs and triangles before a busy background."""

    kind: Literal["shapes"] = "shapes"
    rows: int = setting(20000, "how many images to train on")
    side: int = setting(64, "pixels of each side")
    most: int = setting(4, "shapes of an image at most")
    batch: int = setting(32, "images of a batch")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "rows", "most", "batch"), below(16, self, "side"))


def no_files(train: tuple[str, ...] | None) -> list[str]:
    return ["train names no file"] if train is not None and not train else []


Pictures = ImageFiles | DigitImages
Data = (
    PairFiles
    | Reverse
    | TextFiles
    | LabelledFiles
    | TaggedFiles
    | AnswerFiles
    | ImageFiles
    | DigitImages
    | BoxFiles
    | DrawnShapes
    | CaptionFiles
    | DrawnScenes
)
Written = PairFiles | TextFiles | LabelledFiles | TaggedFiles | AnswerFiles | CaptionFiles  # data with a vocabulary
