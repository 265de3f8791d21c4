"""What people call the columns of a table, and whether a row consists of such names: a header, and no example."""

import re
from collections.abc import Mapping, Sequence

TEXTS = """text texts sentence sentences review reviews comment comments message messages content body title headline
    document doc tweet post utterance query question description phrase input premise hypothesis sentence1 sentence2
    text1 text2 text_a text_b texta textb question1 question2 satz kommentar nachricht rezension texte phrase"""
LABELS = """label labels class classes category categories sentiment target tag topic intent rating stars score y klasse
    kategorie bewertung polarity gold gold_label emotion type language lang genre is_duplicate similarity etikett"""
IMAGES = "image images image_path path file filename file_name img photo picture"
CAPTIONS = "caption captions description text sentence title"
SOURCES = "source src input text from sentence1 sentence_1 original premise anchor query question text1 text_a"
TARGETS = """target tgt output translation to sentence2 sentence_2 reference summary hypothesis positive answer text2
    text_b paraphrase"""
LANGUAGES = """en eng english englisch anglais | de deu ger german deutsch allemand | fr fra fre french französisch
    français | es spa spanish spanisch español | it ita italian italiano | pt por portuguese português | nl nld dutch
    nederlands | pl polish polski | ru rus russian русский | zh zho chinese 中文 | ja jpn japanese 日本語 | ko korean
    | ar arabic | tr turkish türkçe | sv swedish svenska | da danish dansk | fi finnish suomi | cs czech | uk ukrainian
    | el greek | hi hindi | hu hungarian | ro romanian | nb norwegian | he hebrew | vi vietnamese
    | indonesian"""

KNOWN: Mapping[str, frozenset[str]] = {
    "text": frozenset(TEXTS.split()),
    "label": frozenset(LABELS.split()),
    "source": frozenset(SOURCES.split()),
    "target": frozenset(TARGETS.split()),
    "question": frozenset(["question", "questions", "query", "q"]),
    "context": frozenset(["context", "contexts", "passage", "paragraph", "text", "document"]),
    "answer": frozenset(["answer", "answers", "answer_text", "span", "a"]),
    "start": frozenset(["start", "answer_start", "offset", "position", "begin"]),
    "prompt": frozenset([*TEXTS.split(), "prompt", "prompts", "instruction"]),
    "words": frozenset(["words", "tokens", "forms", "sentence"]),
    "tags": frozenset(["tags", "pos_tags", "ner_tags", "upos", "labels"]),
    "image": frozenset(IMAGES.split()),
    "caption": frozenset(CAPTIONS.split()),
}
HARDLY_ELSE = """text sentence sentence1 sentence2 review comment message tweet label sentiment category caption premise
    hypothesis question context"""  # than names of columns
CERTAIN = frozenset(HARDLY_ELSE.split())
LANGUAGE_OF = {name: i for i, group in enumerate(LANGUAGES.split("|")) for name in group.split()}
LONGEST_NAME, WORDS = 64, 4
SENTENCE = re.compile(r"[.!?…。][\"')\]]?$|[\n\t]")
NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[\d.,\s]*(?:[eE][-+]?\d+)?%?")
FEW, SOME = 5, 20  # rows below a header by whose cells it is known


def known_name(cell: str, role: str) -> bool:
    """Whether a column of this name is likely what is asked for, such as "text"."""
    return plain(cell) in KNOWN.get(role, ()) or (role in ("source", "target") and plain(cell) in LANGUAGE_OF)


def plain(cell: str) -> str:
    return re.sub(r"[\s-]+", "_", cell.strip().lower())


def like_name(cell: str) -> bool:
    cell = cell.strip()
    short = 0 < len(cell) <= LONGEST_NAME and len(cell.split()) <= WORDS
    return short and not is_number(cell) and not SENTENCE.search(cell) and any(x.isalpha() for x in cell)


def is_number(cell: str) -> bool:
    return len(cell) <= LONGEST_NAME and NUMBER.fullmatch(cell.strip()) is not None


def is_header(rows: Sequence[Sequence[str]], chosen: Sequence[int], roles: Sequence[str]) -> bool:
    """Whether the first of some rows names the columns. ``chosen`` are the columns that are read, and ``roles`` what
    each is. It has to look like names, and it must be a fact of the file that it is none of the rows: all chosen
    columns are called what people call such columns, or one of the others is, and nothing of it stands again in its
    column; or a column of numbers begins with a word; or, of classes, its
    label is no other row's, although all labels are those of many rows, and its text is shorter than theirs."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    cells = [first[i] for i in chosen]
    named = [cell for cell in first if cell.strip()]
    if not rest or not all(map(like_name, [*cells, *named])) or len(set(map(plain, named))) < len(named):
        return False
    labels = {role: i for i, role in zip(chosen, roles, strict=True)}
    label = labels.get("label")
    if label is not None and any(row[label].strip() == first[label].strip() for row in rest):
        return False
    if distinct_languages(cells) and all(known_name(cell, role) for cell, role in zip(cells, roles, strict=True)):
        return True
    if len(rest) >= FEW and any(
        first[i].strip() and all(is_number(row[i]) for row in rest if row[i].strip()) and any(row[i] for row in rest)
        for i in range(len(first))
    ):
        return True
    if any(plain(first[i]) in CERTAIN for i in range(len(first)) if i not in chosen) and new_cells(first, rest):
        return True
    return label is not None and stands_apart(first, rest, [i for i in chosen if i != label], label)


def new_cells(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether nothing in the first row stands in its column again."""
    return all(not cell.strip() or all(row[i] != cell for row in rest) for i, cell in enumerate(first))


def distinct_languages(cells: Sequence[str]) -> bool:
    """Not two names of one language, which may be a row of a dictionary."""
    found = [LANGUAGE_OF[plain(cell)] for cell in cells if plain(cell) in LANGUAGE_OF]
    return len(set(found)) == len(found)


def stands_apart(first: Sequence[str], rest: Sequence[Sequence[str]], texts: Sequence[int], label: int) -> bool:
    """Of rows with labels: a known name among the cells is enough where others share their labels, else the text has to
    be shorter than nearly all others."""
    names = {row[label].strip() for row in rest}
    if known_name(first[label], "label") and any(known_name(first[i], "text") for i in texts):
        return True
    if len(rest) < SOME or len(names) > len(rest) // FEW:
        return False
    shorter = [sum(len(row[i]) > len(first[i]) for row in rest) for i in texts]
    return bool(texts) and all(count >= 0.95 * len(rest) for count in shorter)
