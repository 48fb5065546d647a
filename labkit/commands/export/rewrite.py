"""Small changes to the source of a cell that make it part of a script. Pure."""

import ast
import builtins


def one_line(text: str) -> str:
    """Text of a notebook as it can stand in a comment: on one line, and with no sign that is not seen.

    >>> one_line("Sum\\rimport os")
    'Sum import os'
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in " ".join(text.split()))


def in_docstring(text: str) -> str:
    """The same within three quotes: a backslash, as of LaTeX, begins nothing there, and no quote ends it."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def shown(source: str) -> str:
    """The source with its last expression handed to `sys.displayhook`, which prints what is not None.

    As in a notebook, a semicolon at the end silences it. What prints already is left alone.

    >>> shown("x = 1\\nx, 2")
    'x = 1\\nsys.displayhook((x, 2))'
    """
    statements = ast.parse(source).body
    last = statements[-1] if statements else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        return source
    if isinstance(last.value, ast.Call) and ast.unparse(last.value.func) == "print":
        return source
    before, after = ("((", "))") if isinstance(last.value, ast.Tuple) else ("(", ")")
    lines = [line.encode() for line in source.split("\n")]  # ast counts columns in bytes
    end, begin = last.end_lineno - 1, last.lineno - 1
    lines[end] = lines[end][: last.end_col_offset] + after.encode() + lines[end][last.end_col_offset :]
    opened = f"sys.displayhook{before}".encode()
    lines[begin] = lines[begin][: last.col_offset] + opened + lines[begin][last.col_offset :]
    return b"\n".join(lines).decode()


def indented(source: str) -> str:
    """Four spaces before each line, except where a string goes on."""
    strings = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant | ast.JoinedStr))
    inside = {line for n in strings for line in range(n.lineno + 1, n.end_lineno + 1)}
    lines = enumerate(source.split("\n"), start=1)
    return "\n".join(line if n in inside or not line else f"    {line}" for n, line in lines)


def undefined(source: str) -> list[str]:
    """Names that the source uses and binds nowhere, in no scope.

    >>> undefined("import os\\nprint(os.sep, lab)")
    ['lab']
    """
    bound, used = {*dir(builtins), "__file__", "__name__"}, set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.alias(name=module, asname=name):
                bound.add(name or module.split(".")[0])
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                bound.add(name)
    return sorted(used - bound)
