"""One random model under the runtime, beside its twin and beside eager, against what the analysis says of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from executorch.runtime import Runtime
from torch.utils import _pytree as pytree

import hazard
from corpus import runner
from corpus.experiment import Experiment
from hazard.confirm.twin import make_twin
from hazard.pipeline import Lowered, _copied, edge_signatures, from_manager
from tests import shadow
from tests.fuzz.held import calls_of, hold

#: Relative and absolute tolerance against eager; the twin is compared bit by bit.
TOLERANCE = 1e-5

#: Bounds of the exhaustive run that decides about findings that no random input confirms.
SHADOW_PATHS = 20_000


@dataclass
class Outcome:
    """What happened to one model. ``status``: ok, export-error, run-error, check-error, twin-error.

    ``kind`` is the judgement on the check of the program file, ``graph_kind`` that on the check of the planned graphs:
    agree-clean, agree-hazard, missed (wrong, no finding; of the file only where it differs from the twin), unseen (of
    the file: wrong against eager only, no finding), false-alarm (an error that neither runs nor the exhaustive run
    confirm), unconfirmed (the same for a mere possibility), shadow-confirmed, twin-fault (the twin differs from eager
    where the program does not). ``held`` says what came of each finding of the graphs, see `tests.fuzz.held.hold`.
    """

    seed: int | None = None
    variant: int = 0
    status: str = "ok"
    kind: str = ""
    detail: str = ""
    verdict: str = ""
    assumptions: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    findings: list[tuple[str, str, str]] = field(default_factory=list)  # code, severity, certainty
    graph_kind: str = ""
    graph_verdict: str = ""
    graph_assumptions: list[str] = field(default_factory=list)
    graph_reasons: list[str] = field(default_factory=list)
    graph_findings: list[tuple[str, str, str]] = field(default_factory=list)
    held: list[list[str]] = field(default_factory=list)
    against_twin: str = ""
    against_eager: str = ""
    exhausted: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    data: bytes = b""

def build_module(text: str, name: str) -> ModuleType:
    """A module of the given source. It is registered: dynamo imports the modules of nested functions by name."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def judge(text: str, name: str, seed: int | None = None, held: bool = False) -> list[Outcome]:
    """Lowers the model of the given source, and checks and runs it with each of its variants of planning; ``held``
    also holds every finding of the graphs against runtime and eager."""
    module = build_module(text, name)
    watch = _Watch()
    outcomes = [Outcome(seed, variant) for variant in range(len(module.VARIANTS))]
    try:
        edge, _ = runner.lower(module.build())
    except Exception as error:
        return [_failed(o, "export-error", error) for o in outcomes]
    watch.lap(outcomes[0], "lower")
    for outcome in outcomes:
        _judge_variant(outcome, module, edge, watch, held)
    sys.modules.pop(name, None)
    return outcomes


class _Watch:
    def __init__(self) -> None:
        self.started = time.perf_counter()

    def lap(self, outcome: Outcome, what: str) -> None:
        now = time.perf_counter()
        outcome.seconds[what] = round(now - self.started, 3)
        self.started = now


def _judge_variant(outcome: Outcome, module: ModuleType, edge: Any, watch: _Watch, held: bool) -> None:
    try:
        signatures = edge_signatures(edge)
        # Planning changes an edge program, which is the reference and is planned in other ways, too.
        manager = _copied(edge).to_executorch(runner.planning(module.build(outcome.variant)))
        outcome.data = bytes(manager.buffer)
    except Exception as error:
        _failed(outcome, "export-error", error)
        return
    watch.lap(outcome, "plan")
    try:
        report = hazard.check(outcome.data)
        watch.lap(outcome, "check")
        graphs = from_manager(manager, signatures)
        graph_report = hazard.check(graphs)
    except Exception as error:
        _failed(outcome, "check-error", error)
        return
    watch.lap(outcome, "graph-check")
    outcome.verdict, outcome.assumptions, outcome.reasons, outcome.findings = _summary(report)
    summary = _summary(graph_report)
    outcome.graph_verdict, outcome.graph_assumptions, outcome.graph_reasons, outcome.graph_findings = summary
    try:
        analyses = [m.analysis for m in report.programs[0].methods]
        twins = [make_twin(outcome.data, analyses)]
        if twins[0].orphans:
            twins.append(make_twin(outcome.data, analyses, pattern=1))
    except Exception as error:
        _failed(outcome, "twin-error", error)
        return
    watch.lap(outcome, "twin")
    run_beside(outcome, module, [t.data for t in twins])
    watch.lap(outcome, "run")
    if outcome.status == "ok":
        _classify(outcome, report, graph_report)
        watch.lap(outcome, "classify")
    if outcome.status == "ok" and held and _faults(graph_report):
        model = {method: edge.exported_program(method) for method in edge.methods}
        try:
            source = Lowered(outcome.data, graphs, model)
            outcome.held = hold(source, calls_of(module.build(outcome.variant)))[1]
        except Exception as error:
            _failed(outcome, "check-error", error)
        watch.lap(outcome, "hold")


def _summary(report: Any) -> tuple[str, list[str], list[str], list[tuple[str, str, str]]]:
    methods = report.programs[0].methods
    return (
        report.verdict,
        sorted({a for m in methods for a in m.assumptions}),
        sorted({r for m in methods for r in m.reasons}),
        [(f.code, f.severity, f.certainty) for f in report.findings],
    )


def _failed(outcome: Outcome, status: str, error: BaseException) -> Outcome:
    outcome.status = status
    lines = str(error).strip().splitlines() or [""]
    outcome.detail = f"{type(error).__name__}: {lines[0][:200]}"
    if status == "check-error":
        import traceback

        outcome.detail += " | " + traceback.format_exc()[-600:]
    return outcome


def _classify(outcome: Outcome, report: Any, graph_report: Any) -> None:
    faults, graph_faults = (_faults(r) for r in (report, graph_report))
    if outcome.against_twin and outcome.detail and not outcome.against_eager and "(pattern" not in outcome.against_twin:
        # Eager agrees with the program: the twin is at fault, not the program.
        outcome.against_twin = ""
    if outcome.against_twin:
        outcome.kind = "agree-hazard" if faults else "missed"
    elif outcome.against_eager:
        outcome.kind = "agree-hazard" if faults else "unseen"
    elif not faults:
        outcome.kind = "twin-fault" if outcome.detail else "agree-clean"
    if outcome.against_twin or outcome.against_eager:
        outcome.graph_kind = "agree-hazard" if graph_faults else "missed"
    elif not graph_faults:
        outcome.graph_kind = "agree-clean"
    for name, found, judged in (("kind", faults, report), ("graph_kind", graph_faults, graph_report)):
        if not getattr(outcome, name):
            setattr(outcome, name, _unconfirmed(outcome, found, judged))


def _faults(report: Any) -> list[Any]:
    return [f for f in report.findings if f.severity != "note"]


def _unconfirmed(outcome: Outcome, faults: list[Any], report: Any) -> str:
    """What the exhaustive run says of findings that no run has confirmed."""
    results = [shadow.run(m.analysis.method, 2, SHADOW_PATHS) for m in report.programs[0].methods]
    outcome.exhausted = outcome.exhausted or any(r.exhausted for r in results)
    kinds = {o.kind for r in results for o in r.observations}
    # That state starts from zeros is right for the exhaustive run; a graph knows when the model says otherwise.
    lost = any(f.code == "HZ202" for f in faults) and "uninitialized-state" in kinds
    if lost or any(r.hazards for r in results):
        return "shadow-confirmed"
    # The exhaustive run knows one method at a time and its own reads only.
    faults = [f for f in faults if f.code[:3] not in ("HZ5", "HZ6")]
    return "false-alarm" if any(f.severity == "error" for f in faults) else "unconfirmed"


# --- running ----------------------------------------------------------------------------------------------------------


@contextmanager
def plain_control_flow(module: ModuleType) -> Iterator[None]:
    """Higher-order operators as plain Python while eager runs: compiling each of them takes longer than an export."""
    saved = torch.cond, module.torch_map, module.scan
    torch.cond = _cond  # type: ignore[assignment]
    module.torch_map, module.scan = _map, _scan  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.cond, module.torch_map, module.scan = saved  # type: ignore[attr-defined]


def _cond(predicate: Any, true: Any, false: Any, operands: Any) -> Any:
    return true(*operands) if bool(predicate) else false(*operands)


def _map(body: Any, xs: Any, *args: Any) -> Any:
    return torch.stack([body(row, *args) for row in xs])


def _scan(body: Any, carry: Any, xs: Any, dim: int) -> Any:
    rows = []
    for row in xs:
        carry, result = body(carry, row)
        rows.append(result)
    return carry, torch.stack(rows)


class _Session:
    """One freshly loaded program."""

    def __init__(self, data: bytes, options: dict[str, Any], methods: list[str], preload: bool) -> None:
        # A program can write to its own constants, which lie in these bytes.
        self.program = Runtime.get().load_program(bytes(bytearray(data)))
        for method in methods if preload else []:
            self.program.load_method(method)

    def call(self, method: str, inputs: tuple[Any, ...]) -> list[Any]:
        return _cloned(self.program.load_method(method).execute(_cloned(inputs)))


def _cloned(values: Any) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def run_beside(outcome: Outcome, module: ModuleType, twins: list[bytes]) -> None:
    """Runs the program of an outcome in all sequences of its model beside eager and twins, and notes differences."""
    built: Experiment = module.build(outcome.variant)
    methods = list(built.options.get("methods", {"forward": None}))
    twin_faults = []
    for index in range(len(built.sequences)):
        experiment: Experiment = module.build(outcome.variant)
        given = experiment.options.get("methods")
        eager = {n: m.eval() for n, (m, _) in given.items()} if given else {"forward": experiment.module.eval()}
        preload = bool(experiment.options.get("preload"))
        try:
            own = _Session(outcome.data, experiment.options, methods, preload)
            # The twin shares with the program that loading a method sets its state again; all are loaded first.
            others = [_Session(t, experiment.options, methods, True) for t in twins]
        except RuntimeError as error:
            _failed(outcome, "run-error", error)
            return
        # What differs once may differ for ever after, through the state: each pair is followed to its first difference.
        watching = {"eager", "twin", "twin-eager"}
        for step, given_step in enumerate(experiment.sequences[index]):
            method, inputs = given_step if given else ("forward", given_step)
            with torch.no_grad(), plain_control_flow(module):
                want = _cloned(pytree.tree_leaves(eager[method](*_cloned(inputs))))
            got: Any
            # A program returns the inputs that it changes as well, before all else.
            got, problem = _attempt(own, method, inputs, len(want))
            from_twins = [_attempt(t, method, inputs, len(want)) for t in others]
            if problem and from_twins[0][1]:
                outcome.status, outcome.detail = "run-error", problem
                return
            where = f"sequence {index} step {step} {method}"
            if "twin" in watching:
                for k, (values, twin_problem) in enumerate(from_twins):
                    if text := _difference(got, problem, values, twin_problem, 0.0):
                        watching.discard("twin")
                        outcome.against_twin = outcome.against_twin or f"{where}: {text}" + (
                            f" (pattern {k})" if k else ""
                        )
            if "eager" in watching and (text := _difference(got, problem, want, "", TOLERANCE)):
                watching.discard("eager")
                outcome.against_eager = outcome.against_eager or f"{where}: {text}"
            if "twin-eager" in watching and (text := _difference(*from_twins[0], want, "", TOLERANCE)):
                watching.discard("twin-eager")
                twin_faults.append(f"{where}: twin {text}")
            if problem or any(p for _, p in from_twins):
                break
        if "twin-eager" not in watching and "eager" in watching:
            outcome.detail = outcome.detail or twin_faults[-1]


def _attempt(session: _Session, method: str, inputs: Any, count: int) -> tuple[list[Any], str]:
    """The last ``count`` results, or the error."""
    try:
        return session.call(method, inputs)[-count:], ""
    except RuntimeError as error:
        return [], str(error).splitlines()[0][:160]


def _difference(got: list[Any], problem: str, want: list[Any], other_problem: str, tolerance: float) -> str:
    if problem or other_problem:
        return "" if problem and other_problem else f"one fails: {problem or other_problem}"
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if not _same(a, b, tolerance):
            return f"output {k}: {_short(a)} not {_short(b)}"
    return ""


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    if not a.is_floating_point():
        return False
    if tolerance:
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(nan=0.0), b.nan_to_num(nan=0.0))


def _short(value: Any) -> str:
    return str(value.flatten()[:6].tolist()) if isinstance(value, torch.Tensor) else repr(value)


if __name__ == "__main__":
    from pathlib import Path

    for path in sys.argv[1:]:
        for found in judge(Path(path).read_text(), Path(path).stem):
            found.data = b""
            print(found)
