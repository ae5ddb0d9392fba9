"""Runs inside the sandbox, after ``guard.py``: a whole program, for its exit code."""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with guard.py, no types, broad excepts because a hostile program raises what it likes.
# ruff: noqa: ANN201, F821, S102


def main():
    cpu, wall, memory, code = arguments()
    limit(cpu, wall, memory, lambda: finish("T0:"))
    finish = detach()
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SyntaxError as error:
        if error.__traceback__.tb_next is None:
            finish("S0:")
        raise


main()
