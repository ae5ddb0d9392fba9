"""Honest programs that an anxious grader fails."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

from .programs import CLOSE, EVEN, SETS, SQUARES, Row

HONEST = (
    # What programs do beside returning.
    Row(
        "uses threads",
        "from concurrent.futures import ThreadPoolExecutor\ndef add(a, b):\n"
        "    with ThreadPoolExecutor(4) as pool: return sum(pool.map(int, [a, b]))\n",
    ),
    Row(
        "uses processes",
        "import multiprocessing\ndef twice(x): return 2 * x\ndef f(xs):\n"
        "    with multiprocessing.Pool(2) as pool: return pool.map(twice, xs)\n",
        ("assert f([1, 2]) == [2, 4]",),
    ),
    Row(
        "forks and waits",
        "import os\ndef add(a, b):\n    pid = os.fork()\n    if pid == 0: os._exit(a + b & 127)\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n",
        ("assert add(1, 2) == 3",),
    ),
    Row(
        "leaves a daemon thread behind",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "def add(a, b): return a + b\n",
    ),
    Row(
        "limits itself by an alarm",
        "import signal\ndef stop(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, stop)\n"
        "def add(a, b):\n    signal.alarm(2)\n    try: return a + b\n    finally: signal.alarm(0)\n",
    ),
    Row(
        "prints to both streams",
        "import sys\nprint('x' * 20_000_000)\nprint('y' * 20_000_000, file=sys.stderr)\n"
        "def add(a, b):\n    print(a, b)\n    return a + b\n",
    ),
    Row(
        "replaces its streams",
        "import io, sys\nsys.stdout = sys.stderr = io.StringIO()\ndef add(a, b):\n"
        "    print(a + b)\n    return int(sys.stdout.getvalue().split()[-1])\n",
    ),
    Row(
        "closes its descriptors", "import os\nos.closerange(0, 256)\ndef add(a, b): return a + b\n"
    ),
    Row(
        "writes files where it stands",
        "def add(a, b):\n    with open('sum.txt', 'w') as file: file.write(str(a + b))\n"
        "    return int(open('sum.txt').read())\n",
    ),
    Row(
        "asks for input that is not there",
        "def add(a, b):\n    try: input()\n    except EOFError: return a + b\n",
    ),
    Row(
        "patches a builtin",
        "import builtins\nbuiltins.total = lambda *a: sum(a)\ndef add(a, b): return total(a, b)\n",
    ),
    Row("forgets its modules", "import sys\nsys.modules.clear()\ndef add(a, b): return a + b\n"),
    Row(
        "keeps a small stack",
        "import sys\nsys.setrecursionlimit(150)\ndef add(a, b): return a + b\n",
    ),
    Row(
        "traces itself",
        "import sys\nsys.settrace(lambda *a: None)\ndef add(a, b): return a + b\n",
    ),
    Row(
        "turns warnings into errors",
        "import warnings\nwarnings.simplefilter('error')\ndef add(a, b): return a + b\n",
    ),
    Row(
        "runs its own tests under main",
        "import unittest\ndef add(a, b): return a + b\nclass T(unittest.TestCase):\n"
        "    def test(self): self.assertEqual(add(1, 2), 3)\nif __name__ == '__main__': unittest.main()\n",
    ),
    Row("uses 300 MB", "def add(a, b):\n    x = bytearray(300 << 20)\n    return a + b + x[-1]\n"),
    Row("sleeps", "import time\ndef add(a, b):\n    time.sleep(0.5)\n    return a + b\n"),
    Row(
        "asks for its own text",
        "import __main__, sys\ndef add(a, b): return a + b\nassert sys.argv == ['-c']\n",
    ),
    Row(
        "writes in another script",
        "def add(a, b):\n    'сумма → 合計'\n    größe = a + b\n    return größe\n",
    ),
    Row(
        "runs a coroutine",
        "import asyncio\nasync def plus(a, b): return a + b\ndef add(a, b): return asyncio.run(plus(a, b))\n",
    ),
    Row(
        "is a coroutine",
        "async def f(x): return x + 1\n",
        ("assert asyncio.run(f(1)) == 2",),
        ("import asyncio",),
    ),
    Row(
        "annotates dataclasses as text",
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\n@dataclass\n"
        "class P:\n    x: int\n    tags: list[str] = field(default_factory=list)\n"
        "def f(x): return P(x)\n",
        ("assert f(3).x == 3", "assert f(3) .tags == []"),
    ),
    Row(
        "pickles its own class",
        "import pickle\nclass P:\n    x = 1\ndef f(y): return pickle.loads(pickle.dumps(P())).x + y\n",
        ("assert f(1) == 2",),
    ),
    Row(
        "remembers from call to call",
        "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n",
        ("assert f(1) == 1", "assert f(1) == 2"),
    ),
    # Values that compare as Python says.
    Row(
        "returns a named tuple",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)\n",
        ("assert f() == (1, 2)", "assert f().y == 2"),
    ),
    Row(
        "returns an IntEnum",
        "from enum import IntEnum\nclass E(IntEnum): A = 3\ndef f(): return [E.A]\n",
        ("assert f() == [3]",),
    ),
    Row(
        "returns a str subclass as key",
        "class S(str): pass\ndef f(): return {S('a'): S('b')}\n",
        ("assert f() == {'a': 'b'}",),
    ),
    Row("returns minus zero", "def f(): return (-0.0, True, 1.0)\n", ("assert f() == (0, 1, 1)",)),
    Row(
        "returns bytes",
        "def f(): return [bytearray(b'a\\xff'), memoryview(b'b')]\n",
        ("assert f() == [b'a\\xff', b'b']",),
    ),
    Row("returns a complex", "def f(): return 1 + 2j\n", ("assert f() == (1 + 2j)",)),
    Row("returns the ellipsis", "def f(): return {None: ...}\n", ("assert f() == {None: ...}",)),
    Row(
        "returns half of a pair",
        "def f(): return '\\ud800\\0\\r\\n'\n",
        (
            "assert f() == '\\ud800\\0\\r\\n'",
            "assert f()[0] + f()[1:] == '\\ud800\\x00' + '\\r\\n'",
        ),
    ),
    Row(
        "returns sets of mixed types",
        "def f(): return {1, 'a', None, (2, 3), frozenset({4})}\n",
        ("assert f() == {None, 'a', (2, 3), 1, frozenset([4])}",),
    ),
    Row(
        "returns dict views",
        "def f(): return {1: 2}.keys()\ndef g(): return {1: 2}.items()\n",
        ("assert f() == {1}", "assert g() == {(1, 2)}"),
    ),
    Row(
        "returns dict values",
        "def f(): return {1: 2, 3: 4}.values()\n",
        ("assert list(f()) == [2, 4]", "assert sum(f()) == 6"),
    ),
    Row(
        "returns a Counter",
        "from collections import Counter\ndef f(s): return Counter(s)\n",
        (
            "assert f('aab') == {'a': 2, 'b': 1}",
            "assert f('aab') == Counter('baa')",
            "assert f('aab')['z'] == 0",
        ),
        ("from collections import Counter",),
    ),
    Row(
        "returns a deque",
        "from collections import deque\ndef f(): return deque([1, 2])\n",
        ("assert f() == deque([1, 2])", "assert not f() == [1, 2]"),
        ("from collections import deque",),
    ),
    Row(
        "returns an OrderedDict",
        "from collections import OrderedDict\ndef f(): return OrderedDict([(2, 1), (1, 2)])\n",
        ("assert f() == {1: 2, 2: 1}", "assert f() != OrderedDict([(1, 2), (2, 1)])"),
        ("from collections import OrderedDict",),
    ),
    Row(
        "returns decimals and fractions",
        "from decimal import Decimal\nfrom fractions import Fraction\ndef f(): return [Decimal('0.1'), Fraction(1, 3)]\n",
        ("assert f() == [Decimal('0.10'), Fraction(2, 6)]",),
        ("from decimal import Decimal", "from fractions import Fraction"),
    ),
    Row(
        "returns dates",
        "import datetime\ndef f(): return datetime.date(2024, 2, 29), datetime.timedelta(hours=1)\n",
        ("assert f() == (datetime.date(2024, 2, 29), datetime.timedelta(seconds=3600))",),
        ("import datetime",),
    ),
    Row(
        "returns a large integer",
        "def f(): return 3 ** 20000\n",
        ("assert f() == 3 ** 20000", "assert f() != 1"),
    ),
    Row(
        "returns a range",
        "def f(n): return range(n)\n",
        ("assert list(f(3)) == [0, 1, 2]", "assert f(3) == range(3)", "assert 2 in f(3)"),
    ),
    Row(
        "returns a generator",
        "def f(n):\n    yield from range(n)\n",
        ("assert list(f(3)) == [0, 1, 2]", "assert sum(f(4)) == 6"),
    ),
    Row(
        "returns an endless generator",
        "import itertools\ndef f(n): return itertools.count(n)\n",
        ("assert next(f(3)) == 3", "assert list(itertools.islice(f(1), 2)) == [1, 2]"),
        ("import itertools",),
    ),
    Row(
        "returns map and zip",
        "def f(n): return map(str, range(n))\ndef g(): return zip('ab', (1, 2))\n",
        ("assert list(f(2)) == ['0', '1']", "assert dict(g()) == {'a': 1, 'b': 2}"),
    ),
    Row(
        "returns what can be walked",
        "class L:\n    def __iter__(self): return iter([1, 2])\ndef f(): return L()\n",
        ("assert list(f()) == [1, 2]",),
    ),
    Row(
        "returns a function",
        "def f(n): return lambda x: x + n\n",
        ("assert f(1)(2) == 3", "assert callable(f(1))", "assert f(0).__name__ == '<lambda>'"),
    ),
    Row(
        "returns None",
        "def f(x): pass\n",
        ("assert f(1) is None", "assert f(1) == None", "assert not f(1)"),
    ),
    Row(
        "returns large equal lists",
        "def f(): return list(range(2000)) + [[i] for i in range(2000)]\n",
        ("assert f() == list(range(2000)) + [[i] for i in range(2000)]",),
    ),
    Row(
        "returns a text of a megabyte",
        "def f(): return 'ab' * 500_000\n",
        ("assert len(f()) == 1_000_000", "assert f()"),
    ),
    # Asserts that are not call == literal.
    Row(
        "is called as a method",
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x):\n        self.items.append(x)\n        return self\n",
        ("assert Stack().push(1).items == [1]", "assert Stack().push(1).push(2).items[-1] == 2"),
    ),
    Row(
        "is compared in a comprehension",
        "def f(x): return x * x\n",
        (
            *SQUARES,
            "assert [f(x) for x in (1, 2)] == [1, 4]",
            "assert all(f(a) == b for a, b in [(1, 1), (2, 4)])",
            "assert all([f(a) == b for a, b in zip([1, 2], [1, 4])])",
        ),
    ),
    Row(
        "is handed to a builtin",
        "def f(x): return x * x\n",
        (
            "assert list(map(f, [1, 2])) == [1, 4]",
            "assert sorted([2, -3], key=f) == [2, -3]",
            "assert max([1, -3], key=lambda x: f(x)) == -3",
        ),
    ),
    Row(
        "is close",
        "def f(x): return x ** 2 + 1e-12\n",
        (*CLOSE, "assert abs(f(2) - 4) < 1e-6", "assert round(f(2), 2) == 4"),
        ("import math",),
    ),
    Row(
        "is a set",
        "def f(a, b): return [x for x in a if x in b]\n",
        (
            *SETS,
            "assert len(f((1,), (1,))) == 1",
            "assert 3 in f((3,), (3,)) and 4 not in f((3,), (3,))",
        ),
    ),
    Row(
        "is true",
        "import re\ndef f(x): return re.match('[0-9]*[02468]$', str(x))\n",
        (*EVEN, "assert not f(3)", "assert f(2) is not None", "assert bool(f(2)) is True"),
    ),
    Row(
        "fails only where it is not asked",
        "def f(x): return 1 / x\n",
        ("assert f(1) == 1 or f(0) == 1",),
    ),
    Row("is named like a builtin", "def sum(a, b): return a + b\n", ("assert sum(1, 2) == 3",)),
    Row(
        "is named like a module",
        "def copy(x): return list(x)\n",
        ("assert copy((1, 2)) == [1, 2]",),
    ),
    Row("is a lambda", "add = lambda a, b: a + b\n"),
    Row("is a partial", "import operator, functools\nadd = functools.partial(operator.add)\n"),
    Row(
        "is compared with itself",
        "def add(a, b): return [a + b]\n",
        ("assert add(1, 2) == add(2, 1)", "assert add(1, 2) is not add(1, 2)"),
    ),
    Row(
        "is tested by the setup's comparison",
        "def f(x): return x / 3\n",
        ("assert close(f(1), expected)",),
        setup="import math\nexpected = 0.3333333\ndef close(a, b):\n    return math.isclose(a, b, rel_tol=1e-6)\n",
    ),
    Row(
        "is tested with the setup's data",
        "def f(xs): return sorted(xs)\n",
        (
            "assert f(data) == [1, 2]",
            "assert data == [2, 1]",
            "assert f(data)[0] == 1",
            "assert f([n]) == [n]",
        ),
        setup="data = [2, 1]\nn = 3\n",
    ),
    Row(
        "changes the setup's data in place",
        "def f(xs): xs.sort()\n",
        ("assert f(data) is None", "assert data == [1, 2]", "assert sum(data) == 3"),
        setup="data = [2, 1]\n",
    ),
    Row(
        "is tested with its own nodes",
        "class Node:\n    def __init__(self, x): self.x, self.next = x, None\ndef f(n):\n    return 0 if n is None else n.x + f(n.next)\n",
        ("assert f(head) == 3",),
        setup="head = Node(1)\nhead.next = Node(2)\n",
    ),
    Row(
        "is shown as text",
        "class P:\n    def __repr__(self): return 'P!'\ndef f(): return P()\n",
        (
            "assert str(f()) == 'P!'",
            "assert repr([f()]) == '[P!]'",
            "assert isinstance(f(), P)",
            "assert hasattr(f(), '__repr__')",
        ),
    ),
    Row("is tested by text", "def f(s): return s + ' * 2'\n", ("assert eval(f('21')) == 42",)),
    Row(
        "takes sets and floats",
        "def f(s, x): return x if 1 in s else -x\n",
        ("assert f(set([1]), float('inf')) == float('inf')", "assert f(frozenset(), 2) == -2"),
    ),
    Row("has CRLF and a mark", "\ufeffdef add(a, b):\r\n    return (a\r    + b)\r\n"),
)
