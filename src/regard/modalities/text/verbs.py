"""What can be asked of a model that reads or writes text."""

from regard.modalities.verb import Verb

TRANSLATE = Verb(
    "translate",
    "Translate texts, or the lines of standard input.",
    {"text": "regard.modalities.text.runners:translate"},
    answers={"text": "regard.modalities.text.runners:Translation"},
    views={"text": "regard.modalities.text.translation_views:TRANSLATIONS"},
    command="regard.cli.translate:run",
    cannot="cannot translate text",
    roles=("source",),
    use="an encoder-decoder such as transformer, t5 or rnn that was trained to translate",
    examples={"text": "regard.modalities.text.runners:translated_example"},
    measured="regard.modalities.text.measuring:measure_files",
    reply="regard.modalities.text.text_answers:translations",
    stream="regard.modalities.text.runners:stream_text",
    written="regard.modalities.text.text_answers:translation_of",
)
GENERATE = Verb(
    "generate",
    "Generate text from a prompt, and print it token by token.",
    {"text": "regard.modalities.text.runners:generate"},
    answers={"text": "regard.modalities.text.runners:Generation"},
    views={"text": "regard.modalities.text.views:GENERATIONS"},
    command="regard.cli.generate:run",
    cannot="cannot generate text",
    roles=("prompt",),
    use="a causal language model such as gpt",
    examples={"text": "regard.modalities.text.runners:continued_example"},
    causal=True,
    instead={"translate": "use `regard translate` with this model"},
    reply="regard.modalities.text.text_answers:continuations",
    stream="regard.modalities.text.runners:stream_text",
    written="regard.modalities.text.text_answers:continuation_of",
)
TAG = Verb(
    "tag",
    "Tag the words of texts: one word, a tab and its tag per line, and a blank line after each text.",
    {"text": "regard.modalities.text.runners:tag"},
    answers={"text": "regard.modalities.text.text_model:TaggedText"},
    views={"text": "regard.modalities.text.views:TAGS"},
    command="regard.cli.tag:run",
    cannot="cannot tag words",
    use="a model with head = 'tags'",
    examples={"text": "regard.modalities.text.runners:tagged_example_of"},
)
ANSWER = Verb(
    "answer",
    "Find the answer to a question in a text.",
    {"text": "regard.modalities.text.runners:answer"},
    answers={"text": "regard.modalities.text.text_model:AnswerSpan"},
    views={"text": "regard.modalities.text.views:SPANS"},
    command="regard.cli.answer:run",
    cannot="cannot answer questions",
    roles=("question", "context"),
    use="a model with head = 'span'",
    examples={"text": "regard.modalities.text.runners:answered_example_of"},
    before=("who runs",),
)
EMBED = Verb(
    "embed",
    "Embed texts as vectors of length 1. For a few texts, print a table of their cosine similarities.",
    {"text": "regard.modalities.text.runners:embed"},
    answers={"text": "torch:Tensor"},
    views={"text": "regard.modalities.text.views:EMBEDDINGS"},
    command="regard.cli.embed:run",
    cannot="has no sentence embeddings",
    use="a text encoder such as bert",
    examples={"text": "regard.modalities.text.runners:embedded_example_of"},
)
