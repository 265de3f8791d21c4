"""Strings that tokenizers stumble over: emoji and their joiners, combining marks, control characters, mixed scripts."""

import random

LETTERS = {
    "latin": "abcdefghij ABCXYZ éèêëñçøåßœ ﬁﬂ",
    "greek": "αβγδ ΑΒΓ ώ",
    "cyrillic": "абвгд ЖЗ ё",
    "hebrew": "אבגד ",
    "arabic": "ابتث لا ",
    "devanagari": "नमस्ते क्षि ",
    "thai": "สวัสดี ",
    "han": "猫狗漢字汉字 ",
    "kana": "かなカナｶﾅ ",
    "hangul": "한국어 ",
    "digits": "0123456789 ٠١٢ ①②Ⅳ½²",
    "marks": ".,;:!?…—–-'\"«»“”()[]{}<>/\\|@#$%^&*_+=~`",
    "emoji": "🙂😀👍🏽👨‍👩‍👧‍👦🏳️‍🌈🇩🇪❤️☕",
    "combining": "e\u0301a\u0308o\u0304\u0323 \u0301\u0327",
    "control": "\t\n\r\x0b\x0c\x00\x01\x1f\x7f\u200b\u200d\u200e\u202e\ufeff\u00ad",
    "spaces": "  \u00a0\u2003\u3000",
}
WORDS = ["the", "cat", "sat", "on", "mat", "Once", "upon", "a", "time", "hello", "world", "don't", "I'm"]
WORDS += ["www.x.org", "naïve", "Straße", "Größe"]


def strings(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    kinds = list(LETTERS)
    found = ["", " ", "  ", "\n", "a", "<s>", "</s> x", "[MASK] y", "<|endoftext|>"]
    while len(found) < count:
        parts = []
        for _ in range(draw.randint(1, 6)):
            if draw.random() < 0.4:
                parts.append(" ".join(draw.choices(WORDS, k=draw.randint(1, 3))))
            else:
                parts.append("".join(draw.choices(LETTERS[draw.choice(kinds)], k=draw.randint(1, 6))))
        found.append(draw.choice(["", " "]).join(parts))
    return found
