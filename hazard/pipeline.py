"""Inside ExecuTorch's own pipeline: programs from its managers, and a planning pass that checks what it has planned.

torch and executorch are imported when one of these is used.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from hazard.frontends.emitted import differences
from hazard.frontends.fx import PlannedGraph, program_from_graphs, release_doubts
from hazard.frontends.fx_specs import Origins
from hazard.frontends.fx_storage import storage_faults
from hazard.program import InputError, Method, Program

if TYPE_CHECKING:
    from hazard.api import Report

_LOG = logging.getLogger("hazard")

Signatures = Mapping[str, Any]


def edge_signatures(edge: Any) -> dict[str, Any]:
    """Copies of the export signatures of an ``EdgeProgramManager``, by method.

    To be taken before ``to_executorch``, which rewrites the originals; `from_manager` reads buffers from them.
    """
    return {name: copy.deepcopy(edge.exported_program(name).graph_signature) for name in edge.methods}


def from_manager(manager: Any, signatures: Signatures | None = None) -> Program:
    """The program of an ``ExecutorchProgramManager``, read from its planned graphs.

    ``signatures`` are those of `edge_signatures`; without them the planned ones are decoded, and where that fails the
    method's `hazard.program.Method.doubts` say so. Raises InputError for graphs that cannot be modelled.
    """
    known = signatures or {}
    graphs = {}
    for name in manager.methods:
        exported = manager.exported_program(name)
        graphs[name] = PlannedGraph(exported.graph_module, exported.graph_signature, exported, known.get(name))
    return program_from_graphs(graphs, constant_methods=getattr(manager, "_config_methods", None))


class _StopError(Exception):
    """Ends ``to_executorch`` between planning and emission."""


class _Collecting:
    """A planning pass that keeps what another has planned. Unknown attributes are the other's, to read and to set."""

    def __init__(self, planner: Any, finished: Callable[[], None]) -> None:
        self.__dict__.update(planner=planner, finished=finished, graphs={})

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        name, exported = _current_method(len(self.graphs))
        result = _plan(self.planner, graph_module, graph_signature)
        # The pipeline goes on to change the signature.
        self.graphs[name] = PlannedGraph(result.graph_module, copy.deepcopy(graph_signature), exported)
        return result

    def run_multimethod(self) -> None:
        if hasattr(self.planner, "run_multimethod"):
            self.planner.run_multimethod()
        self.finished()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["planner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.planner, name, value)


def _plan(planner: Any, graph_module: Any, graph_signature: Any) -> Any:
    if hasattr(planner, "run"):
        return planner.run(graph_module, graph_signature)
    return planner(graph_module)


def _current_method(count: int) -> tuple[str, Any]:
    """(name, exported program) of the method that ``to_executorch`` is planning.

    A pass is told neither, and the names are what a report is read by; they are looked up in the caller.
    """
    caller = _caller()
    name, program = caller.get("name"), caller.get("program")
    if isinstance(name, str):
        return name, program if hasattr(program, "state_dict") else None
    return ("forward" if not count else f"forward_{count}"), None


def _caller() -> Mapping[str, Any]:
    """The variables of the ``to_executorch`` that has called a pass; none where it was called by something else."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(9):
        if frame is None:
            break
        if frame.f_code.co_name == "to_executorch":
            return frame.f_locals
        frame = frame.f_back
    return {}


def plan_edge(edge: Any, config: Any = None) -> Program:
    """The program that an ``EdgeProgramManager`` would become with an ``ExecutorchBackendConfig``.

    It is planned in a copy, and nothing is emitted: the manager, its signatures and the configuration stay as they are.
    Data of parameters and buffers is shared, not copied. Raises InputError for graphs that cannot be modelled; errors
    of the passes and of the planner come through as they are.
    """
    from executorch.exir import ExecutorchBackendConfig

    signatures = edge_signatures(edge)
    lines = {name: _lines(edge.exported_program(name).graph) for name in edge.methods}
    clone = _copied(edge)
    config = _copied_config(config if config is not None else ExecutorchBackendConfig())
    given = config.memory_planning_pass
    passes = list(given.values()) if isinstance(given, dict) else [given]
    left = len({id(p) for p in passes})

    def finished() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise _StopError

    collecting = {id(p): _Collecting(_unwrapped(p), finished) for p in passes}
    if isinstance(given, dict):
        # `to_executorch` plans methods that the mapping leaves out with a pass of its own, which must be seen, too.
        default = ExecutorchBackendConfig().memory_planning_pass
        fallback = _Collecting(default, finished)
        names = set(clone.methods)
        planners = {n: collecting[id(p)] for n, p in given.items()}
        missing = names - set(planners)
        planners.update(dict.fromkeys(missing, fallback))
        left = len(planners)
        config.memory_planning_pass = planners
        holders: Iterable[_Collecting] = set(planners.values())
    else:
        config.memory_planning_pass = next(iter(collecting.values()))
        holders = collecting.values()
    with contextlib.suppress(_StopError):
        clone.to_executorch(config)
    graphs: dict[str, PlannedGraph] = {}
    for holder in holders:
        for name, planned in holder.graphs.items():
            _restore_lines(planned.module.graph, lines.get(name, {}))
            graphs[name] = PlannedGraph(planned.module, planned.signature, planned.exported, signatures.get(name))
    return program_from_graphs(graphs, constant_methods=getattr(edge, "_config_methods", None))


def replanning(thing: Any) -> Callable[[Callable[[Any], None]], Program] | None:
    """For what can be planned more than once: a function that makes its program with another configuration. It is given
    what changes an ``ExecutorchBackendConfig``. None for what has been planned already.

    ``thing`` is an ``EdgeProgramManager``, alone or with its configuration, or a module with its example inputs. Errors
    of ExecuTorch come through, as do those of a planning pass that is among the options.
    """
    config: Any = None
    if isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "EdgeProgramManager"):
        thing, config = thing
    elif isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "Module") and isinstance(thing[1], tuple):
        thing = _exported(*thing)
    if not _is(thing, "EdgeProgramManager"):
        return None
    from executorch.exir import ExecutorchBackendConfig

    given = config if config is not None else ExecutorchBackendConfig()

    def again(change: Callable[[Any], None]) -> Program:
        changed = _copied_config(given)
        change(changed)
        return plan_edge(thing, changed)

    return again


def _lines(graph: Any) -> dict[str, list[str | None]]:
    """Stack traces of the calls in a graph, by operator, in order."""
    found: dict[str, list[str | None]] = {}
    for node in graph.nodes:
        if (name := _functional_name(node)) is not None:
            found.setdefault(name, []).append(node.meta.get("stack_trace"))
    return found


def _restore_lines(graph: Any, lines: Mapping[str, list[str | None]]) -> None:
    """Gives calls that a pass has put in place of others, without their metadata, the lines of those."""
    calls: dict[str, list[Any]] = {}
    for node in graph.nodes:
        if (name := _functional_name(node)) is not None:
            calls.setdefault(name, []).append(node)
    for name, nodes in calls.items():
        known = lines.get(name, [])
        if len(known) != len(nodes):
            continue
        for node, trace in zip(nodes, known, strict=True):
            if trace is not None and not node.meta.get("stack_trace"):
                node.meta["stack_trace"] = trace


def _functional_name(node: Any) -> str | None:
    """``aten::index_put`` for a call of it, and for one of ``aten::index_put_``; write-backs are left out."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    if schema is None or schema.name == "aten::copy_":
        return None
    return str(schema.name).removesuffix("_")


def _unwrapped(planner: Any) -> Any:
    return planner.unjudged() if isinstance(planner, CheckedPlanning) else planner


def _copied(edge: Any) -> Any:
    """An edge manager whose graphs and signatures can be changed. Tensors and delegates are the caller's own."""
    clone = copy.copy(edge)
    clone._edge_programs = {name: _copied_export(edge.exported_program(name)) for name in edge.methods}
    clone._etrecord = None
    return clone


def _copied_export(exported: Any) -> Any:
    memo: dict[int, Any] = {}

    def share(thing: Any) -> None:
        memo[id(thing)] = thing

    for tensor in (*exported.state_dict.values(), *exported.constants.values()):
        share(tensor)
    for module in exported.graph_module.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                share(tensor)
        if type(module).__name__ == "LoweredBackendModule":
            share(module)
    return copy.deepcopy(exported, memo)


def _copied_config(config: Any) -> Any:
    """A configuration whose passes can keep notes. Passes that cannot be copied are used as they are."""
    clone = copy.copy(config)
    for name in ("memory_planning_pass", "passes", "sym_shape_eval_pass", "to_out_var_pass"):
        if hasattr(clone, name):
            setattr(clone, name, _copied_pass(getattr(clone, name)))
    return clone


def _copied_pass(thing: Any) -> Any:
    try:
        return copy.deepcopy(thing)
    except Exception:
        _LOG.debug("%s cannot be copied", type(thing).__name__)
        return thing


class CheckedPlanning(_Collecting):
    """A memory planning pass that checks what another one has planned, before a program is emitted from it.

    It behaves as the pass that it is given, ``run_multimethod`` included, and is used in its place::

        ExecutorchBackendConfig(memory_planning_pass=hazard.CheckedPlanning(MemoryPlanningPass(...)))

    ``to_executorch`` then raises `hazard.HazardError` with the full report when a finding reaches ``fail_on`` (error,
    warning, note or never); with ``on_hazard="warn"`` the report is logged instead. ``options`` are those of
    `hazard.check`. The check is made in ``run_multimethod``, where ``to_executorch`` ends planning; whoever calls
    ``run`` in a pipeline of their own calls that, too.
    """

    #: Whether a pass of this class makes a plan of its own once all methods are planned.
    replans = False

    def __init__(self, planner: Any, *, on_hazard: str = "raise", fail_on: str = "error", **options: Any) -> None:
        """Raises ValueError for another ``on_hazard`` than raise and warn."""
        if on_hazard not in ("raise", "warn"):
            raise ValueError(f"on_hazard is raise or warn, not {on_hazard!r}")
        super().__init__(planner, self._check)
        self.__dict__.update(on_hazard=on_hazard, fail_on=fail_on, options=options, report=None)

    def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
        """Plans one method; its errors come through, unless shared storage that was asked for wrongly explains them."""
        name, _ = _current_method(len(self.graphs))
        if name in self.graphs:
            # Planning begins anew: an earlier run did not come to its end.
            self.graphs.clear()
        try:
            return super().run(graph_module, graph_signature)
        except Exception as error:
            faults = tuple(storage_faults(graph_module, name, Origins(), failed=True))
            if not faults:
                raise
            self.graphs.clear()
            self._judge(Program((Method(name, (), (), (), ((),), {}, meaning="graph", obstacles=faults),)), error)
            raise

    def unjudged(self) -> Any:
        """A pass that plans as this one does and lets everything through; this one stays as it is."""
        return self._unjudged_like()

    def _unjudged_like(self, **fresh: Any) -> Any:
        """The same with other attributes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, planner=_copied_pass(self.planner), graphs={}, fail_on="never", **fresh)
        other.__dict__["finished"] = other._check
        return other

    def __call__(self, graph_module: Any) -> Any:
        """Plans and checks one graph without a signature."""
        self.graphs.clear()
        result = self.run(graph_module)
        self.run_multimethod()
        return result

    def _check(self) -> None:
        graphs, _, foreign = self._planned()
        if graphs:
            program = program_from_graphs(graphs)
            methods = (replace(m, doubts=(*m.doubts, *unseen(foreign))) for m in program.methods)
            self._judge(Program(tuple(methods)), None)

    def _planned(self) -> tuple[dict[str, PlannedGraph], list[CheckedPlanning], list[str]]:
        """What this pass has planned, and what others like it have planned for further methods of the program; these
        others, which have nothing left to check; and the methods that passes of another kind have planned.

        ``to_executorch`` takes one pass for each method, too, but hosts may give all methods the same memory.
        """
        caller = _caller()
        passes = getattr(caller.get("config"), "memory_planning_pass", None)
        alike = {}
        for other in passes.values() if isinstance(passes, dict) else ():
            if type(other) is _Collecting:
                other = other.planner
            if isinstance(other, CheckedPlanning) and other is not self:
                alike[id(other)] = other
        if not self.replans and any(other.replans for other in alike.values()):
            return {}, [], []  # that one plans for this one, too
        graphs: dict[str, PlannedGraph] = {}
        for one in (self, *alike.values()):
            graphs.update(one.graphs)
            one.graphs.clear()
        names = getattr(caller.get("self"), "methods", ())
        return graphs, list(alike.values()), [n for n in names if n not in graphs] if graphs else []

    def _judge(self, program: Program, cause: Exception | None) -> None:
        from hazard.api import check

        self._deliver(check(program, name="planned graphs", **self.options), cause)

    def _deliver(self, report: Report, cause: Exception | None) -> None:
        from hazard.api import HazardError

        self.__dict__["report"] = report
        if report.passed(self.fail_on):
            return
        if self.on_hazard == "warn":
            _LOG.warning("%s", report)
            return
        raise HazardError(report) from cause


def unseen(methods: Iterable[str]) -> tuple[str, ...]:
    """Why nothing can be said of a program some methods of which another pass has planned."""
    return tuple(
        f"method {name} is planned by another pass, and its memory may be the same: use this pass for it, too"
        for name in methods
    )


# --- whatever holds a graph -------------------------------------------------------------------------------------------


def _is(thing: Any, name: str) -> bool:
    """Whether a thing is of torch's or executorch's class of that name, without importing either to ask."""
    return any(
        c.__name__ == name and c.__module__.partition(".")[0] in ("torch", "executorch") for c in type(thing).__mro__
    )


def holds_graphs(thing: Any) -> bool:
    """Whether `program_of` can make a program of a thing."""
    parts = thing if isinstance(thing, tuple) and len(thing) == 2 else (thing,)
    names = ("ExecutorchProgramManager", "EdgeProgramManager", "ExportedProgram", "Module")
    return any(_is(parts[0], name) for name in names)


def program_of(thing: Any, *, config: Any = None, signature: Any = None) -> Program:
    """The program of whatever ExecuTorch's users have at hand.

    * an ``ExecutorchProgramManager``: its graphs, compared with what was emitted from them; where these
      differ, the methods' doubts say so;
    * an ``EdgeProgramManager``, which is planned in a copy with ``config`` (an ``ExecutorchBackendConfig``); also as a
      pair with its configuration;
    * a planned ``ExportedProgram`` or ``GraphModule``; ``signature`` as in
      `hazard.frontends.fx.program_from_graphs`;
    * a module with its example inputs, as a pair: exported and planned with defaults.

    Raises InputError for anything else, and for graphs that cannot be modelled; errors of ExecuTorch come through.
    """
    if isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "EdgeProgramManager"):
        thing, config = thing
    if _is(thing, "ExecutorchProgramManager"):
        signatures = signature if signature is None or isinstance(signature, Mapping) else {"forward": signature}
        return _compared(from_manager(thing, signatures), thing.executorch_program)
    if _is(thing, "EdgeProgramManager"):
        return plan_edge(thing, config)
    if _is(thing, "ExportedProgram") or _is(thing, "GraphModule"):
        return program_from_graphs(thing, signature)
    if isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "Module") and isinstance(thing[1], tuple):
        return plan_edge(_exported(*thing), config)
    if _is(thing, "Module"):
        raise InputError(f"a {type(thing).__name__} without example inputs: give (module, (inputs, ...))")
    raise InputError(f"a {type(thing).__name__} holds no program")


@dataclass(frozen=True, slots=True)
class Lowered:
    """``data`` is a program file and ``program`` what its graphs say.

    ``model`` is what they were made of, as `hazard.confirm.reference.reference_of` takes it: a module with its example
    inputs, the programs of an ``EdgeProgramManager`` or of an etrecord; None where only the lowered program is left.
    """

    data: bytes
    program: Program
    model: Any = None


def lowered(thing: Any, *, config: Any = None, signature: Any = None) -> Lowered:
    """What runs of what `program_of` takes. Raises InputError as that does; errors of ExecuTorch come through."""
    model: Any = None
    if isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "EdgeProgramManager"):
        thing, config = thing
    if isinstance(thing, tuple) and len(thing) == 2 and _is(thing[0], "Module") and isinstance(thing[1], tuple):
        model, thing = thing, _exported(*thing)
    if _is(thing, "EdgeProgramManager"):
        from executorch.exir import ExecutorchBackendConfig

        model = model or {name: thing.exported_program(name) for name in thing.methods}
        signature = edge_signatures(thing)
        config = _copied_config(config if config is not None else ExecutorchBackendConfig())
        thing = _copied(thing).to_executorch(config)
    if _is(thing, "ExecutorchProgramManager"):
        model = model or getattr(getattr(thing, "_etrecord", None), "edge_dialect_program", None)
        return Lowered(bytes(thing.buffer), program_of(thing, signature=signature), model)
    if _is(thing, "ExportedProgram"):
        from executorch.exir.program._program import ExecutorchProgramManager

        graphs = program_of(thing, signature=signature)
        # Emitting takes results off the graph's output.
        return Lowered(bytes(ExecutorchProgramManager({"forward": _copied_export(thing)}).buffer), graphs, model)
    program_of(thing, config=config, signature=signature)
    raise InputError(f"a {type(thing).__name__} cannot be made a program file that runs")


def _exported(module: Any, inputs: tuple[Any, ...]) -> Any:
    import torch
    from executorch.exir import to_edge

    return to_edge(torch.export.export(module.eval(), inputs))


def _compared(graphs: Program, emitted: Any) -> Program:
    found = list(differences(graphs, emitted))
    if not found:
        # The file shows that the graphs were understood, whatever release wrote it.
        settled = set(release_doubts())
        kept = (replace(m, doubts=tuple(d for d in m.doubts if d not in settled)) for m in graphs.methods)
        return Program(tuple(kept)) if settled else graphs
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    doubt = f"the emitted program is not what the graphs say: {found[0]}{more}"
    return Program(tuple(replace(m, doubts=(*m.doubts, doubt)) for m in graphs.methods))


def make_target(target: str) -> Any:
    """What a factory makes that is named ``package.module:factory`` or ``file.py:factory``.

    Raises InputError when there is no such factory, or when it fails: then with the error, its place and the traceback
    of the user's code below.
    """
    place, _, name = target.rpartition(":")
    factory = _called(target, lambda: _import(place))
    for part in name.split("."):
        if not hasattr(factory, part):
            raise InputError(f"{target}: there is no `{part}` in {place}{_hint(factory, part)}")
        factory = getattr(factory, part)
    if not callable(factory) or _is(factory, "Module"):
        return factory
    return _called(target, factory)


def load_target(target: str) -> Any:
    """What the factory of `make_target` makes, for `hazard.check`. Raises InputError as that does."""
    made = make_target(target)
    if isinstance(made, str | bytes | os.PathLike | Program):
        return made
    return _of_made(program_of, made, target)


def lower_target(target: str) -> Any:
    """What the factory of `make_target` makes, for `hazard.confirm`. Raises InputError as that does."""
    made = make_target(target)
    if isinstance(made, str | bytes | os.PathLike):
        return made
    return _of_made(lowered, made, target)


def _of_made(use: Callable[[Any], Any], made: Any, target: str) -> Any:
    if not holds_graphs(made):
        what = "None" if made is None else f"something of type {type(made).__name__}"
        raise InputError(f"{target}: it returned {what}, which holds no program")
    return _called(target, lambda: use(made))


def _called(target: str, function: Callable[[], Any]) -> Any:
    """What a function of the user returns. Raises InputError for whatever it raises."""
    try:
        return function()
    except InputError as error:
        raise InputError(f"{target}: {error}") from None
    except SystemExit as error:
        raise InputError(f"{target}: it ended Python, with the exit code {error.code}") from None
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
        told = "".join((*traceback.format_list(frames), *traceback.format_exception_only(error)))
        raise InputError(f"{target}: {_own_fault(error)}\n{told.rstrip()}") from error


def _import(place: str) -> Any:
    """The module, with its neighbours importable from now on, as for a script: a factory may import some of them."""
    folder = os.path.dirname(os.path.abspath(place)) if place.endswith(".py") else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{place}.".startswith(f"{error.name}."):
                raise InputError(f"there is no module `{error.name}`") from None
            raise
    from importlib.util import module_from_spec, spec_from_file_location

    if not os.path.isfile(place):
        raise InputError("there is no such file")
    name = os.path.basename(place)[: -len(".py")]
    spec = spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Pickling and dataclasses look a module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _hint(module: Any, wanted: str) -> str:
    """Names of functions and classes of a module that may have been meant."""
    import difflib

    names = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
    if near := difflib.get_close_matches(wanted, names, 1):
        return f"; did you mean `{near[0]}`?"
    return f"; there is {', '.join(sorted(names)[:8])}" if names else ""


def _own_fault(error: Exception) -> str:
    """An error of the user's code in one line: the first line of what it says, and where in that code it came from."""
    import sysconfig

    from hazard.report.places import relative

    if isinstance(error, SyntaxError) and error.filename:
        return f"{relative(error.filename)}:{error.lineno}: {error.msg}"
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    paths = sysconfig.get_paths()
    libraries = (__file__, "<", *(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")))
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(libraries)]
    where = f" ({relative(own[-1].filename)}:{own[-1].lineno})" if own else ""
    return f"it raised {type(error).__name__}{f': {said[:300]}' if said else ''}{where}"


__all__ = [
    "CheckedPlanning",
    "Lowered",
    "edge_signatures",
    "from_manager",
    "holds_graphs",
    "load_target",
    "lower_target",
    "lowered",
    "make_target",
    "plan_edge",
    "program_of",
    "replanning",
]
