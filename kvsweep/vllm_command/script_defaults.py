"""Defaults of variables that a script does not set: ``${MODEL:-Qwen/Qwen3-8B}``."""

from __future__ import annotations

import re

from kvsweep.vllm_command.set_once import is_plain, runs_others, times_set
from kvsweep.vllm_command.shell import without_comments

# Outside of comments, as #SBATCH, and of single quotes.
_DEFAULT = re.compile(
    r"(?:(?<=\s)|^)#[^\n]*|'[^']*'|\\[\s\S]|\$\{([A-Za-z_]\w*):?-([^{}]*)\}", re.MULTILINE
)
# NAME=${NAME:-x}: what is set is what the environment has, or else the default.
_OWN = re.compile(r"(?<![\w$-])(?P<name>[A-Za-z_]\w*)=\"?\$\{(?P=name):?-")
# ${NAME:=x} sets it, too, and `NAME: x` of YAML that is read as a script, as SkyPilot's.
_SETS = re.compile(
    r"\$\{(\w+):?=|^[ \t]*(?:-[ \t]+)?[\"']?([A-Za-z_]\w*)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE
)
# What starts a script on many nodes sets these.
_OF_LAUNCHERS = re.compile(
    r"(?:SLURM|PBS|LSB|OMPI|PMIX?|PMI|MPI|RAY|SKYPILOT|KUBERNETES|CUDA|ROCR|HIP)_|"
    r"(?:LOCAL_|NODE_)?(?:RANK|WORLD_SIZE)$|HOSTNAME$"
)


def with_defaults(script: str) -> tuple[str, tuple[str, ...]]:
    r"""Put the defaults in that a script gives to variables which it sets nowhere.

    Parameters
    ----------
    script : str
        A script, which is not known to be started with such variables.

    Returns
    -------
    str
        The script with the defaults in their places.
    tuple of str
        The variables, each once.

    Examples
    --------
    >>> with_defaults("vllm serve ${MODEL:-a/b} -tp $TP")
    ('vllm serve a/b -tp $TP', ('MODEL',))
    >>> with_defaults("TP=4\nvllm serve m -tp ${TP:-2}")
    ('TP=4\nvllm serve m -tp ${TP:-2}', ())
    """
    plain = without_comments(script)
    if runs_others(plain):
        return script, ()
    times = times_set(plain)
    times.update(name for each in _SETS.findall(plain) for name in each if name)
    own = {found["name"] for found in _OWN.finditer(plain)}
    taken: dict[str, None] = {}

    def put(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None or not is_plain(default) or _OF_LAUNCHERS.match(name):
            return found[0]
        before = script[: found.start()].removesuffix('"')
        of_itself = name in own and times[name] == 1 and before.endswith(f"{name}=")
        if times[name] and not of_itself:
            return found[0]
        taken[name] = None
        return default

    text = _DEFAULT.sub(put, script)
    return (text, tuple(taken)) if taken else (script, ())


def defaults_note(names: tuple[str, ...]) -> str:
    """Say of which variables defaults are taken; not which, as one may be a secret."""
    return f"not set in the script, so that their defaults are taken: {', '.join(names)}"
