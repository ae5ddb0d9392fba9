"""Runs inside the sandbox, after ``guard.py``: loads the solution and evaluates the tests' calls.

It knows no expected value. Its result is a row of items ``<tag><length>:<text>``: for every call
``V`` and the encoded value, or how it failed (``R`` exception, ``M`` memory, ``X`` exit); or one
item that says why there are none: these three, ``S`` syntax, ``E`` a missing name, ``T`` time,
``O`` too much output. A program that forges all this gains no more than by returning values: only
outside is it known what is right.
"""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with guard.py, no types, broad excepts because a hostile program raises what it likes.
# ruff: noqa: ANN001, ANN201, ANN202, BLE001, C901, F821, S102, S108, S110, S307, SLF001

# How a value goes over: as the known class whose ``__eq__`` its class has or inherits, by tag and
# text or parts, read through that class so that overrides do not count. Anything else is opaque.
# Source, not functions: the few that a grade needs are compiled then.
KINDS = {
    "builtins.int": "i hex(int.__pos__(x))",
    "builtins.float": "f float.hex(x)",
    "builtins.complex": "c [complex.real.__get__(x), complex.imag.__get__(x)]",
    "builtins.str": "s str.__str__(x)",
    "builtins.bytes": "b bytes.decode(x, 'latin-1')",
    "builtins.bytearray": "a bytearray.decode(x, 'latin-1')",
    "builtins.memoryview": "b x.tobytes().decode('latin-1')",
    "builtins.list": "l list.__iter__(x)",
    "builtins.tuple": "t tuple.__iter__(x)",
    "builtins.set": "S set.__iter__(x)",
    "builtins.frozenset": "Z frozenset.__iter__(x)",
    "builtins.dict": "d [part for pair in dict.items(x) for part in pair]",
    "builtins.mappingproxy": "d [part for pair in x.items() for part in pair]",
    "builtins.range": "r [x.start, x.stop, x.step]",
    "builtins.dict_keys": "k x",
    "builtins.dict_items": "I [part for pair in x for part in pair]",
    "collections.Counter": "C [part for pair in dict.items(x) for part in pair]",
    "collections.OrderedDict": "D [part for pair in x.items() for part in pair]",
    "collections.deque": "q x",
    "collections.UserList": "l x",
    "collections.UserString": "s str(x)",
    "collections.abc.Mapping": "d [part for pair in x.items() for part in pair]",
    "fractions.Fraction": "Q [x.numerator, x.denominator]",
    "decimal.Decimal": "m str(x)",
    "datetime.date": "y x.isoformat()",
    "datetime.datetime": "Y x.isoformat()",
    "datetime.time": "z x.isoformat()",
    "datetime.timedelta": "w [x.days, x.seconds, x.microseconds]",
}


def encoder(overflow):
    """A function that encodes a value as ``values.py`` reads it, iterators too if it shall walk."""
    lineage = type.__dict__["__mro__"].__get__
    attributes = type.__dict__["__dict__"].__get__
    known, walked = {}, set()
    size = 0

    def kind(cls):
        owner = next(base for base in lineage(cls) if "__eq__" in attributes(base))
        tag, _, body = KINDS.get(f"{owner.__module__}.{owner.__qualname__}", "").partition(" ")
        return tag, tag and eval("lambda x: " + body)

    def steps(x):
        parts = [True]  # there is more, or an error
        try:
            for part in x:
                if len(parts) > 10_000:
                    return parts
                parts.append(part)
        except Exception:
            return parts
        parts[0] = None
        return parts

    def item(tag, body):
        nonlocal size
        length = len(body)
        if type(body) is list:
            body = "".join(body)
        else:
            size += length
        size += 4
        if size > OUTPUT_BYTES:
            overflow()
        return f"{tag}{length}:{body}"

    def encode(x, walk, depth=0):
        if x is None or x is ... or x is True or x is False:
            return item("N" if x is None else "E" if x is ... else "T" if x else "F", "")
        cls = type(x)
        try:
            if cls not in known:
                known[cls] = kind(cls)
            tag, read = known[cls]
            if tag and depth < 200 and id(x) not in walked:
                body = read(x)
                if tag not in "ifsbamyYz":
                    walked.add(id(x))  # whatever holds itself is opaque there
                    body = [encode(part, walk, depth + 1) for part in body]
                    walked.discard(id(x))
                return item(tag, body)
        except Exception:
            pass
        try:
            tag = "o" if x else "O"
        except Exception:
            tag = "?"
        opaque = item(tag, str(cls.__qualname__)[:99])
        if walk and depth < 200 and hasattr(cls, "__iter__"):
            return item("g", [opaque] + [encode(part, walk, depth + 1) for part in steps(x)])
        return opaque

    return encode


def main():
    cpu, wall, memory, imports, solution, setup, names, modules, *calls = arguments()
    settrace, setprofile, recursion = sys.settrace, sys.setprofile, sys.setrecursionlimit
    limit(cpu, wall, memory, lambda: finish("T0:"))

    def item(tag, text):
        return f"{tag}{len(text)}:{text}"

    def failure(error):
        tag = "M" if isinstance(error, MemoryError) else "R"
        try:
            text = f"{type(error).__name__}: {error}"[:300]
        except BaseException:
            text = ""
        return item("X" if isinstance(error, SystemExit) else tag, text)

    module = type(sys)("solution")
    module.__builtins__ = builtins
    scope = module.__dict__
    sys.modules["solution"] = module  # dataclasses, pickle and typing look their module up
    try:
        exec(imports, scope)
    except BaseException as error:
        # Said where only what precedes the solution can speak.
        posix.write(2, f"tests: {type(error).__name__}: {error}".encode())
        posix._exit(1)
    try:
        posix.mkdir("/tmp/solution")
        posix.chdir("/tmp/solution")
    except OSError:
        pass  # an image without a writable /tmp
    finish = detach()
    encode = encoder(lambda: finish("O0:"))
    try:
        exec(solution, scope)  # compile() would build every AST type first
    except BaseException as error:
        started = error.__traceback__.tb_next
        finish(failure(error) if started else item("S", str(error)[:300]))
    try:
        exec(setup, scope)
        for name in names.split():
            if name not in scope:
                finish(item("E", "the solution does not define " + name))
        for name in modules.split():
            if name not in scope:
                scope[name] = __import__(name)
    except BaseException as error:
        finish(failure(error))
    items = []
    for call in calls:
        try:
            value = eval(call[1:], scope)
            settrace(None), setprofile(None), recursion(max(1000, sys.getrecursionlimit()))
            items.append(item("V", encode(value, call[0] == "j")))
        except BaseException as error:
            items.append(failure(error))
        value = None
    finish("".join(items))


main()
