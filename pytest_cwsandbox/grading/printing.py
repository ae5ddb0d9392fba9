"""Runs inside the sandbox, after ``guard.py``: a whole program, for what it prints.

What stands on standard output is the result; the exit code says how the program ended.
"""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with guard.py, no types, broad excepts because a hostile program raises what it likes.
# ruff: noqa: ANN201, F821, S102, SLF001

# As ``output.py`` reads them. A program that leaves with these earns no more than other failures.
SYNTAX_ERROR, TIMEOUT = 65, 124


def main():
    cpu, wall, memory, code = arguments()
    null = posix.open("/dev/null", posix.O_RDWR)
    for stream in 0, 2:
        posix.dup2(null, stream)
    posix.close(null)
    limit(cpu, wall, memory, lambda: posix._exit(TIMEOUT))
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SyntaxError as error:
        if error.__traceback__.tb_next is None:
            posix._exit(SYNTAX_ERROR)
        raise


main()
