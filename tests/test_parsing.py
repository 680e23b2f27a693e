"""Strict parsers: what the libraries' parsers drop, change or raise is one line with its place."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.errors import InputError
from kvsweep.parsing import first_excess, parse_csv, parse_json, parse_toml

DIGITS = "9" * 5000


def short(value):
    """Return a test's name, as some inputs have 200,000 characters."""
    return value[:20] if isinstance(value, str) else "document"


def refused(parse, *arguments):
    with pytest.raises(InputError) as caught:
        parse(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 300
    return message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "f: duplicate key 'a'"),
        ('{"a": [{"b": 1}, {"b": 1, "b": 2}]}', "f: a[1]: duplicate key 'b'"),
        ('{"a": {"b": [0, NaN]}}', "f: a.b[1]: NaN is no number of JSON"),
        ("[-Infinity]", "f: [0]: -Infinity is no number of JSON"),
        ('{"a": 1e999}', "f: a: 1e999 is too large a number"),
        (f'{{"a": [1, {DIGITS}]}}', "f: a[1]: an integer of more than 4,300 digits"),
        (f'{{"a": -{DIGITS}}}', "f: a: an integer of more than 4,300 digits"),
        ("[" * 200_000, "f: more than 32 levels of nesting"),
        ('{"a":' * 200_000, "f: more than 32 levels of nesting"),
        (
            '{"a": 1,\n "b" 2}',
            "f:2: truncated or malformed JSON: Expecting ':' delimiter at column",
        ),
        ('{"a": "\x1b"}', "f:1: truncated or malformed JSON: Invalid control character at"),
        ("{} {}", "f:1: truncated or malformed JSON: Extra data"),
        ("", "f:1: truncated or malformed JSON: Expecting value"),
        (f'{{"{"k" * 5000}": 1, "{"k" * 5000}": 1}}', "f: duplicate key 'kkkkk"),
    ],
    ids=short,
)
def test_json_that_python_would_take_or_choke_on_is_refused(text, message):
    assert refused(parse_json, text, "f").startswith(message)


def test_a_line_of_json_has_the_number_it_is_given():
    assert refused(parse_json, "{", "f", 7).startswith("f:7: truncated or malformed JSON")
    assert refused(parse_json, "[NaN]", "f", 7).startswith("f:7: [0]: NaN")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(-1e300, 1e300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(document=JSON)
def test_strict_json_is_json(document):
    assert parse_json(json.dumps(document, indent=1), "f") == document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = =", "f:2: not TOML: Invalid value"),
        ("a = 1\na = 2\n", "f:2: not TOML: Cannot overwrite a value"),
        (f"a = {DIGITS}", "f: an integer of more than 4,300 digits"),
        ("a = " + "[" * 100_000, "f: more than 32 levels of nesting"),
        ("a." * 200_000 + "a = 1", "f: a key of more than 1,000 parts: 'a.a.a."),
        ("[" + "a . " * 200_000 + "a]", "f: a key of more than 1,000 parts: 'a . a . a"),
    ],
    ids=short,
)
def test_toml_that_chokes_its_parser_is_refused(text, message):
    assert refused(parse_toml, text, "f").startswith(message)


def test_prose_and_numbers_with_dots_are_no_long_keys():
    text = f'a = "{"So it goes. " * 900}"\nb = [{"0.5, " * 5000}]\n# {"." * 5000}'
    assert len(parse_toml(text, "f")["b"]) == 5000


@pytest.mark.parametrize(
    ("document", "excess"),
    [
        ({"a": [2**63 - 1, -(2**63)], "b": {"c": math.inf}}, None),
        ({"a": [0, 2**63]}, (("a", 1), "an integer must have at most 64 bits")),
        ({"a": {"b": int("f" * 5000, 16)}}, (("a", "b"), "an integer must have at most 64 bits")),
        (parse_toml("a.b = " + "[" * 100 + "]" * 100, "f"), (("a", "b"), "more than 32 levels")),
    ],
    ids=short,
)
def test_settings_are_shallow_and_of_64_bits(document, excess):
    found = first_excess(document)
    if excess is None:
        assert found is None
    else:
        assert (found[0], found[1][: len(excess[1])]) == excess


def rows(text):
    header, lines = parse_csv(text, "f")
    return header, list(lines)


def test_rows_have_their_lines_and_blank_lines_are_left_out():
    text = 'a,b\n\n1,"two\nlines"\r\n\n3,4\n  \n'
    assert rows(text) == (["a", "b"], [(4, ["1", "two\nlines"]), (6, ["3", "4"])])
    assert rows("") == ([], [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,a\n1,2,3", "f:1: duplicate column 'a'"),
        ("a,b\n1,2,3", "f:2: 3 fields, expected 2 as in the header"),
        ("a,b\n1,2\n1", "f:3: 1 fields, expected 2 as in the header"),
        ("a,b\r1,2\n", "f:1: malformed CSV: new-line character seen in unquoted field"),
        ('a,b\n1,"2', "f:2: malformed CSV: unexpected end of data"),
        ('a,b\n1,"2"3', "f:2: malformed CSV: ',' expected after '\"'"),
    ],
    ids=short,
)
def test_tables_are_rectangles(text, message):
    assert refused(rows, text).startswith(message)


def test_where_json_ends_is_told_once():
    """It was "starting at at column"."""
    with pytest.raises(InputError, match=r"JSON: Unterminated string starting at column 7$"):
        parse_json('{"a": "b', "f")
