"""The template engine beside jinja2: the same text, or both refuse.  Small
cases, conversations through templates in the style of each model family,
and random expressions.  Prints TAP.

    RANDOM_SEED=N    another seed than the usual one; "new" draws one"""

import copy
import json
import os
import random
import subprocess
import sys
import warnings

sys.dont_write_bytecode = True

from harness import done, ok, seed

import jinja_cases
import jinja_chats
import jinja_env

BUILD = os.environ.get("BUILD", "build")
SEED = seed()
RANDOM = 3000

# Python warns of templates that call what cannot be called
warnings.simplefilter("ignore")

ENV = jinja_env.environment()


class Engine:
    def __init__(self):
        self.pipe = subprocess.Popen([f"{BUILD}/t/jinja_render"],
                                     stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)

    def render(self, template, variables):
        line = json.dumps({"template": template, "variables": variables,
                           "now": jinja_env.NOW})
        self.pipe.stdin.write(line.encode() + b"\n")
        self.pipe.stdin.flush()
        answer = self.pipe.stdout.readline()
        if not answer:
            raise SystemExit(f"# the engine died of {line[:2000]}")
        return json.loads(answer)

    def close(self):
        self.pipe.stdin.close()
        return self.pipe.wait()


def reference(template, variables):
    """some of jinja2's filters change lists that are no strings"""
    variables = copy.deepcopy(variables)
    try:
        return ENV.from_string(template).render(**variables), None
    except Exception as e:      # whatever Python raises, it is a refusal
        return None, f"{type(e).__name__}: {e}"


def compare(engine, template, variables):
    """None: the same"""
    text, error = reference(template, variables)
    answer = engine.render(template, variables)
    if text is None and "error" in answer:
        return None
    if answer.get("text") == text:
        return None
    return dict(template=template, variables=variables, jinja2=text or error,
                engine=answer.get("text", answer.get("error")))


def group(engine, what, cases):
    wrong = []
    for case in cases:
        template, variables = case if isinstance(case, tuple) else (case, {})
        bad = compare(engine, template, variables)
        if bad:
            wrong.append(bad)
    ok(not wrong, f"{what}: {len(cases)} the same as jinja2", wrong[:5])


# random expressions: all that the grammar allows, sense or not

ATOMS = ["1", "0", "-3", "2.5", "'ab'", "'a b,c'", "''", "none", "true",
         "false", "[1, 2, 3]", "['b', 'a']", "{'k': 'v', 'n': 1}", "(1, 'x')",
         "u", "s", "n", "l", "d", "m[0].role", "m", "l[0]", "d.k", "d['n']"]
BINARY = ["+", "-", "*", "~", "==", "!=", "<", ">=", "and", "or", "in",
          "not in", "//", "%"]
FILTERS = ["upper", "lower", "trim", "length", "first", "last", "list", "join",
           "join('-')", "default('d')", "string", "int", "float", "sort",
           "reverse|list", "unique|list", "tojson", "title", "capitalize",
           "abs", "sum", "max", "min", "select|list", "map('string')|list",
           "dictsort", "items|list", "replace('a', 'bb')", "indent(2)",
           "batch(2)|list", "round", "map(attribute='role')|list",
           "selectattr('role', 'eq', 'user')|list", "rejectattr('role')|list",
           "reject('none')|list", "safe", "escape", "forceescape"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "number", "odd",
         "true", "sequence", "boolean", "eq(1)", "in([1, 'ab'])", "upper",
         "escaped"]
METHODS = ["strip()", "split()", "split(',')", "startswith('a')", "upper()",
           "items()", "get('k')", "keys()", "count('a')", "title()",
           "replace('b', 'c')", "endswith('b')", "lstrip('a')", "copy()",
           "format(1, 'x')", "append(1)", "update({})", "join(l)"]
VARIABLES = dict(s="Hello <|x|> é", n=7, l=[3, 1, 2], d={"k": "v", "n": 2},
                 m=[{"role": "user", "content": "hi"},
                    {"role": "assistant", "content": None}])


def expression(r, depth=0):
    kind = r.randrange(10) if depth < 4 else 0
    if kind < 3:
        return r.choice(ATOMS)
    inner = expression(r, depth + 1)
    if kind == 3:
        return f"({inner} {r.choice(BINARY)} {expression(r, depth + 1)})"
    if kind == 4:
        return f"{inner} {r.choice(BINARY)} {expression(r, depth + 1)}"
    if kind == 5:
        return f"({inner})|{r.choice(FILTERS)}"
    if kind == 6:
        no = r.choice(["", "not "])
        return f"(({inner}) is {no}{r.choice(TESTS)})"
    if kind == 7:
        return f"({inner}).{r.choice(METHODS)}"
    if kind == 8:
        bounds = r.choice(["0", "-1", "1:", ":2", "::-1", "'k'", "1:3:2"])
        return f"({inner})[{bounds}]"
    return f"({inner} if {expression(r, depth + 1)} else " \
           f"{expression(r, depth + 1)})"


def unprintable(text):
    """what has no spelling of its own: objects of Python's"""
    return text is not None and (" object" in text or "<built-in" in text
                                 or "<bound" in text or "<class" in text
                                 or "<generator" in text or "_reverse" in text
                                 or "dict_" in text)


def folded(template):
    """jinja2 slices what cannot be sliced to nothing at all where all is
    constant, and refuses it else"""
    return any(s in template for s in ("[1:]", "[:2]", "[::-1]", "[1:3:2]"))


def at_random(engine):
    r = random.Random(SEED)
    wrong, refused = [], 0
    for _ in range(RANDOM):
        template = "{{ " + expression(r) + " }}"
        text, _ = reference(template, VARIABLES)
        if unprintable(text):
            continue
        refused += text is None
        if text is not None and folded(template):
            continue
        bad = compare(engine, template, VARIABLES)
        if bad:
            wrong.append(bad)
    ok(not wrong, f"random expressions, RANDOM_SEED={SEED}, {refused} refused",
       wrong[:5])
    ok(refused < RANDOM * 2 // 3, "most of them have a value", refused)


def own(engine):
    """what a value says is never the template's own text"""
    wrong = []
    for name, template in jinja_chats.TEMPLATES.items():
        for chat in jinja_chats.CHATS:
            variables = jinja_chats.variables(chat)
            answer = engine.render(template, variables)
            if "error" in answer:
                continue
            text = answer["text"].encode()
            for a, b in answer["own"]:
                if jinja_chats.MARK.encode() in text[a:b]:
                    wrong.append(dict(template=name, chat=chat,
                                      text=text[a:b].decode()))
    ok(not wrong, "values stay values", wrong[:3])


def main():
    engine = Engine()
    group(engine, "white space", jinja_cases.WHITE)
    group(engine, "expressions", ["{{ " + e + " }}" for e in jinja_cases.EXPR])
    group(engine, "statements", jinja_cases.STATE)
    for name, template in jinja_chats.TEMPLATES.items():
        group(engine, name, [(template, jinja_chats.variables(chat))
                             for chat in jinja_chats.CHATS])
    own(engine)
    at_random(engine)
    ok(engine.close() == 0, "the engine ends well")
    done()


main()
