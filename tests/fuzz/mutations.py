"""Mutations of valid files: bytes, tokens, values; all drawn from one `random.Random`."""

import gzip
import json
import re

NESTED = 3000

NUMBERS = ("0", "-1", "1", "1.5", "-0.0", "1e999", "NaN", "-Infinity", "nan", "inf", "1e-320",
           "16777217", "4294967296", "9007199254740993", "9223372036854775807",
           "-9223372036854775809", "1" + "0" * 400, "9" * 5000, "0x" + "f" * 5000, "1_0", "٣",
           "100000000000001")  # fmt: skip
WORDS = ("null", "true", "[]", "{}", '""', "'", '"', "\\", "\n", "\r", "\t", "\0", ",", ",,", "[",
         "]", "{", "}", "=", "[[", "#", "\ufeff", "\u2028", "\x1b[31m", r'"\ud800"', "é", "a.b.c",
         "[" * NESTED, "a." * 1500, "x" * 100_000, "2023-11-16 18:17:03", "9999-12-31T23:59:59",
         "9999-12-31T23:59:59-14:00", "0001-01-01 00:00:00+14:00", "hit",
         '"duplicate": 1, "duplicate": 2')  # fmt: skip

VALUES = (None, True, False, 0, -1, 1, 0.5, -2.5, 1e300, 2**24 + 1, 2**31, 2**53 + 1, 2**63,
          -(2**63) - 1, 10**40, 10**400, float("nan"), float("inf"), "", "x", "x" * 100_000,
          "\x1b[31m", "\ud800", "\0", [], {}, [[]], [0, 0], [1, 1], {"a": 1})  # fmt: skip

_TOKEN = re.compile(r'"[^"\n]*"|[\w.+-]+|\s+|.', re.DOTALL)


def mutate(rng, content):
    """Return `content`, bytes of a text or of a gzip file of one, with one to four changes."""
    packed = content.startswith(b"\x1f\x8b")
    if packed and rng.random() < 0.7:
        return gzip.compress(mutate(rng, gzip.decompress(content)), 1, mtime=0)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        ways = [_bytes] if packed else [_bytes, _tokens, _tokens, _lines]
        if not packed and content.lstrip().startswith(b"{"):
            ways += [_json, _json, _json]
        content = rng.choice(ways)(rng, content)
    return content


def _bytes(rng, content):
    """Flip, delete, double, insert, swap or cut off bytes."""
    data = bytearray(content or b"\0")
    at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    end = min(end, at + rng.choice((1, 4, 50, 10**6)))
    way = rng.randrange(6)
    if way == 0:
        data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
    elif way == 1:
        del data[at:end]
    elif way == 2:
        data[at:at] = data[at:end]
    elif way == 3:
        data[at:at] = rng.randbytes(rng.choice((1, 2, 9)))
    elif way == 4:
        data = data[end:] + data[at:end] + data[:at]
    else:
        del data[at:]
    return bytes(data)


def _tokens(rng, content):
    """Delete, double, swap or replace tokens."""
    tokens = _TOKEN.findall(content.decode("utf-8", "surrogateescape")) or [""]
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    way = rng.randrange(6)
    if way == 0:
        del tokens[at]
    elif way == 1:
        tokens.insert(at, tokens[other])
    elif way == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif way == 3:
        tokens[at] = rng.choice(WORDS)
    else:
        numbers = [i for i, token in enumerate(tokens) if token[:1].isdigit()] or [at]
        tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
    return "".join(tokens).encode("utf-8", "surrogateescape")


def _lines(rng, content):
    """Delete, double, swap or empty lines."""
    lines = content.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines[at:at] = [lines[other]] * rng.choice((1, 1, 100))
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = rng.choice((b"", b" ", b"\r"))
    return b"\n".join(lines)


def _json(rng, content):
    """Replace, delete, rename or move a value of a JSON document, or of a line of JSON lines."""
    lines = [content]
    at = 0
    if b"}\n{" in content:
        lines = content.split(b"\n")
        at = rng.randrange(len(lines))
    try:
        document = json.loads(lines[at])
        slots = list(_slots(document))
        if slots:
            _change(rng, slots)
        lines[at] = json.dumps(document, indent=rng.choice((None, None, 1))).encode()
    except (ValueError, RecursionError):
        return content
    return b"\n".join(lines)


def _change(rng, slots):
    holder, key = rng.choice(slots)
    way = rng.randrange(6)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice((key + "s", key.upper(), "x", "\x1b", "k" * 9999))] = holder.pop(key)
    elif way == 2:
        other, name = rng.choice(slots)
        holder[key] = other[name] if _is_flat(other[name]) else None
    else:
        holder[key] = rng.choice(VALUES)


def _is_flat(value):
    """Whether no loop can come of putting this somewhere else in its document."""
    return not isinstance(value, dict | list)


def _slots(document):
    """Yield (container, key) of every value in a document."""
    stack = [document]
    while stack:
        holder = stack.pop()
        if isinstance(holder, dict | list):
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            for key in keys:
                yield holder, key
                stack.append(holder[key])
