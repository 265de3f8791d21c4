"""Boxes in Pascal VOC's form: a folder with an XML file for each image.

The PASCAL Visual Object Classes Challenge (Everingham et al., 2010), https://doi.org/10.1007/s11263-009-0275-4
    <annotation><filename>x.jpg</filename> <size><width/><height/></size>
        <object><name>dog</name> <difficult>0</difficult> <bndbox><xmin/><ymin/><xmax/><ymax/></bndbox></object>
    </annotation>
Pixels are counted from 1, and the last one is within. A split is a list of names, ImageSets/Main/train.txt, beside the
folder. What its makers call difficult is neither learned from nor asked for, as COCO's crowds.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

from regard.data.faults import printable
from regard.errors import InputError

from .annotations import AnnotatedBox, AnnotatedImage, AnnotationProblems, Annotations, brief, flaw, is_text, numbered

XML_BYTES = 1 << 24  # of one file
SIDES = ("xmin", "ymin", "xmax", "ymax")


def read_voc(folder: Path, split: str | None, labels: Sequence[str] | None, report: AnnotationProblems) -> Annotations:
    """The names of the classes, sorted, and the images of a split or of all files."""
    found = {path.stem: path for path in sorted(folder.glob("*.xml"))}
    if not found:
        raise report.refuse("no XML files found", expected="a folder with one XML file per image")
    trees = {name: tree for name, path in found.items() if (tree := read_tree(path, report)) is not None}
    names = tuple(sorted({name for tree in trees.values() for name in said(tree.findall("object"), "name")}))
    numbers = numbered(names, labels, report)
    drawn = []
    for name in found if split is None else listed(folder, split, found, report):
        if name not in trees:
            continue
        tree, what = trees[name], f"{name}.xml"
        file = tree.findtext("filename", "").strip()
        if not is_text(file):
            report.add(what, "missing filename")
            continue
        one = AnnotatedImage(what, file, size_of(tree))
        for j, thing in enumerate(tree.findall("object"), 1):
            label, sides = thing.findtext("name", "").strip(), sides_of(thing)
            if not is_text(label):
                report.add_box(f"{what}, object {j}", f"missing or invalid name: {brief(label)}")
            elif reason := flaw(sides, f"four numbers, {', '.join(SIDES)}"):
                report.add_box(f"{what}, object {j}", f"bndbox: {reason}")
            else:
                left, top, right, bottom = map(float, sides)
                corners = left - 1, top - 1, right, bottom  # from pixels, ends included, to lines between them
                difficult = thing.findtext("difficult", "0").strip() == "1"
                one.boxes.append(AnnotatedBox(f"{what}, object {j}", corners, numbers[label], difficult))
        drawn.append(one)
    return Annotations(tuple(names if labels is None else labels), drawn)


def read_tree(path: Path, report: AnnotationProblems) -> Element | None:
    """A document type may make a few bytes grow into gigabytes, and none is needed here."""
    try:
        if not path.is_file() or path.stat().st_size > XML_BYTES:
            raise ValueError(f"not a file of at most {XML_BYTES} bytes")
        text = path.read_bytes().decode("utf-8-sig")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError("document types (DOCTYPE, ENTITY) are not supported")
        return fromstring(text)
    except (OSError, ValueError, ParseError, RecursionError) as error:
        report.add(printable(path.name), printable(str(error)[:200]))
        return None


def listed(folder: Path, split: str, known: Iterable[str], report: AnnotationProblems) -> list[str]:
    path = folder.parent / "ImageSets" / "Main" / f"{split}.txt"
    if Path(split).name != split or not path.is_file():
        raise InputError(f"unknown split {split!r}", where=str(folder), expected=f"a list of image names in {path}")
    names = [line.split()[0] for line in path.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    for name in set(names) - set(known):
        report.add(printable(name), f"listed in {path.name}, but has no XML file")
    return [name for name in dict.fromkeys(names) if name in set(known)]


def size_of(tree: Element) -> tuple[int, int] | None:
    """What is told of width and height; some tools write 0 where they do not know."""
    told = [tree.findtext(f"size/{side}", "0").strip() for side in ("width", "height")]
    width, height = (int(x) if x.isdecimal() and len(x) < 10 else 0 for x in told)
    return (width, height) if width and height else None


def sides_of(thing: Element) -> Sequence[float | str]:
    """Where its box begins and ends, in numbers, or as they are written if one is none."""
    texts = [thing.findtext(f"bndbox/{side}", "").strip() for side in SIDES]
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts


def said(things: Iterable[Element], key: str) -> set[str]:
    return {text for thing in things if is_text(text := thing.findtext(key, "").strip())}
