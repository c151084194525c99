"""Records one model: warm-up, instrumented build, and a forward pass in evaluation and in training mode."""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from ms_port.capture.building import ConstructorArguments, build, materialized, unwrapped, written_functions
from ms_port.capture.chosen_forward import chosen_forwards
from ms_port.capture.deferred import DeferredFills, deferred_fills
from ms_port.capture.errors import CaptureError
from ms_port.capture.forward import FakeModel, preserved, run_forward, set_training, unseen_backward
from ms_port.capture.functions import functions_anywhere, functions_in
from ms_port.capture.inputs import Inputs, bind, tensors_in
from ms_port.capture.instrument import CopyMaker, nested_ids, swapped
from ms_port.capture.random_state import RandomState
from ms_port.capture.rebuilt import constructor_arguments, take_state
from ms_port.capture.recorder import Recorder
from ms_port.capture.recording import Activation, Mode, ModuleArguments, Recording
from ms_port.capture.replay import Replay
from ms_port.capture.torch_mode import TorchTrace
from ms_port.capture.user_code import COMPREHENSIONS, Executed, UserCode, run_observed
from ms_port.collection import collection_paused

_ATTEMPTS = 3
"""How often the forward passes are recorded at most: again where they meet code that was not known before."""
_TURNS = 8
"""How many branches on a tensor's truth are made to go the other way."""
_MODES: tuple[tuple[Mode, bool], ...] = (("eval", False), ("train", True))


def record(
    target: Callable[..., Any] | nn.Module,
    inputs: Inputs,
    *,
    arguments: Mapping[str, Any] | None = None,
    opaque: Sequence[str] = (),
) -> Recording:
    """Build the model (where ``target`` is a class or factory, with ``arguments``) and record what its source did.

    ``opaque`` names packages whose functions are not instrumented, besides torch and the standard library. torch, the
    user's functions, the model's attributes and the random generators are left as one call of the factory leaves them.
    An instance whose class builds the same again from what it kept is recorded as built so, with the instance's values.
    Raises CaptureError for faults of the factory, of the inputs, or of ``forward``.
    """
    with collection_paused():
        return _Session(target, inputs, dict(arguments or {}), UserCode(opaque)).run()


@contextmanager
def _room() -> Iterator[None]:
    """Surroundings for recording: no garbage collection (so much stays alive that it would be half of the time), deeper
    recursion (every instrumented call takes two frames), and compiled functions run as they are written."""
    was_enabled, limit = gc.isenabled(), sys.getrecursionlimit()
    # Only a program that has loaded dynamo can hold compiled functions; loading it takes a second.
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    with eager:
        try:
            gc.disable()
            sys.setrecursionlimit(2 * limit)
            yield
        finally:
            sys.setrecursionlimit(limit)
            if was_enabled:
                gc.enable()


class _Session:
    """The steps of one recording."""

    def __init__(self, target: Any, inputs: Inputs, arguments: dict[str, Any], user: UserCode) -> None:
        self.factory = None if isinstance(target, nn.Module) else target
        self.instance = unwrapped(target) if isinstance(target, nn.Module) else None
        if self.instance is not None and (kept := constructor_arguments(self.instance)) is not None:
            self.factory, arguments = type(self.instance), kept
        if self.factory is not None and not callable(self.factory):
            raise CaptureError(
                f"the target is of type {type(target).__name__}, which can't be called",
                advice="name a class, a factory or an instance of torch.nn.Module",
            )
        self.inputs = inputs
        self.arguments = arguments
        self.user = user
        self.recorder = Recorder()
        self.executed = Executed()
        self.maker = CopyMaker(self.recorder.announce)
        self.executed.ignored = self.maker.copies
        self.failed: dict[Mode, CaptureError] = {}
        self.tried: set[int] = set()
        """ids of the codes that were instrumented, or could not be."""
        self.inputs_differ = False
        """Whether inputs with gradients were tried, to see the ``backward`` of an ``autograd.Function``."""
        self.clear_caches: list[Callable[[], None]] = []
        self.timings: dict[str, float] = {}

    def run(self) -> Recording:
        """All steps; the random generators end as after the recorded build, and where they were for an instance."""
        before = random_state = RandomState.now()
        try:
            with ExitStack() as stack:
                stack.enter_context(_room())
                stack.enter_context(written_functions(self.instance if self.factory is None else self.factory))
                stack.callback(self.empty_caches)
                with self.timed("warm_up"):
                    warm, fills = self.warm_up()
                random_state.restore()
                stack.callback(self.recorder.restore_made)
                with self.timed("instrument"):
                    self.instrument(stack)
                with self.timed("build"):
                    model, module_arguments, made = self.build(warm.model, fills, random_state)
                random_state = RandomState.now()
                with self.timed("forward"):
                    trace, fakes, outputs = self.forwards(model, warm, stack)
        finally:
            (random_state if self.instance is None else before).restore()
        return self.recording(model, trace, fakes, outputs, module_arguments, made)

    # ---- steps

    def warm_up(self) -> tuple[FakeModel, DeferredFills]:
        """Build and run (in training mode) once: lazy imports are over then, and most code that runs is known."""
        with deferred_fills() as fills:
            model = run_observed(self.new_model, self.user, self.executed)
        bind(model, self.inputs)
        fakes = FakeModel(model, self.inputs)
        trace = TorchTrace(Recorder(), self.user, Replay(fakes.mode, fakes.real_of, fills.make_up), fakes.names)
        with preserved(model):
            for train in (True, False):
                set_training(model, train)
                try:
                    with fakes.in_place():
                        run_observed(functools.partial(self.forward, fakes, trace), self.user, self.executed)
                    break
                except CaptureError:
                    if not train:
                        raise
        return fakes, fills

    def instrument(self, stack: ExitStack) -> None:
        """Give the functions that hold the executed codes their instrumented copies, until the stack is unwound."""
        wanted = {
            key: code
            for key, code in self.executed.codes.items()
            if code.co_name not in COMPREHENSIONS and key not in self.tried and self.maker.supports(code)
        }
        found, clear = functions_in(self.executed.namespaces.values(), wanted)
        self.clear_caches.extend(clear)
        copies = self.copies_for(found, wanted)
        rest = {key: code for key, code in wanted.items() if key not in found}
        if not rest.keys() <= self.maker.covered:
            copies += self.copies_for(functions_anywhere(rest), wanted)
        self.tried.update(wanted)
        stack.enter_context(swapped(copies))
        self.empty_caches()

    def build(
        self, warm: nn.Module, fills: DeferredFills, before: RandomState
    ) -> tuple[nn.Module, dict[int, ModuleArguments], list[nn.Module]]:
        """The model that is recorded, built by instrumented code."""
        constructors = ConstructorArguments(self.recorder)
        try:
            with constructors.watched():
                model = self.new_model()
        except CaptureError as error:
            # The factory works only once: the warm-up's model is the one, and how it was built stays unknown.
            self.recorder.forget({"init"})
            self.maker.skipped[f"build not recorded, its second call failed: {error.message}"] += 1
            before.restore()
            fills.make_up()
            return warm, {}, []
        return model, constructors.found, constructors.modules

    def forwards(
        self, model: nn.Module, warm: FakeModel, stack: ExitStack
    ) -> tuple[TorchTrace, FakeModel, dict[Mode, Any]]:
        """One recorded pass in each mode; done again where code runs that the warm-up did not meet."""
        fakes = warm if warm.model is model else FakeModel(model, self.inputs, warm)
        for _ in range(_ATTEMPTS):
            self.recorder.forget({mode for mode, _ in _MODES})
            known = len(self.executed.codes)
            trace = TorchTrace(self.recorder, self.user, Replay(fakes.mode, fakes.real_of), fakes.names)
            with preserved(model):
                outputs = self.passes(fakes, trace)
                self.turn_branches(fakes, trace, outputs)
            if len(self.executed.codes) == known:
                break
            covered = len(self.maker.covered)
            self.instrument(stack)
            if len(self.maker.covered) == covered:
                break
        if not outputs:
            raise self.failed["eval"]
        return trace, fakes, outputs

    def passes(self, fakes: FakeModel, trace: TorchTrace) -> dict[Mode, Any]:
        """The output by mode; a mode that fails is noted in ``failed`` and leaves nothing else."""
        outputs: dict[Mode, Any] = {}
        self.failed = {}
        for mode, train in _MODES:
            with self.recorder.paused():
                set_training(fakes.model, train)
            self.recorder.mode = mode
            before = len(trace.calls)
            try:
                outputs[mode] = self.one_pass(fakes, trace)
                if train and not self.inputs_differ and unseen_backward(self.recorder.functions):
                    outputs[mode] = self.differentiated(fakes, trace, before)
            except CaptureError as error:
                self.failed[mode] = error
                self.recorder.forget({mode})
                trace.rewind(before)
        return outputs

    def one_pass(self, fakes: FakeModel, trace: TorchTrace) -> Any:
        """One forward pass from the model as it was built."""
        with preserved(fakes.model), fakes.in_place():
            return run_observed(functools.partial(self.forward, fakes, trace), self.user, self.executed)

    def differentiated(self, fakes: FakeModel, trace: TorchTrace, before: int) -> Any:
        """The training pass again, its inputs with gradients: an ``autograd.Function`` may stand before all parameters.

        A model that refuses such inputs (it writes into them) runs as it did.
        """
        self.inputs_differ = True
        floats = [t for t in tensors_in((fakes.inputs.args, fakes.inputs.kwargs)) if t.is_floating_point()]
        for wanted in (True, False):
            self.recorder.forget({"train"})
            trace.rewind(before)
            for tensor in floats:
                tensor.requires_grad_(wanted)
            try:
                return self.one_pass(fakes, trace)
            except CaptureError:
                if not wanted:
                    raise
        raise AssertionError("not reached")

    def turn_branches(self, fakes: FakeModel, trace: TorchTrace, outputs: Mapping[Mode, Any]) -> None:
        """Run again for each branch on a tensor's truth that went one way only, and let it go the other way once."""
        turns: dict[tuple[str, int], set[tuple[Mode, bool]]] = {}
        for read in trace.reads:
            if isinstance(read.value, bool) and read.file:
                turns.setdefault((read.file, read.line), set()).add((read.call.mode, read.value))
        for place, seen in list(turns.items())[:_TURNS]:
            if len({value for _, value in seen}) > 1:
                continue
            mode: Mode = "train" if ("train" in outputs and "train" in {m for m, _ in seen}) else "eval"
            if mode not in outputs:
                continue
            with self.recorder.paused():
                set_training(fakes.model, mode == "train")
            self.recorder.mode = mode
            calls, mark = len(trace.calls), self.recorder.marked()
            trace.turned, reads = place, len(trace.reads)
            try:
                with preserved(fakes.model), fakes.in_place():
                    run_observed(functools.partial(self.forward, fakes, trace), self.user, self.executed)
            except CaptureError:  # the other way ends in an error: it is none that the port must have
                trace.rewind(calls)
                self.recorder.rewind(mark)
            trace.turned = None
            del trace.reads[reads:]

    # ---- parts of steps

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the seconds of a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = time.perf_counter() - start

    def copies_for(
        self, found: Mapping[int, list[FunctionType]], codes: Mapping[int, CodeType]
    ) -> list[tuple[FunctionType, CodeType]]:
        """Functions with their instrumented code; a function around others comes first, it covers them."""
        inner = nested_ids(codes[key] for key in found)
        copies: list[tuple[FunctionType, CodeType]] = []
        for key in sorted(found, key=inner.__contains__):
            copy = self.maker.copy(codes[key], found[key][0])
            if copy is not None:
                copies.extend((holder, copy) for holder in found[key])
        return copies

    def empty_caches(self) -> None:
        """Caches of executed functions: they would hide calls from the recording, and keep fake tensors."""
        for clear in self.clear_caches:
            clear()

    def new_model(self) -> nn.Module:
        """A model from the factory, or the instance that was given, or its like."""
        if self.factory is None:
            assert self.instance is not None
            return materialized(self.instance, self.inputs, built=False)
        model = materialized(unwrapped(build(self.factory, self.arguments, self.user)), self.inputs, built=True)
        if self.instance is not None:
            take_state(model, self.instance)
        return model

    def forward(self, fakes: FakeModel, trace: TorchTrace) -> Any:
        """One forward pass. Raises CaptureError with the user's place where it fails."""
        try:
            return run_forward(fakes, trace)
        except Exception as error:
            file, line = self.user.raised_at(error)
            name = type(fakes.model).__name__
            advice = "check that the model runs on these inputs in torch"
            raise CaptureError(f"{name} raised {type(error).__name__}: {error}", file, line, advice) from error

    # ---- the result

    def recording(
        self,
        model: nn.Module,
        trace: TorchTrace,
        fakes: FakeModel,
        outputs: dict[Mode, Any],
        module_arguments: dict[int, ModuleArguments],
        made: list[nn.Module],
    ) -> Recording:
        """All that was seen, in one object."""
        covered = self.maker.covered
        scripted = sum(isinstance(module, torch.jit.ScriptModule) for module in model.modules())
        skipped = dict(self.maker.skipped) | ({"ScriptModule has no Python source": scripted} if scripted else {})
        return Recording(
            model=model,
            factory=self.factory,
            factory_arguments=self.arguments,
            functions=self.recorder.functions,
            roots={"init": self.init_root(), "eval": self.root(model, "eval"), "train": self.root(model, "train")},
            inputs=bind(model, self.inputs),
            outputs=outputs,
            torch_calls=trace.calls,
            reads=trace.reads,
            truths=trace.truths,
            fake_of=fakes.names,
            module_arguments=module_arguments,
            skipped=skipped,
            uninstrumented={
                code
                for key, code in self.executed.codes.items()
                if key not in covered and code.co_name not in COMPREHENSIONS
            },
            timings=self.timings,
            failed=self.failed,
            fake_inputs=bind(model, fakes.inputs),
            alive=(fakes, made, self.executed),
        )

    def init_root(self) -> Activation | None:
        """The first function that the build entered: the factory, or the root's ``__init__``."""
        return next((root for root in self.recorder.roots if root.mode == "init"), None)

    def root(self, model: nn.Module, mode: Mode) -> Activation | None:
        """The first activation called ``forward`` whose self is the model: wrappers have names of their own."""
        roots = [root for root in self.recorder.roots if root.mode == mode]
        chosen = [f.__name__ for f in chosen_forwards([model]).values()]
        pending = roots[::-1]
        while pending:
            activation = pending.pop()
            if activation.self is model and activation.function.name in ("forward", *chosen):
                return activation
            pending.extend(reversed(activation.children))
        # A forward under another name or set on the instance; a torch.nn.Sequential has none of its own.
        own = getattr(model.forward, "__func__", model.forward)
        is_users = not isinstance(own, FunctionType) or self.user.owns(own.__code__)
        return roots[0] if roots and is_users else None
