"""Settings from ``[tool.hazard]`` of ``pyproject.toml`` or from ``hazard.toml``.

.. code-block:: toml

    [tool.hazard]                    # in hazard.toml the same keys stand at the top
    select = ["ALL"]
    ignore = ["HZ504"]
    fail-on = "warning"              # error, warning, note, never
    fail-on-unknown = true
    fail-on-assumption = false
    host = ["python-runtime"]        # and load, feedback, borrowed, concurrent, restaged as on the command line
    plugins = ["our-rules"]          # rules of other packages: entry points of the group hazard.rules
    effects = "hazard-effects.toml"  # or a list of files; relative to this file
    baseline = "hazard-baseline.json"

    [tool.hazard.severity]
    HZ202 = "error"

    [[tool.hazard.suppress]]
    rule = "HZ101"
    file = "exported/*.pte"          # a pattern; left out: every file
    method = "forward"               # left out: every method
    value = "b_cache"                # name, fully qualified name or slot such as %7 of the value; left out: every value
    reason = "the result is cloned by the caller before the second call"
    until = 2027-01-01               # the day on which it ends; left out: never

The nearest file from the working folder upwards counts; ``hazard.toml`` before ``pyproject.toml``. What the command
line says comes first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hazard.program import InputError

if TYPE_CHECKING:
    import datetime

    from hazard.analysis.effects import Declaration

SEVERITIES: Final = ("error", "warning", "note")
_FAIL_ON: Final = (*SEVERITIES, "never")
_LISTS: Final = ("select", "ignore", "host", "plugins")
_FLAGS: Final = ("fail-on-unknown", "fail-on-assumption", "feedback", "borrowed", "concurrent", "restaged")
_KEYS: Final = (*_LISTS, *_FLAGS, "fail-on", "load", "effects", "baseline", "severity", "suppress")
_SUPPRESS_KEYS: Final = ("rule", "file", "method", "value", "reason", "until")

#: Reasons that say nothing.
EMPTY_REASONS: Final = frozenset(
    {"", "-", "n/a", "none", "todo", "fixme", "tbd", "xxx", "by design", "intended", "false positive", "ignore", "ok"}
)


@dataclass(frozen=True, slots=True)
class Suppress:
    """One finding, or kind of finding, that is known and accepted. ``file`` is a pattern relative to ``base``."""

    rule: str
    reason: str
    base: str = ""
    file: str | None = None
    method: str | None = None
    value: str | None = None
    until: datetime.date | None = None

    def __str__(self) -> str:
        parts = (("file", self.file), ("method", self.method), ("value", self.value))
        return " ".join([self.rule, *(f'{key} "{word}"' for key, word in parts if word is not None)])


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration file says; None and empty where it says nothing. Paths are absolute."""

    path: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    fail_on: str | None = None
    fail_on_unknown: bool | None = None
    fail_on_assumption: bool | None = None
    host: tuple[str, ...] | None = None
    plugins: tuple[str, ...] | None = None
    load: str | None = None
    feedback: bool | None = None
    borrowed: bool | None = None
    concurrent: bool | None = None
    restaged: bool | None = None
    effects: Mapping[str, Declaration] = field(default_factory=dict)
    baseline: str | None = None
    severity: Mapping[str, str] = field(default_factory=dict)
    suppress: tuple[Suppress, ...] = ()


def find_settings(folder: str | None = None) -> Settings:
    """The settings that count in a folder (None: the working folder); empty ones where no file is found.

    Raises InputError for a file that cannot be used.
    """
    here = os.path.abspath(folder or os.curdir)
    while True:
        own = os.path.join(here, "hazard.toml")
        if os.path.isfile(own):
            return read_settings(own)
        project = os.path.join(here, "pyproject.toml")
        if _mentions_hazard(project):
            found = read_settings(project)
            if found.path is not None:
                return found
        parent = os.path.dirname(here)
        if parent == here:
            return Settings()
        here = parent


def _mentions_hazard(path: str) -> bool:
    """Whether it is worth loading a TOML reader: that takes longer than checking a small program."""
    try:
        with open(path, "rb") as file:
            return re.search(rb"tool\s*\.\s*[\"']?hazard|\[\s*tool\s*\]|^tool\b", file.read(), re.MULTILINE) is not None
    except OSError:
        return False


def read_settings(path: str) -> Settings:
    """The settings of one file; those of a ``pyproject.toml`` without ``[tool.hazard]`` have no path.

    Raises InputError for a file that cannot be used, naming the key.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise InputError(f"{path}: not TOML: {e}") from None
    where = path
    if os.path.basename(path) == "pyproject.toml":
        tool = content.get("tool", {})
        if not isinstance(tool, dict) or "hazard" not in tool:
            return Settings()
        content, where = tool["hazard"], f"{path}: [tool.hazard]"
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected a table")
    return _Reader(os.path.abspath(path), where, content).settings()


class _Reader:
    def __init__(self, path: str, where: str, table: dict[str, Any]) -> None:
        self.path, self.where, self.table = path, where, table
        self.base = os.path.dirname(path)

    def settings(self) -> Settings:
        if "tool" in self.table and os.path.basename(self.path) != "pyproject.toml":
            raise self._fail("the keys stand at the top of this file, without `tool.hazard`")
        self._known(self.table, _KEYS, self.where)
        words: dict[str, Any] = {key: self._words(key) for key in _LISTS}
        if words["plugins"]:
            from hazard.rule import load_plugin

            for name in words["plugins"]:
                load_plugin(name)
        self._choices(words)
        flags: dict[str, Any] = {key.replace("-", "_"): self._flag(key) for key in _FLAGS}
        return Settings(
            path=self.path,
            fail_on=self._choice("fail-on", self.table.get("fail-on"), _FAIL_ON),
            load=self._choice("load", self.table.get("load"), ("eager", "lazy")),
            effects=self._effects(),
            baseline=self._path("baseline"),
            severity=self._severity(),
            suppress=self._suppress(),
            **words,
            **flags,
        )

    def _fail(self, what: str) -> InputError:
        return InputError(f"{self.where}: {what}")

    def _known(self, table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in known:
                import difflib

                near = difflib.get_close_matches(key.replace("_", "-"), known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                raise InputError(f"{where}: unknown key `{key}`; {hint}")

    def _words(self, key: str) -> tuple[str, ...] | None:
        value = self.table.get(key)
        if value is None:
            return None
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            raise self._fail(f"`{key}` must be a list of texts")
        return tuple(words)

    def _choices(self, words: Mapping[str, Sequence[str] | None]) -> None:
        """Raises InputError for rules and hosts that there are not: with the file, which what uses them cannot name."""
        from hazard.api import chosen_rules
        from hazard.hosts import choose_hosts

        try:
            for key in ("select", "ignore"):
                if words[key]:
                    chosen_rules(words[key], None)
            choose_hosts(words["host"])
        except InputError as e:
            raise self._fail(str(e)) from None

    def _flag(self, key: str) -> bool | None:
        value = self.table.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._fail(f"`{key}` must be true or false")
        return value

    def _choice(self, key: str, value: Any, known: tuple[str, ...]) -> str | None:
        if value is not None and value not in known:
            raise self._fail(f"`{key}` must be one of {', '.join(known)}")
        return None if value is None else str(value)

    def _path(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._fail(f"`{key}` must be a path")
        return os.path.join(self.base, value)

    def _effects(self) -> dict[str, Declaration]:
        from hazard.declarations import declarations_of, read_declarations

        value = self.table.get("effects")
        if value is None:
            return {}
        if isinstance(value, dict):
            return declarations_of(value, f"{self.where}: effects")
        paths = [value] if isinstance(value, str) else value
        if not isinstance(paths, list) or not all(isinstance(p, str) for p in paths):
            raise self._fail("`effects` must be a path, a list of paths, or a table of operators")
        declared: dict[str, Declaration] = {}
        for path in paths:
            declared.update(read_declarations(os.path.join(self.base, path)))
        return declared

    def _severity(self) -> dict[str, str]:
        table = self.table.get("severity", {})
        if not isinstance(table, dict):
            raise self._fail("`severity` must be a table of rules")
        return {
            self._rule(word): self._choice(f"severity.{word}", level, SEVERITIES) or ""
            for word, level in table.items()
        }

    def _rule(self, word: Any) -> str:
        """The code of a rule named by code or name."""
        from hazard.api import chosen_rules
        from hazard.rule import find_rule

        if not isinstance(word, str):
            raise self._fail("a rule is named by its code or its name")
        rule = find_rule(word)
        if rule is None:
            try:
                chosen_rules([word], None)
            except InputError as e:
                raise self._fail(str(e)) from None
            raise self._fail(f"`{word}` names several rules")
        return rule.code

    def _suppress(self) -> tuple[Suppress, ...]:
        import datetime

        entries = self.table.get("suppress", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise self._fail("`suppress` must be a list of tables, each begun by [[tool.hazard.suppress]]")
        result = []
        for i, entry in enumerate(entries, 1):
            where = f"{self.where}: suppress, entry {i}"
            self._known(entry, _SUPPRESS_KEYS, where)
            for key in ("rule", "reason"):
                if key not in entry:
                    raise InputError(f"{where}: `{key}` is missing")
            for key in ("file", "method", "value", "reason"):
                if key in entry and not isinstance(entry[key], str):
                    raise InputError(f"{where}: `{key}` must be a text")
            if is_empty_reason(entry["reason"]):
                raise InputError(f"{where}: the reason `{entry['reason']}` says nothing; say why it is harmless here")
            until = entry.get("until")
            if until is not None and (not isinstance(until, datetime.date) or isinstance(until, datetime.datetime)):
                raise InputError(f"{where}: `until` must be a day such as 2027-01-31")
            result.append(
                Suppress(
                    self._rule(entry["rule"]), entry["reason"].strip(), self.base, entry.get("file"),
                    entry.get("method"), entry.get("value"), until,
                )  # fmt: skip
            )
        return tuple(result)


def is_empty_reason(text: str) -> bool:
    """Whether a reason is none."""
    return text.strip().rstrip(".!").lower() in EMPTY_REASONS
