"""What the settings of a table mean, as run files tell it."""

HEADER_HELP = (
    "whether the first row of a csv or tsv has the column names; auto: detected; named: only if columns are given by "
    "name"
)
DELIMITER_HELP = (
    "column delimiter of a csv or tsv, such as ';' or 'tab'; auto: detected; suffix: a comma for .csv, else a tab"
)
ENCODING_HELP = "character encoding of the files, such as utf-8 or cp1252; auto: detected"
