"""Reading files: what is no regular file, too large, damaged or no text is refused at once."""

import gzip
import os
import socket
import tracemalloc
import zlib
from pathlib import Path

import pytest

from kvsweep.config.source import read_source
from kvsweep.errors import InputError, clip, dotted, shown
from kvsweep.reading import nearby, open_regular, read_text


def refused(path, most=1000, *, packed=True):
    with pytest.raises(InputError) as caught:
        read_text(path, most, packed=packed)
    message = str(caught.value)
    assert message.isprintable()
    return message


def write(tmp_path, content, name="f"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert read_text(write(tmp_path, b"\xef\xbb\xbfa\xc3\xa9\r\n"), 10) == "aé\r\n"


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert refused(path).startswith(f"{path}: cannot read: is a pipe, no regular file")
    (tmp_path / "link").symlink_to(path)
    assert "is a pipe" in refused(tmp_path / "link")


def test_what_replaces_a_file_before_it_is_opened_is_refused_too(tmp_path, monkeypatch):
    path = write(tmp_path, b"text")
    seen = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda self, **options: seen)
    assert "is a pipe" in refused(path)


def test_devices_folders_and_sockets_are_refused(tmp_path):
    assert "is a device" in refused(Path("/dev/zero"))
    assert "is a device" in refused(Path("/dev/null"))
    assert refused(tmp_path).endswith("cannot read: Is a directory")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert "is a socket" in refused(tmp_path / "socket")


def test_names_that_no_file_can_have_are_refused(tmp_path):
    assert "File name too long" in refused(tmp_path / ("n" * 300))
    for path in ("n" * 300, "a\0b"):
        with pytest.raises(InputError, match="cannot read: "):
            read_source(Path(path))
    assert "cannot read: " in refused(Path("a\0b"))
    assert "cannot read: " in refused(Path("a\ud800b"))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "symbolic links" in refused(loop)


def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(write(tmp_path, b"text"))
    assert read_text(tmp_path / "link", 4) == "text"
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"


def test_the_bytes_are_bounded_before_and_after_unpacking(tmp_path):
    assert len(read_text(write(tmp_path, b" " * 1000), 1000)) == 1000
    assert "more than 1,000 bytes" in refused(write(tmp_path, b" " * 1001))
    assert len(read_text(write(tmp_path, gzip.compress(b" " * 1000)), 1000, packed=True)) == 1000
    assert "more than 1,000 bytes" in refused(write(tmp_path, gzip.compress(b" " * 1001)))


def test_a_gzip_bomb_is_refused_without_being_kept(tmp_path):
    packer = zlib.compressobj(9, wbits=31)
    piece = b" " * 2**20
    bomb = b"".join([packer.compress(piece) for _ in range(200)]) + packer.flush()
    path = write(tmp_path, bomb)
    assert len(bomb) < 2**18
    tracemalloc.start()
    try:
        assert "bytes" in refused(path, 2**27)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_members_of_a_gzip_file_are_one_text_and_anything_else_damages_it(tmp_path):
    packed = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert read_text(write(tmp_path, packed), 100, packed=True) == "one, two"
    assert read_text(write(tmp_path, packed + bytes(9)), 100, packed=True) == "one, two"
    for damaged in (packed + b"rubbish", packed[:-1], packed[:15], packed[:3]):
        assert refused(write(tmp_path, damaged)).endswith("truncated or damaged gzip file")
    wrong = bytearray(packed)
    wrong[-8] ^= 1  # of the checksum
    assert refused(write(tmp_path, bytes(wrong))).endswith("truncated or damaged gzip file")


def test_other_formats_are_told_by_name(tmp_path):
    for start, name in (
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"PAR1", "a Parquet file"),
    ):
        assert name in refused(write(tmp_path, start + bytes(50)))
    assert "gzip" in refused(write(tmp_path, gzip.compress(b"text")), packed=False)


def test_what_is_no_text_is_refused_with_its_line(tmp_path):
    path = write(tmp_path, b"one\ntwo \0\n")
    assert refused(path) == f"{path}:2: not a text file: it has a NUL byte"


def test_another_encoding_is_refused_with_what_to_do(tmp_path):
    for encoding in ("utf-16-le", "utf-16-be"):
        path = write(tmp_path, "\ufeffcafé".encode(encoding))
        told = "not a text file in UTF-8 but in UTF-16: `iconv -f UTF-16 -t UTF-8` makes it so"
        assert refused(path) == f"{path}: {told}"
    told = "byte 0xe9; if it is text, `iconv -f ITS-ENCODING -t UTF-8` makes it so"
    for mark in (b"", b"\xef\xbb\xbf"):
        path = write(tmp_path, mark + b"one\ncaf\xe9\n")
        assert refused(path) == f"{path}:2: not a text file in UTF-8: {told}"


def test_no_input_reaches_the_terminal_as_a_command(tmp_path):
    message = refused(tmp_path / "\x1b[31mred\n\x07\u202e")
    assert r"\x1b[31mred" in message
    assert r"\x07\u202e" in message
    assert str(InputError("one\n  two\x1b")) == r"one two\x1b"
    assert str(InputError(str(InputError("\x1b")))) == r"\x1b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ({"a": 1}, "an object"),
        ([[[]]], "a list"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("it's", '"it\'s"'),
        ("\x1b[31m", r"'\x1b[31m'"),
        ("a" * 1000, f"'{'a' * 57}...'"),
    ],
)
def test_values_are_quoted_short_and_safe(value, text):
    assert shown(value) == text


def test_an_integer_too_long_for_python_to_write_is_described():
    assert shown(10**5000) == "an integer of 16,610 bits"


def test_keys_are_quoted_short():
    assert dotted(("a", 3, "b" * 1000, "c")) == f"a[3].{'b' * 57}....c"
    assert clip("a" * 60) == "a" * 60


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"PAR1rest", "a Parquet file"), (b"BZh9rest", "compressed by bzip2"), (None, "by gzip once")],
)
def test_what_is_inside_a_gzipped_file_is_named(tmp_path, content, what):
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"x") if content is None else content))
    with pytest.raises(InputError, match=rf"t\.gz: unpacked, it is .*{what}.*: unpack it first"):
        read_text(path, 10**6, packed=True)


@pytest.mark.parametrize("name", ["https://host/x.json", "file:///x.json", "s3://bucket/x.json"])
def test_addresses_are_said_not_to_be_read(name):
    with pytest.raises(InputError, match="an address, and only files of this machine are read"):
        read_text(Path(name), 10**6)


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
def test_utf_32_is_not_taken_for_utf_16(tmp_path, encoding):
    """The remedy that was named makes rubbish of it."""
    path = write(tmp_path, "\ufeffcafé".encode(encoding))
    told = "not a text file in UTF-8 but in UTF-32: `iconv -f UTF-32 -t UTF-8` makes it so"
    assert refused(path) == f"{path}: {told}"


def test_a_name_that_is_written_nearly_so_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    for name in ("own/h8-steady.toml", "own/h8.txt", "watermark.toml"):
        Path(name).touch()
    for given, meant in (
        ("own/h8-stedy.toml", "own/h8-steady.toml"),
        ("watermarks.toml", "watermark.toml"),
        ("own/h8-steadi", "own/h8-steady.toml"),
        ("p.toml", None),
        ("own/h8.toml", None),
        ("other/h8-stedy.toml", None),
        (f"own/{'h8-steady' * 99}.toml", None),
    ):
        told = f"; did you mean '{meant}'?" if meant else ""
        assert nearby(Path(given), "sweeps", ".toml") == told
