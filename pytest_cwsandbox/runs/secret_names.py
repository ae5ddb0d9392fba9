"""Which names are those of a secret. docs/provenance.md states the rule."""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_KEY = r"(api|access|secret|private|signing|encryption|master|account)_?key"
# Compiled when first used, by ``re``'s own cache: that takes longer than importing all the rest of
# these modules, and few variables come as far.
# A secret whatever its value is. PGPASSWORD is one word, and SECRETARY another.
_PLAINLY = rf"(password|passwd|passphrase|secret|token|{_KEY}|(^|_)authorization|_pwd|_pass)$"
_PROBABLY = (
    rf"(passwords?|passwd|passphrase|secrets?|token|{_KEY}s?|credentials?|webhook)(_|$)"
    r"|(auth|access|api|refresh)_tokens$|(^|_)(authorization|bearer|cookies?)(_|$)"
    r"|_(keys?|pat|sk|pwd)$|(^|_)(o?auth|pass)$|sshpass$"
)
_NEVER = (
    # What tells of a secret: TOKEN_FILE, API_KEY_ID, SSH_AUTH_SOCK.
    r"_(files?|path|dir|folder|mode|type|kind|name|ids?|user|username|uri|host|port|endpoint|count"
    r"|limit|budget|length|size|ttl|expiry|timeout|format|prefix|algorithm|policy|version|region"
    r"|sock|enabled|provider|location|store|method|class|header|env|var)$|(?<!webhook)_url$"
    # Other keys, and the tokens of a language model.
    r"|(^|_)(sort|order|group|primary|foreign|unique|partition|shard|hash|row|cache|index|public"
    r"|join|dict|lookup|max|min|num|stop|extra|answer|problem|sample)_keys?$"
    r"|(^|_)(max|min|num|eos|bos|pad|unk|sep|cls|mask|stop|start|end|special|image|next|per)_token$"
)
# Such as a function of a solution, or --auth=api-key.
_ORDINARY = re.compile(r"[A-Za-z_-]{1,19}")
_IN_A_QUERY = frozenset({"key", "sig", "signature"})


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: ``OPENAI_API_KEY``, ``hf_token``, ..."""
    words = _words(name)
    return re.search(_PROBABLY, words) is not None and re.search(_NEVER, words) is None


def is_secret(name: str, value: str) -> bool:
    """As ``is_secret_name``, but that an ordinary word is a secret under a plain name only."""
    if not is_secret_name(name):
        return False
    return _ORDINARY.fullmatch(value) is None or re.search(_PLAINLY, _words(name)) is not None


def is_secret_parameter(name: str, value: str) -> bool:
    """As ``is_secret``, of a parameter in a URL's query: there ``key`` is one, and signatures."""
    return is_secret(name, value) or _words(name).rpartition("_")[2] in _IN_A_QUERY


def _words(name: str) -> str:
    """Such as ``access_token`` for accessToken and --access-token; numbers say nothing."""
    return "_".join(_WORDS.findall(name[-200:])).lower()
