"""The JSON Schema of rows."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

from ms_port.opmap.errors import OpMapError
from ms_port.opmap.rows import RowText
from ms_port.opmap.source import line_of, load_yaml


@lru_cache(maxsize=1)
def validator() -> Any:
    """The compiled schema."""
    schema = json.loads((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def check_schema(row: RowText) -> None:
    """Check one row. Raises OpMapError with the line of the first fault."""
    errors = list(validator().iter_errors(load_yaml(row)))
    # A wrong value also makes its key "unevaluated": the value is the cause.
    causes = [error for error in errors if error.validator != "unevaluatedProperties"] or errors
    error = jsonschema.exceptions.best_match(causes)
    if error is not None:
        path = list(error.absolute_path)
        where = ".".join(map(str, path))
        raise OpMapError(row.file, row.api, f"{where}: {error.message}" if where else error.message, line_of(row, path))
