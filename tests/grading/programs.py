"""Attacks on the grader and honest programs that could be taken for one.

Each row: name, solution, asserts, and what else its problem has (imports, setup).
"""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

from dataclasses import dataclass

ADD = ("assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add(10, 5) == 15")
EVEN = ("assert f(4)", "assert f(10)")
SQUARES = ("assert all(f(i) == i * i for i in range(5))",)
CLOSE = ("assert math.isclose(f(2), 4.0, rel_tol=1e-9)",)
SETS = ("assert set(f((3, 4), (4, 5))) == set((4,))",)

ALWAYS = """\
class Always:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __hash__(self): return hash(4)
    def __bool__(self): return True
    def __len__(self): return 1
    def __iter__(self): return iter([self])
    def __float__(self): return 4.0
    def __index__(self): return 4
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __abs__(self): return 0
    def __add__(self, other): return self
    __radd__ = __sub__ = __rsub__ = __mul__ = __getitem__ = __add__
    def __contains__(self, other): return True
def add(*a): return Always()
f = add
"""


@dataclass(frozen=True)
class Row:
    name: str
    solution: str
    asserts: tuple[str, ...] = ADD
    imports: tuple[str, ...] = ()
    setup: str = ""
    reference: str = ""


def frame(data: str) -> str:
    """A program that sends its own result and leaves."""
    return f"import os\nos.write(1000, {data})\nos._exit(0)\n"


ATTACKS = (
    # Forging the result: it holds values only, so that nothing is won.
    Row("sends the judge's passes", frame("b'P0:' * 3")),
    Row("sends truths for values", frame("b'V3:T0:' * 3")),
    Row("sends opaque values", frame("b'V4:o1:x' * 3")),
    Row("sends too many values", frame("b'V6:i3:0x3V6:i3:0x0V6:i3:0xf' * 2")),
    Row("sends a value that is cut", frame("b'V6:i3:0x3V6:i3:0x0V6:i3:0x'")),
    Row("sends a length of a billion", frame("b'V20:l999999999:N0:N0:N0:' * 3")),
    Row("sends lists nested a million deep", frame("b'V3000000:' + b'l1:' * 1000000")),
    Row("sends bytes that are no text", frame(r"b'\xff\xfe' * 100")),
    Row("sends nothing", frame("b''")),
    Row("sends a configuration error", frame("b'C9:no python'")),
    Row(
        "sends a result and lets the worker send another",
        "import os\nos.write(1000, b'V6:i3:0x3V6:i3:0x0V6:i3:0xf')\ndef add(a, b): return 0\n",
    ),
    Row(
        "answers from a forked copy, too",
        "import os\npid = os.fork()\ndef add(a, b):\n"
        "    if not pid: os.write(1000, b'V6:i3:0x3V6:i3:0x0V6:i3:0xf')\n    return 1\n",
    ),
    Row(
        "floods the result",
        "import os\ndef add(a, b):\n    while True: os.write(1000, b'x' * 65536)\n",
    ),
    Row(
        "writes to the result from a thread",
        "import os, threading, time\ndef noise():\n    while True: os.write(1000, b'V3:T0:')\n"
        "threading.Thread(target=noise, daemon=True).start()\n"
        "def add(a, b):\n    time.sleep(0.1)\n    return a + b\n",
    ),
    Row("closes the result", "import os\nos.close(1000)\ndef add(a, b): return a + b\n"),
    # Reaching into the worker: it knows nothing and decides nothing.
    Row(
        "replaces the worker's functions",
        "import __main__\n__main__.encoder = __main__.KINDS = None\n"
        "__main__.finish = __main__.item = lambda *a: 'V6:i3:0x3'\ndef add(a, b): return None\n",
    ),
    Row(
        "fills the worker's list of results",
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in list(frame.f_locals.values()):\n"
        "            if type(value) is list: value.append('V6:i3:0x3')\n"
        "        frame = frame.f_back\n    return 7\n",
    ),
    Row(
        "reads expected values from its own command line and frames",
        "import re, sys\ndef add(a, b):\n    text = open('/proc/self/cmdline').read()\n"
        "    frame = sys._getframe()\n    while frame:\n"
        "        text += repr(frame.f_locals) + repr(frame.f_globals)\n        frame = frame.f_back\n"
        "    found = re.search(r'add\\(%d, %d\\) == (-?\\d+)' % (a, b), text)\n"
        "    return int(found.group(1)) if found else None\n",
    ),
    Row(
        "searches all objects for the tests",
        "import gc, re\ndef add(a, b):\n    for o in gc.get_objects():\n"
        "        found = re.search(r'add\\(%d, %d\\) == (-?\\d+)' % (a, b), repr(o))\n"
        "        if found: return int(found.group(1))\n",
    ),
    Row(
        "patches the builtins that encode",
        "import builtins\nbuiltins.hex = lambda x: '0x3'\nbuiltins.type = lambda x: int\n"
        "builtins.len = lambda x: 3\nbuiltins.eval = lambda *a: 3\ndef add(a, b): return 7\n",
        ("assert add(1, 2) == 3",),
    ),
    Row(
        "patches the builtins through the worker's own copy",
        "import sys\nframe = sys._getframe(1)\nframe.f_builtins['hex'] = lambda x: '0x3'\n"
        "def add(a, b): return 7\n",
        ("assert add(1, 2) == 7.5",),
    ),
    Row(
        "changes results by a trace function",
        "import sys\ndef trace(frame, event, value):\n"
        "    if 'value' in frame.f_locals: frame.f_locals['value'] = 3\n    return trace\n"
        "sys.settrace(trace)\nsys.setprofile(trace)\ndef add(a, b): return 7\n",
    ),
    Row(
        "makes every class opaque to reading",
        "import builtins\nreal = builtins.__build_class__\n"
        "builtins.__build_class__ = lambda f, n, *b, **k: real(f, n, int)\n"
        "class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E(7)\n",
    ),
    Row("leaves on exit handlers", "import atexit\natexit.register(print, 'ok')\nexit(0)\n"),
    Row(
        "speaks through an error's text",
        "class E(Exception):\n    def __str__(self):\n        import os\n        os._exit(0)\n"
        "def add(a, b): raise E\n",
    ),
    # Values that lie.
    *(
        Row(
            f"returns a {base} that equals everything",
            f"class E({base}):\n    def __eq__(self, other): return True\n"
            f"    def __ne__(self, other): return False\n    __hash__ = {base}.__hash__\n"
            f"def f(x): return E()\n",
            (f"assert f(1) == {wanted}",),
        )
        for base, wanted in (
            ("float", "2.5"),
            ("str", "'a'"),
            ("list", "[1]"),
            ("tuple", "(1,)"),
            ("dict", "{1: 2}"),
            ("set", "{1}"),
            ("bytes", "b'a'"),
        )
    ),
    Row("returns one that equals everything, in a list", ALWAYS, ("assert [add(1)] == [3]",)),
    Row(
        "calls its class builtins.int",
        "class int:\n    def __eq__(self, other): return True\n"
        "int.__module__, int.__qualname__ = 'builtins', 'int'\ndef add(a, b): return int()\n",
    ),
    Row(
        "puts its own Fraction in place",
        "import fractions\nclass Fraction:\n    def __eq__(self, other): return True\n"
        "    numerator = denominator = property(lambda self: self)\n"
        "Fraction.__module__ = 'fractions'\nfractions.Fraction = Fraction\n"
        "def add(a, b): return Fraction()\n",
    ),
    Row(
        "lies about its bases in a metaclass",
        "class M(type):\n    __mro__ = property(lambda c: (int, object))\n"
        "    def __eq__(c, other): return True\n    def __hash__(c): return hash(int)\n"
        "    def __instancecheck__(c, o): return True\n"
        "class E(metaclass=M):\n    def __eq__(self, other): return True\ndef add(a, b): return E()\n",
    ),
    Row(
        "returns what a pickle would run",
        "import os\nclass E:\n    def __reduce__(self): return os._exit, (0,)\ndef add(a, b): return E()\n",
    ),
    # Values that cost.
    Row(
        "returns a list of itself twice",
        "def add(a, b):\n    l = []\n    l += [l, l]\n    return l\n",
    ),
    Row("returns a list of itself", "def add(a, b):\n    l = []\n    l.append(l)\n    return l\n"),
    Row("returns an integer of 30 MB", "def add(a, b): return 1 << 250_000_000\n"),
    Row("returns two million values", "def add(a, b): return list(range(2_000_000))\n"),
    Row(
        "returns integers of one hash",
        "def add(a, b): return {i * ((1 << 61) - 1) for i in range(1, 3000)}\n",
        ("assert add(1, 2) == {1, 2, 3}",),
    ),
    Row("sends a fraction of long terms", frame("b'V4000040:Q2:i2000002:0x' + b'7' * 2000000")),
    Row("allocates a terabyte", "def add(a, b): return bytearray(1 << 40)\n"),
    # Poison for the judge.
    Row("returns a range of a trillion", "def f(*x): return range(10**12)\n", SETS),
    Row("equals everything where sets are compared", ALWAYS, SETS),
    Row("equals everything where floats are compared", ALWAYS, CLOSE, ("import math",)),
    Row("equals everything in a comprehension", ALWAYS, SQUARES),
    Row("equals everything in a chain", ALWAYS, ("assert add(1, 2) == 3 == add(2, 1)",)),
    Row("is everywhere a member", ALWAYS, ("assert f(1) in (1, 2)",)),
    Row("contains everything", ALWAYS, ("assert 5 in f(1)",)),
    Row("is greater than everything", ALWAYS, ("assert f(1) > 3",)),
    Row("has the right length", ALWAYS, ("assert len(f(1)) == 1",)),
    Row("is near everything", ALWAYS, ("assert abs(f(2) - 4) < 1e-6",)),
    Row("sums to everything", ALWAYS, ("assert sum(map(f, [1, 2])) == 3",)),
    Row("sorts to everything", ALWAYS, ("assert sorted(f(1)) == [3]",)),
    Row("is an integer by its own word", ALWAYS, ("assert isinstance(f(1), int) and f(1) == 4",)),
    Row("returns NaN", "def f(x): return float('nan')\n", ("assert abs(f(2) - 4) < 1e-6",)),
    Row(
        "brings its own math",
        "class math:\n    isclose = staticmethod(lambda *a, **k: True)\ndef f(x): return 5\n",
        CLOSE,
        ("import math",),
    ),
    Row(
        "patches the real math",
        "import math\nmath.isclose = lambda *a, **k: True\ndef f(x): return 5\n",
        CLOSE,
        ("import math",),
    ),
    Row(
        "patches the module that the tests ask, and that the reference imports",
        "import sys\nsys.getsizeof = lambda x: 7\ndef f(x): return 7\n",
        ("assert f((1, 2)) == sys.getsizeof((1, 2))",),
        reference="import sys\ndef f(x): return sys.getsizeof(x)\n",
    ),
    Row("brings its own set", "def f(*x): return [9]\ndef set(x): return 1\n", SETS),
    Row(
        "has the judge evaluate a text",
        'def f(x): return \'__import__("os").write(1000, b"P0:") and __import__("os")._exit(0)\'\n',
        ("assert eval(f('1 + 2')) == 3",),
    ),
    Row(
        "has the judge evaluate a part of a text",
        "def f(x): return '__import__(\"os\")._exit(0)'\n",
        ("assert eval('1 + ' + f('2')) == 3",),
    ),
    Row(
        "names its value like the judge's helper",
        "class V:\n    def __call__(self, i): return 3\n__value__ = V()\ndef f(x): return __value__\n",
        ("assert f(1) == 2 + 1",),
    ),
    Row(
        "goes on without end in the judge",
        "import itertools\ndef f(*x): return itertools.count()\n",
        ("assert sorted(f(1)) == [1]",),
    ),
    Row(
        "ends the judge by recursion",
        "def f(x):\n    l = []\n    for _ in range(190): l = [l]\n    return l\n",
        ("assert sorted(f(1)) == [[1]]",),
    ),
    Row("is a subset of everything", ALWAYS, ("assert f(3).issubset({1, 2, 3})",)),
    Row("starts with everything", ALWAYS, ("assert f(3).startswith('abc')",)),
    Row("equals by its own method", ALWAYS, ("assert f(3).__eq__(4)",)),
    Row(
        "starts with everything, out of the setup",
        ALWAYS,
        ("assert result.startswith('abc')",),
        setup="result = f(3)",
    ),
    Row(
        "makes the judge name a number too long to show",
        "def add(a, b): return 10**5000\n",
        ("assert {3: 1}[add(1, 2)] == 1",),
    ),
    Row("sends five million values", frame("b'V0:' * 5_500_000")),
    # The tests' setup.
    Row(
        "looks for the expected value in the setup",
        "def f(x): return globals().get('expected')\n",
        ("assert f(1) == expected",),
        setup="expected = [5, 6]",
    ),
    Row(
        "cheats the setup's own comparison",
        "import builtins\nbuiltins.abs = lambda x: 0\nclass E:\n    def __sub__(self, o): return 0\n"
        "    __rsub__ = __sub__\ndef f(x): return E()\n",
        ("assert close(f(1), 0.5)",),
        setup="def close(a, b):\n    return abs(a - b) < 1e-6\n",
    ),
    Row(
        "replaces the setup's comparison",
        "import sys, threading, time\ndef patch():\n    while True:\n"
        "        globals()['close'] = lambda *a: True\n        time.sleep(0)\n"
        "threading.Thread(target=patch, daemon=True).start()\ndef f(x): return 7\n",
        ("assert close(f(1), 0.5)",),
        setup="def close(a, b):\n    return abs(a - b) < 1e-6\n",
    ),
    # Syntax that would swallow what follows it.
    Row("ends in a decorator", "def add(a, b): return a + b\n@print"),
    Row("ends in a backslash", "def add(a, b): return a + b\nx = 1 + \\"),
    Row("ends in an open string", 'def add(a, b): return a + b\nx = """'),
    Row("ends in an open block", "def add(a, b): return a + b\nif False:"),
    Row("holds a null byte", "def add(a, b): return a + b\n\0"),
    Row("holds half a surrogate pair", "def add(a, b): return a + b\nx = '\ud800'\n"),
    Row("nests too deep for the compiler", "def add(a, b): return a + b\nx = " + "(" * 50000),
    # Leaving.
    Row("raises KeyboardInterrupt", "def add(a, b): raise KeyboardInterrupt\n"),
    Row("raises GeneratorExit", "def add(a, b): raise GeneratorExit\n"),
    Row("aborts", "import os\ndef add(a, b): os.abort()\n"),
    Row("crashes the interpreter", "import ctypes\ndef add(a, b): ctypes.string_at(0)\n"),
    Row("kills itself", "import os\ndef add(a, b): os.kill(os.getpid(), 9)\n"),
    Row("kills its whole sandbox", "import os\ndef add(a, b): os.kill(-1, 9)\n"),
    Row(
        "becomes another program",
        "import os\ndef add(a, b): os.execv('/bin/sh', ['sh', '-c', ':'])\n",
    ),
    Row(
        "recurses in C",
        "def add(a, b):\n    x = []\n    for _ in range(10**6): x = [x]\n    return repr(x)\n",
    ),
    # Truth.
    Row(
        "is false by its length",
        "class E:\n    def __len__(self): return 0\ndef f(x): return E()\n",
        EVEN,
    ),
    Row(
        "has no truth",
        "class E:\n    def __bool__(self): raise TypeError\ndef f(x): return E()\n",
        EVEN,
    ),
    Row("returns another singleton", "def f(x): return 1\n", ("assert f(1) is True",)),
)
