"""What can be asked of a model that reads or writes text."""

from regard.modalities.verb import Verb

TRANSLATE = Verb(
    "translate",
    "Translate texts, or the lines of standard input.",
    {"text": "regard.modalities.text.runners:translate"},
    answers={"text": "regard.modalities.text.runners:Translation"},
    command="regard.cli.translate:run",
    cannot="cannot translate text",
    use="an encoder-decoder such as transformer, t5 or rnn that was trained to translate",
    example="regard.modalities.text.runners:translated_example",
    reply="regard.modalities.text.text_answers:translations",
    stream="regard.modalities.text.runners:stream_text",
    written="regard.modalities.text.text_answers:translation_of",
)
GENERATE = Verb(
    "generate",
    "Generate text from a prompt, and print it token by token.",
    {"text": "regard.modalities.text.runners:generate"},
    answers={"text": "regard.modalities.text.runners:Generation"},
    command="regard.cli.generate:run",
    cannot="cannot generate text",
    use="a causal language model such as gpt",
    example="regard.modalities.text.runners:continued_example",
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
    command="regard.cli.tag:run",
    cannot="cannot tag words",
    use="a model with head = 'tags'",
)
ANSWER = Verb(
    "answer",
    "Find the answer to a question in a text.",
    {"text": "regard.modalities.text.runners:answer"},
    answers={"text": "regard.modalities.text.text_model:AnswerSpan"},
    command="regard.cli.answer:run",
    cannot="cannot answer questions",
    use="a model with head = 'span'",
)
EMBED = Verb(
    "embed",
    "Embed texts as vectors of length 1. For a few texts, print a table of their cosine similarities.",
    {"text": "regard.modalities.text.runners:embed"},
    answers={"text": "torch:Tensor"},
    command="regard.cli.embed:run",
    cannot="has no sentence embeddings",
    use="a text encoder such as bert",
)
