"""Versions of the files that a run leaves."""

from __future__ import annotations


def check_schema(found: object, known: int, *, remedy: str) -> None:
    """Raise ``ValueError`` unless ``found`` is the version that is read here.

    ``remedy`` is for versions that are older, or none.
    """
    if found is None:
        raise ValueError('it has no "schema"')
    if type(found) is not int or found != known:
        newer = type(found) is int and found > known
        raise ValueError(
            f"schema {found!r:.20}, and this version of pytest-cwsandbox reads schema {known}: "
            + ("upgrade it" if newer else remedy)
        )
