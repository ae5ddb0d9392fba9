"""Runs inside the judge sandbox, after ``values.py`` and ``guard.py``: asserts with values put in.

Never sees a solution. Its result is a row of items like the worker's: ``P`` for an assert that
holds, then ``W`` for the first that does not or ``R`` for the first that raised.
"""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with guard.py, no types, broad excepts because a hostile program raises what it likes.
# ruff: noqa: ANN001, ANN201, ANN202, BLE001, F821, S102, SLF001


def failure(error):
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except BaseException:  # such as a KeyError of an integer with too many digits
        return type(error).__name__


def main():
    cpu, wall, memory, setup, count, *rest = arguments()
    asserts, values = rest[: int(count)], rest[int(count) :]

    def value(index):
        if values[index][0] != "V":
            raise RuntimeError(values[index][1:])
        return decode(values[index][1:])

    scope = {"__value__": value, "__name__": "tests", "__builtins__": builtins}
    try:
        exec(setup, scope)
    except BaseException as error:
        posix.write(2, f"tests: {type(error).__name__}: {error}".encode())
        posix._exit(1)
    finish = detach()
    limit(cpu, wall, memory, lambda: finish("T0:"))
    items = []
    for statement in asserts:
        try:
            exec(statement, scope)
        except AssertionError:
            items.append("W0:")
            break
        except BaseException as error:
            text = failure(error)
            items.append(f"R{len(text)}:{text}")
            break
        items.append("P0:")
    finish("".join(items))


main()
