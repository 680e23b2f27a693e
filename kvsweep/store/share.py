"""Shares of a sweep: its tasks dealt out to several runs that know nothing of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvsweep.errors import InputError, shown
from kvsweep.store.parts import FOLDER

_TEXT = re.compile(r"(-?\d{1,18})/(-?\d{1,18})")
_NAME = re.compile(r"share-(\d+)-of-(\d+)")


@dataclass(frozen=True)
class Share:
    """One of several shares of the tasks of a sweep: disjoint, and together all.

    Attributes
    ----------
    number, of : int
        The share, from 1, and how many there are.
    """

    number: int
    of: int

    def __str__(self) -> str:
        """Return it as it is given: ``2/4``."""
        return f"{self.number}/{self.of}"

    def has(self, task: int) -> bool:
        """Whether a task is in the share, by its index.

        Of any `of` tasks in a row each share has one, and the next row begins with the next share:
        else a share could have all tasks with the smallest caches, which cost most.
        """
        return (task + task // self.of) % self.of == self.number - 1

    @property
    def token(self) -> str:
        """The file in the store by which it, and workers, know that this share was begun there."""
        return f"{FOLDER}/share-{self.number}-of-{self.of}"

    @property
    def lock(self) -> str:
        """What the name of the lock ends with that keeps the same share from being run twice."""
        return f"{self.number}-of-{self.of}.lock"

    def check(self, tasks: int) -> None:
        """See that each share has a task.

        Raises
        ------
        InputError
            If there are more shares than tasks.
        """
        if self.of > tasks:
            many = f"{tasks:,} tasks, which are at most {tasks:,} shards"
            most = "1 task, which is at most 1 shard" if tasks == 1 else many
            raise InputError(f"--shard: {self}: the sweep has {most}")

    @classmethod
    def asked(cls, text: str | None, *, overwrite: bool, extend: bool) -> Share | None:
        """Return the share that a run is asked for.

        Raises
        ------
        InputError
            If it is none, or what others did for the store would be lost.
        """
        if overwrite and extend:
            raise InputError("--extend: cannot be used with --overwrite")
        if text is None:
            return None
        if extend:
            raise InputError("--shard: cannot be used with --extend, which one run does alone")
        if overwrite:
            raise InputError(
                "--shard: cannot be used with --overwrite, by which each would delete what others "
                "did; delete the store first"
            )
        return cls.read(text)

    @classmethod
    def read(cls, text: str) -> Share:
        """Read a share as it is given.

        Raises
        ------
        InputError
            If it is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise InputError(f"--shard: expected K/N, such as 2/4, got {shown(text)}")
        number, of = map(int, found.groups())
        if of < 1:
            raise InputError(f"--shard: {text}: of at least 1 shard")
        if not 1 <= number <= of:
            raise InputError(f"--shard: {text}: shards of {of:,} have the numbers 1 to {of:,}")
        return cls(number, of)

    @classmethod
    def named(cls, file: str) -> Share | None:
        """Return the share that a file in the folder of parts tells of; None if it is another."""
        found = _NAME.fullmatch(file)
        return cls(*map(int, found.groups())) if found else None
