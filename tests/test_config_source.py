"""Lines of TOML keys: found in any layout, and never wrong."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsweep.config.source import parse_source, read_source
from kvsweep.errors import InputError

TRICKY = '''# comment = 1
title = "a # no comment, no [table], no = sign"

"quoted.key" = 1 # ] }
a.b . "c d" = 2
text = """
fake = 1
[fake]
\\""" still inside"""
literal = \'\'\'
fake = 2\'\'\'\'
empty = ""
list = [ # comment ]
  1,
  { x = 1, y = [
    2 ] },
  "]", # more
]
[table]
key = 2026-01-01 00:00:00
[table.sub]
key = { p = { q = 1 }, r = "}" }
[[items]]
id = 'one'
[items.part]
v = 1
[[items]]
id = "two"
[[items.parts]]
v = 2
[[items.parts]]
v = 3
'''


def test_a_tricky_file():
    lines = parse_source(TRICKY, "f.toml").lines
    expected = {
        ("title",): 2,
        ("quoted.key",): 4,
        ("a", "b", "c d"): 5,
        ("text",): 6,
        ("literal",): 10,
        ("empty",): 12,
        ("list",): 13,
        ("list", 0): 14,
        ("list", 1, "x"): 15,
        ("list", 1, "y"): 15,
        ("list", 1, "y", 0): 16,
        ("list", 2): 17,
        ("table",): 19,
        ("table", "key"): 20,
        ("table", "sub", "key", "p", "q"): 22,
        ("table", "sub", "key", "r"): 22,
        ("items", 0, "id"): 24,
        ("items", 0, "part", "v"): 26,
        ("items", 1, "id"): 28,
        ("items", 1, "parts", 0, "v"): 30,
        ("items", 1, "parts", 1, "v"): 32,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert not any("fake" in path for path in lines)


KEYS = st.sampled_from(["a", "b-1", "c_d", "e.f", "g h", "#", "]", '"'])
LEAF = st.just(0)
VALUES = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
SECTION = st.dictionaries(KEYS, VALUES, max_size=4)
DOCUMENT = st.fixed_dictionaries({}, optional=dict.fromkeys(("s", "t", "u.v"), SECTION))


class Writer:
    """Writes TOML in which each scalar is a number of its own, with noise in between."""

    def __init__(self, draw):
        self.draw = draw
        self.paths = {}

    def number(self, path):
        self.paths[path] = 1000 + len(self.paths)
        return str(self.paths[path])

    def noise(self):
        return self.draw(st.sampled_from(["", " ", "\n", "# ] } = [x]\n", '# """\n\n']))

    def key(self, name):
        bare = all(c.isalnum() or c in "-_" for c in name)
        quoted = '"' + name.replace('"', '\\"') + '"'
        return name if bare and self.draw(st.booleans()) else quoted

    def value(self, value, path):
        if value == 0 and not isinstance(value, list | dict):
            return self.number(path)
        if isinstance(value, list):
            items = (self.noise() + self.value(v, (*path, i)) for i, v in enumerate(value))
            return "[" + ",".join(items) + self.noise() + "]"
        pairs = (f"{self.key(k)} = {self.value(v, (*path, k))}" for k, v in value.items())
        return "{ " + ", ".join(pairs) + " }"

    def document(self, document):
        text = ""
        for name, section in document.items():
            text += f"{self.noise()}\n[ {self.key(name)} ]{self.noise()}\n"
            for key, value in section.items():
                text += f"{self.key(key)} = {self.value(value, (name, key))}\n{self.noise()}\n"
        return text


@settings(max_examples=60, deadline=None)
@given(document=DOCUMENT, data=st.data())
def test_every_scalar_is_found_on_the_line_that_holds_it(document, data):
    writer = Writer(data.draw)
    text = writer.document(document)
    source = parse_source(text, "f.toml")
    lines = text.split("\n")
    for path, number in writer.paths.items():
        assert str(number) in lines[source.lines[path] - 1]


def test_syntax_errors_and_unreadable_files_are_one_line(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(InputError, match=rf"^{path}:2: not TOML: Invalid value$"):
        read_source(path)
    path.write_text('a = """')
    with pytest.raises(InputError, match=rf"^{path}: not TOML: "):
        read_source(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(InputError, match=r":1: not a text file in UTF-8: byte 0xff; "):
        read_source(path)
    with pytest.raises(InputError, match=r"cannot read: No such file or directory$"):
        read_source(tmp_path / "absent.toml")
    with pytest.raises(InputError, match=r"cannot read: Is a directory$"):
        read_source(tmp_path)


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_text(tmp_path):
    path = tmp_path / "f.toml"
    path.write_bytes(b"\xef\xbb\xbf[a]\r\nb = 1\r\n")
    source = read_source(path)
    assert source.text == "[a]\nb = 1\n"
    assert source.lines == {("a",): 1, ("a", "b"): 2}


DEEP = "[" * 40 + "]" * 40
HUGE = "0x" + "f" * 5000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[a]\nb = {DEEP}", "f.toml: a.b: more than 32 levels of nesting"),
        (f"[a]\nb = {2**63}", "f.toml: a.b: an integer must have at most 64 bits, got 92233720368"),
        (f"[a]\nb = [0, {HUGE}]", "f.toml: a.b[1]: an integer must have at most 64 bits, got an "),
        ("a = " + "9" * 5000, "f.toml: an integer of more than 4,300 digits"),
        ("a = " + "[" * 100_000, "f.toml: more than 32 levels of nesting"),
    ],
    ids=["deep", "wide", "huge", "long", "very deep"],
)
def test_values_that_would_fail_later_are_refused_at_once(text, message):
    with pytest.raises(InputError) as caught:
        parse_source(text, "f.toml")
    assert str(caught.value).startswith(message)


def test_files_that_are_no_sweeps_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.toml")
    with pytest.raises(InputError, match=r"fifo\.toml: cannot read: is a pipe"):
        read_source(tmp_path / "fifo.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**24 + 1))
    with pytest.raises(InputError, match=r"large\.toml: more than 16,777,216 bytes"):
        read_source(tmp_path / "large.toml")


def test_long_keys_are_quoted_short():
    source = parse_source(f"[a]\n{'k' * 5000} = 1", "f.toml")
    message = str(source.error(("a", "k" * 5000), "unknown key"))
    assert message == f"f.toml:2: a.{'k' * 57}...: unknown key"
