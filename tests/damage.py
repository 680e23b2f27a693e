"""Ways to damage one file of a store, as disks, copies and people do."""

import os
import random
from pathlib import Path


def files_of(store: Path) -> list[Path]:
    return sorted(file for file in store.rglob("*") if file.is_file())


def flip_a_bit(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    place = rng.randrange(8 * len(data))
    data[place // 8] ^= 1 << place % 8
    file.write_bytes(data)


def delete(file: Path, rng: random.Random) -> None:
    file.unlink()


def truncate(file: Path, rng: random.Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def append(file: Path, rng: random.Random) -> None:
    with file.open("ab") as stream:
        stream.write(rng.choice([b"\0", b"\n", b"}", rng.randbytes(rng.randrange(1, 100))]))


def zero(file: Path, rng: random.Random) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def swap(file: Path, rng: random.Random) -> None:
    """Put another file of the same store in its place, one of the same kind mostly."""
    store = next(folder for folder in file.parents if folder.suffix == ".zarr")
    others = files_of(store)
    alike = [other for other in others if other.name == file.name and other != file]
    other = rng.choice(alike if alike and rng.random() < 0.7 else others)
    file.write_bytes(other.read_bytes())


KINDS = {kind.__name__: kind for kind in (flip_a_bit, delete, truncate, append, zero, swap)}
