"""The API's description says of every route what it answers, down to the last field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

Schema = dict[str, Any]

# Fields whose content depends on what happened, on the machine, or on a certificate's kind.
FREE = {
    "EntryOut.detail",
    "HistoryOut.detail",
    "NotParsedOut.remedy",
    "CertificateOut.numbers",
}


@pytest.fixture
def description(client: Any) -> Schema:
    answer: Schema = client.get("/api/v1/openapi.json").json()
    return answer


def operations(description: Schema) -> Iterator[tuple[str, Schema]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def is_typed(schema: Schema) -> bool:
    """Whether a schema says what kind of value it describes."""
    if any(kind in schema for kind in ("$ref", "enum", "const")):
        return True
    if options := schema.get("anyOf", schema.get("oneOf", schema.get("allOf"))):
        return all(is_typed(option) for option in options)
    if schema.get("type") == "array":
        places = schema.get("prefixItems", [schema.get("items", {})])
        return all(is_typed(place) for place in places)
    if schema.get("type") == "object" and "properties" not in schema:
        values = schema.get("additionalProperties")
        return isinstance(values, dict) and is_typed(values)
    return "type" in schema


def test_every_route_describes_its_answer(description: Schema) -> None:
    for name, operation in operations(description):
        answers = {code: a for code, a in operation["responses"].items() if code.startswith("2")}
        assert answers, name
        for code, answer in answers.items():
            if code == "204":
                assert "content" not in answer, name
                continue
            assert answer.get("content"), name
            for kind, content in answer["content"].items():
                assert is_typed(content.get("schema", {})), (name, kind)
                if kind == "application/json":
                    shape = content["schema"]
                    assert "$ref" in shape or "anyOf" in shape or shape.get("format") == "binary", (
                        name
                    )


def test_every_field_of_every_answer_is_described(description: Schema) -> None:
    components = description["components"]["schemas"]
    untyped = {
        f"{name}.{field}"
        for name, model in components.items()
        for field, schema in model.get("properties", {}).items()
        if name.endswith("Out") and not (is_typed(schema) and "JsonValue" not in str(schema))
    }
    assert untyped == FREE
    assert len([name for name in components if name.endswith("Out")]) > 40
