"""What a rule is, what a finding is, and the table of all rules.

A rule is one module in ``rules/`` (the package `hazard.rules`). Its docstring is its documentation, with fixed headings
and examples that a test executes; ``RULE`` is its metadata and its functions. A conflict of the analysis becomes one
finding: the rule of the highest ``precedence`` that claims it tells the story. Rules on layout or on events bring a
``scan`` of their own.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from hazard.analysis.check import MethodAnalysis
from hazard.analysis.conflicts import Conflict, Place, Witness
from hazard.analysis.operators import is_reinplaced
from hazard.analysis.places import operand_at, operator_at
from hazard.hosts import RELEASED, Host
from hazard.program import Program

if TYPE_CHECKING:
    from hazard.analysis.events import Events

#: What fingerprints are made of, as SARIF names it. When `_identity` changes, so does the number: every finding is then
#: new to a baseline.
FINGERPRINT: Final = "hazard/v1"
SEVERITIES: Final = ("note", "warning", "error")
#: The pass runs as well where only operators are named for it.
NOT_REINPLACED: Final = "export with `run_reinplace_pass=False` and without `reinplace_extra_ops`"
HEADINGS: Final = ("What it does", "Why is this bad?", "Example", "Use instead", "What to do")


@dataclass(frozen=True, slots=True)
class Story:
    """How a rule tells a conflict. ``message``: what is wrong, lower case, no full stop. ``help``: what to do."""

    message: str
    help: str
    severity: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, told as a triple in program order: defined, overwritten, read.

    ``severity`` is error, warning or note; ``certainty`` is certain or possible. ``fingerprint`` identifies the finding
    across re-planning, see `FINGERPRINT`.
    """

    code: str
    name: str
    severity: str
    certainty: str
    method: str
    message: str
    help: str
    define: Place | None = None
    clobber: Place | None = None
    use: Place | None = None
    all_defines: tuple[Place, ...] = ()
    all_clobbers: tuple[Place, ...] = ()
    witness: Witness | None = None
    approximations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    properties: tuple[tuple[str, Any], ...] = ()
    fingerprint: str = ""


@dataclass(slots=True)
class Context:
    """What a rule may look at: the program, the analysis of each of its methods, and the hosts that may run it.

    ``asked`` holds the codes of rules that the user selected; some rules are silent on ordinary programs otherwise.
    """

    program: Program
    methods: list[MethodAnalysis]
    hosts: tuple[Host, ...] = RELEASED
    asked: frozenset[str] = frozenset()
    _events: Events | None = None

    @property
    def events(self) -> Events:
        """What happens among the methods; computed once."""
        if self._events is None:
            from hazard.analysis.events import Events

            self._events = Events(self.methods, self.hosts)
        return self._events

    @property
    def narrowed(self) -> bool:
        """Whether the user said which hosts count."""
        return self.hosts != RELEASED


Claims = Callable[[Conflict, MethodAnalysis], bool]
Tell = Callable[[Conflict, MethodAnalysis], Story]
Scan = Callable[[Context], Iterator[Finding]]


class RuleError(Exception):
    """A rule module is not fit for use; the message names the module and the field."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Metadata and functions of one rule.

    ``doubts``: a finding says what is not known, and makes no method's verdict a hazard.
    ``claims`` and ``tell`` turn conflicts into findings; ``scan`` makes findings of its own. ``severity`` is that of a
    certain finding; a merely possible error becomes a warning. ``default`` is False for rules that are off unless
    selected.
    """

    code: str
    name: str
    severity: str
    since: str
    summary: str
    claims: Claims | None = None
    tell: Tell | None = None
    scan: Scan | None = None
    precedence: int = 0
    default: bool = True
    doubts: bool = False
    references: tuple[str, ...] = ()
    docs: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        problems = [
            (not re.fullmatch(r"[A-Z]{2,}\d{3}", self.code), "code"),
            (not re.fullmatch(r"[a-z]+(-[a-z]+)*", self.name), "name"),
            (self.severity not in SEVERITIES, "severity"),
            (not re.fullmatch(r"\d+\.\d+\.\d+", self.since), "since"),
            (not self.summary or self.summary.endswith("."), "summary"),
            ((self.claims is None) != (self.tell is None), "tell"),
            (self.claims is None and self.scan is None, "claims or scan"),
        ]
        for wrong, name in problems:
            if wrong:
                raise RuleError(f"rule {self.code}: bad field `{name}`")

    def finding(
        self, *, method: str, message: str, help: str, certain: bool = True, severity: str | None = None, **rest: Any
    ) -> Finding:
        """A finding of this rule; see `Finding` for the fields in ``rest``."""
        level = severity or self.severity
        if not certain and level == "error":
            level = "warning"
        certainty = "certain" if certain else "possible"
        return Finding(self.code, self.name, level, certainty, method, message, help, **rest)


def documented(module_docs: str | None, rule: Rule) -> Rule:
    """The rule with its module's docstring as documentation. Raises RuleError when a heading is missing."""
    docs = module_docs or ""
    missing = [h for h in HEADINGS if f"## {h}" not in docs]
    if missing:
        raise RuleError(f"rule {rule.code}: its documentation lacks the heading `{missing[0]}`")
    return Rule(**{name: getattr(rule, name) for name in Rule.__slots__ if name != "docs"}, docs=docs)


def _package() -> ModuleType:
    """The package `hazard.rules`."""
    try:
        return importlib.import_module("hazard.rules")
    except ModuleNotFoundError:
        # In a checkout that Python finds before what is installed, the rules lie beside this package.
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules")
        spec = importlib.util.spec_from_file_location(
            "hazard.rules", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None or not os.path.isfile(os.path.join(folder, "__init__.py")):
            raise
        package = sys.modules["hazard.rules"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
        return package


@cache
def rule_files() -> dict[str, str]:
    """Module names of the shipped rules by code, from the folder's listing; nothing is imported but the package."""
    found = {}
    for folder in _package().__path__:
        for entry in sorted(os.listdir(folder)):
            if match := re.fullmatch(r"(hz\d{3})_\w+\.py", entry):
                found[match[1].upper()] = entry[:-3]
    return found


@cache
def load_rule(code: str) -> Rule:
    """The shipped rule with a code. Raises KeyError."""
    module = importlib.import_module(f"hazard.rules.{rule_files()[code]}")
    rule: Rule = documented(module.__doc__, module.RULE)
    if rule.code != code:
        raise RuleError(f"module {module.__name__} defines {rule.code}")
    return rule


@cache
def _shipped() -> tuple[Rule, ...]:
    return tuple(load_rule(code) for code in sorted(rule_files()))


def all_rules() -> tuple[Rule, ...]:
    """All shipped rules in order of their codes, then those of other packages that have been named."""
    return (*_shipped(), *_PLUGGED.values())


def find_rule(word: str) -> Rule | None:
    """A rule by code (any case) or by name."""
    code = word.upper()
    if code in rule_files():
        return load_rule(code)
    return next((r for r in all_rules() if word == r.name or code == r.code), None)


#: Rules of other packages by code, in the order in which they were loaded.
_PLUGGED: Final[dict[str, Rule]] = {}
GROUP: Final = "hazard.rules"


def load_plugin(name: str) -> None:
    """Loads the rules of another package: its entry point ``name`` in the group ``hazard.rules``.

    The entry point is a module like those in ``rules/``, or one with ``RULES``, a sequence of such modules. Its code
    begins with other letters than ours. Loading again does nothing. Raises InputError when there is no such entry
    point, or when what it holds is no rule.
    """
    from importlib.metadata import entry_points

    from hazard.program import InputError

    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(sorted(e.name for e in entry_points(group=GROUP))) or "none is installed"
        raise InputError(f"no rules called `{name}`: there is no such entry point in the group {GROUP} ({known})")
    try:
        module = next(iter(found)).load()
        rules = [documented(m.__doc__, m.RULE) for m in getattr(module, "RULES", (module,))]
    except Exception as e:
        raise InputError(f"the rules `{name}` cannot be loaded: {type(e).__name__}: {e}") from e
    for rule in rules:
        if rule == _PLUGGED.get(rule.code):
            continue
        if rule.code.startswith("HZ") or any(rule.code == r.code or rule.name == r.name for r in all_rules()):
            raise InputError(f"the rules `{name}` bring {rule.code} {rule.name}, a code or name that is taken")
        _PLUGGED[rule.code] = rule


def findings_of(context: Context, rules: Iterable[Rule]) -> list[Finding]:
    """All findings of the given rules with fingerprints: the worst first, then in the order of methods and
    instructions."""
    rules = list(rules)
    chosen = {r.code for r in rules}
    # A rule that is not wanted still claims what is its own: another must not tell the same read by a lesser name.
    others = [r for r in all_rules() if r.default and r.code not in chosen]
    by_precedence = sorted((r for r in (*rules, *others) if r.claims), key=lambda r: (-r.precedence, r.code))
    found: list[Finding] = []
    for analysis in context.methods:
        for conflict in analysis.conflicts:
            rule = next((r for r in by_precedence if r.claims and r.claims(conflict, analysis)), None)
            if rule is not None and rule.tell is not None and rule.code in chosen:
                found.append(_told(rule, rule.tell(conflict, analysis), conflict, analysis))
    for rule in rules:
        if rule.scan is not None:
            for finding in rule.scan(context):
                # What a scan says of a read replaces what the rule said of it without looking at other methods.
                found = [f for f in found if rule.claims is None or not _same_use(f, finding)]
                found.append(finding)
    order = {a.method.name: i for i, a in enumerate(context.methods)}
    found.sort(key=lambda f: (order.get(f.method, len(order)), f.use.position if f.use else -1, f.code))
    return worst_first(_fingerprinted(found, {a.method.name: a for a in context.methods}))


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, then warnings, then notes; findings of one severity in the order in which they came."""
    return sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))


def _same_use(a: Finding, b: Finding) -> bool:
    return (a.code, a.method, a.use and a.use.position, a.use and a.use.slot) == (
        b.code, b.method, b.use and b.use.position, b.use and b.use.slot,
    )  # fmt: skip


def _told(rule: Rule, story: Story, conflict: Conflict, analysis: MethodAnalysis) -> Finding:
    return rule.finding(
        method=analysis.method.name,
        message=story.message,
        help=story.help,
        certain=conflict.certain,
        severity=story.severity,
        define=conflict.define,
        clobber=conflict.clobber,
        use=conflict.use,
        all_defines=conflict.all_defines,
        all_clobbers=conflict.all_clobbers,
        witness=conflict.witness,
        approximations=conflict.approximations,
    )


def _fingerprinted(findings: list[Finding], analyses: Mapping[str, MethodAnalysis]) -> list[Finding]:
    import dataclasses

    seen: dict[tuple[str, ...], int] = {}
    result = []
    for f in findings:
        key = _identity(f, analyses)
        occurrence = seen[key] = seen.get(key, 0) + 1
        digest = hashlib.sha256("\0".join([*key, str(occurrence)]).encode()).hexdigest()[:16]
        result.append(dataclasses.replace(f, fingerprint=digest))
    return result


def _identity(f: Finding, analyses: Mapping[str, MethodAnalysis]) -> tuple[str, ...]:
    """What of a finding stays when memory is planned anew: the rule, the method, the operand that is read, the
    operators that can have made it, and its name if it is state. Not who overwrites it, which is the planner's choice,
    and not on which path that was seen."""
    place = f.use or f.define or f.clobber
    if place is None:
        return f.code, f.method
    analysis = analyses.get(place.method or f.method)
    made = {f.define.operator} if f.define else set()
    operand = ""
    if analysis is not None and place.slot is not None and 0 <= place.position < len(analysis.flow.code):
        operand = operand_at(analysis.flow, place.position, place.slot)
        facts = analysis.reaching.reads.get((place.position, place.slot), ())
        made = {operator_at(analysis.flow, d) for _, d, *_ in facts if d >= 0} or made
    state = next((p.fqn for p in (f.define, f.use) if p is not None and p.fqn), "")
    return f.code, f.method, place.operator, operand, *sorted(made), state


def value_word(place: Place | None) -> str:
    """How a text names the value of a place: by its name in the model, else by its slot."""
    if place is None or place.slot is None:
        return "a value"
    return f"`{place.fqn or place.name}`" if place.fqn or place.name else f"`%{place.slot}`"


def unshared(writer: Place) -> str:
    """What gives a result bytes of its own that was put into the storage of an operand."""
    if is_reinplaced(writer.operator):
        return NOT_REINPLACED
    return (
        f"let {value_word(writer)} have storage of its own: take its operator out of `reinplace_extra_ops`, or the"
        " request to share out of the pass that makes it"
    )


def site_word(place: Place) -> str:
    """``[12] aten::clone.out``; an input, the initial state or an output has no index."""
    if place.instruction is None:
        return place.operator
    return f"[{place.instruction}] {place.operator}"
