"""The program: cells and functions as statement trees, with what the trace knows of each expression beside them.

Statements and expressions are the standard library's own ``ast`` nodes: they print, parse and transform without code
of ours. Every node that came from source carries an integer ``nid``; ``Facts`` says what was seen there. Passes never
change a node that they were given: they build new ones (``ms_port.ir.tree.copy``) and a new ``FunctionDef``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from ms_port.ir.flags import Flag, Place
from ms_port.ir.values import Literal, Value

SourceLoc = Place
"""A place in the person's source."""


@dataclass(frozen=True, slots=True)
class CallFact:
    """One evaluation of a call: what was called, with what, and what came back."""

    callee: Value
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]
    result: Value
    mode: str
    entered: str | None = None
    """Key of the user function that ran for it, decorators' wrappers skipped; None for torch and builtins."""
    opaque: bool = False
    """A user function was called, but what ran inside can't be told from source."""
    torch_calls: range = range(0)
    """Indices into ``Program.ledger`` of the torch calls made inside."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen at the nodes of one function, over all its activations."""

    activations: int
    ran: Mapping[int, frozenset[str]]
    """nid of a statement -> modes in which it began."""
    values: Mapping[int, tuple[Value, ...]]
    calls: Mapping[int, tuple[CallFact, ...]]
    parameters: Mapping[str, tuple[Value, ...]]
    """On entry, one for each activation."""
    closure: Mapping[str, tuple[Value, ...]]
    effects: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """In a constructor: nid of a statement -> names that it added to or changed in the module."""
    times: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """nid of a statement -> the number of torch calls before it, each time that it began."""
    truths: Mapping[int, tuple[bool, ...]] = field(default_factory=dict)
    """nid of an expression whose tensor Python asked for its truth -> the answers, that of the example first."""
    statics: Mapping[int, Value] = field(default_factory=dict)
    """nid of a Name or Attribute that never ran -> what it resolves to by name alone."""


EMPTY_FACTS = Facts(0, {}, {}, {}, {}, {})
"""Of functions that a pass made."""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDef:
    """A function, method or property getter as a statement tree."""

    key: str
    """``module:qualname``; unique in the program."""
    name: str
    node: ast.FunctionDef
    """Name, parameters, annotations and decorators as they will be written."""
    body: tuple[ast.stmt, ...]
    facts: Facts
    loc: SourceLoc
    owner: str | None = None
    """Class in whose body it is defined."""
    kind: str = "function"
    """``function``, ``method``, ``static``, ``class``, ``property``, ``expanded`` (by torch: in functions.py)."""
    comments: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Line in ``loc.file`` -> the comment lines directly above it."""
    beside: Mapping[int, str] = field(default_factory=dict)
    """Line of a statement in ``loc.file`` -> the comment behind it."""
    above: tuple[str, ...] = ()
    """The comment lines directly above the definition."""
    during_init: bool = False
    """Ran only while the model was built: ordinary Python, not graph code."""
    docstring: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CellDef:
    """One source class, or one of the torch layers written out."""

    key: str
    """``module.qualname`` of the class."""
    name: str
    bases: tuple[str, ...]
    """Keys of the bases: a user class, ``torch.nn.Module``, ``torch.nn.Sequential`` ..."""
    methods: tuple[FunctionDef, ...]
    attributes: tuple[ast.stmt, ...]
    """Class-level assignments of literals that something reads."""
    docstring: str | None
    loc: SourceLoc
    instances: tuple[str, ...]
    """Dotted names of its instances in the model."""
    class_modules: tuple[str, ...] = ()
    """Class-level names that hold a module."""
    comments: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Line of an attribute -> the comment lines directly above it."""
    beside: Mapping[int, str] = field(default_factory=dict)
    """Line of an attribute -> the comment behind it."""
    above: tuple[str, ...] = ()
    """The comment lines directly above the class."""


@dataclass(frozen=True, slots=True)
class ModuleInstance:
    """One module of the model's tree."""

    path: str
    cls: str
    is_torch: bool
    attributes: tuple[tuple[str, Value], ...] = ()
    """Literals: of a torch layer by its constructor's parameters, of a user class all that ``__dict__`` holds."""
    arguments: tuple[tuple[str, Value], ...] = ()
    """Constructor arguments as seen."""
    children: tuple[tuple[str, str], ...] = ()
    """(attribute, path) of its children; shared modules appear under their first path."""


@dataclass(frozen=True, slots=True)
class ParameterInstance:
    """A parameter or buffer of the model."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    """``parameter``, ``buffer``, ``buffer (not persistent)``, ``attribute`` (a tensor that torch does not register)."""
    trainable: bool
    tied_to: str | None = None
    """Path of the first name of the same tensor."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One outermost torch call of the trace."""

    index: int
    api: str
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]
    result: Value
    mode: str
    loc: SourceLoc
    function: str | None = None
    """Key of the user function in which it was made."""
    writes: frozenset[int] = frozenset()
    """Storages that the call wrote to."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One tensor argument of the root's forward (containers are flattened by dotted name)."""

    name: str
    value: Value
    keyword: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """A statement or argument left out of the port, with the reason; listed in the report."""

    function: str
    loc: SourceLoc
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An option (flag, word, None) on which a condition was decided that the port no longer has."""

    kind: str
    """``parameter`` of a function, ``attribute`` of a class, ``field`` of a configuration class."""
    owner: str
    """Key of the function or class."""
    name: str
    value: Literal


@dataclass(frozen=True, slots=True)
class ConfigClass:
    """A configuration class of the source: its summary and its fields with their literal defaults."""

    docstring: str | None
    fields: tuple[tuple[str, Value | None], ...]
    stores: bool = False
    """Whether its constructor does nothing but to store its arguments (a dataclass)."""
    hints: tuple[tuple[str, str], ...] = ()
    """Types of the fields, as text, as far as they are of Python's own."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Other names by which fields are read, and the fields' own (transformers' ``attribute_map``)."""
    derived: tuple[tuple[str, str], ...] = ()
    """Fields that the class computes where they are None, as expressions of ``self``'s other fields."""


@dataclass(frozen=True, slots=True)
class Stub:
    """An op that has no lowering: a function in ``fixes.py`` that a person fills in."""

    name: str
    api: str
    parameters: tuple[str, ...]
    loc: SourceLoc
    source: str
    reason: str
    is_cell: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole model, before or after a pass."""

    name: str
    root: str
    """Key of the root's class."""
    cells: Mapping[str, CellDef]
    functions: Mapping[str, FunctionDef]
    """Free functions by key."""
    modules: Mapping[str, ModuleInstance]
    parameters: Mapping[str, ParameterInstance]
    inputs: tuple[InputSpec, ...]
    outputs: Mapping[str, Value]
    """Mode -> what the root returned."""
    ledger: tuple[LedgerEntry, ...]
    tensor_attributes: Mapping[str, ParameterInstance] = field(default_factory=dict)
    """Tensors that the model's own modules hold and torch does not register (``self.scale = torch.rand(4)``)."""
    factory: FunctionDef | None = None
    """The factory where it is a user function; None where the root's class is called."""
    inner_factories: tuple[str, ...] = ()
    """Keys of the functions that ran once inside the factory and gave the model, the outermost first."""
    factory_arguments: tuple[tuple[str, Value], ...] = ()
    constants: Mapping[str, ast.stmt] = field(default_factory=dict)
    """Module-level definitions that the code reads, by name."""
    configs: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Class of a config object -> the fields read."""
    config_classes: Mapping[str, ConfigClass] = field(default_factory=dict)
    docstring: str | None = None
    flags: tuple[Flag, ...] = ()
    drops: tuple[Drop, ...] = ()
    decided: tuple[Choice, ...] = ()
    """Options on which conditions were decided."""
    claimed: frozenset[int] = frozenset()
    """Ledger indices that stand in flat functions."""
    filtered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Key of a method -> fields of its output that a decorator takes out again, and the port does not return."""
    loaded_buffers: frozenset[str] = frozenset()
    """Buffers and attributes that torch does not save and the port does not compute: they come with the weights."""
    layer_bases: Mapping[str, str] = field(default_factory=dict)
    """Class that derives from a layer -> the MindSpore class whose constructor it calls: one layer can have several."""
    stubs: tuple[Stub, ...] = ()
    """Ops that a person has to write, in fixes.py."""
    op_functions: frozenset[str] = frozenset()
    """Names used from op_maps/functions."""
    ignored_inputs: frozenset[str] = frozenset()
    """Parameters of the root that torch itself ignores, whatever their values are."""

    @property
    def root_cell(self) -> CellDef | None:
        """The root's class; None where the root is one of torch's own (a Sequential)."""
        return self.cells.get(self.root)

    @property
    def root_construct(self) -> FunctionDef | None:
        """The root's ``construct`` where its own class defines it."""
        methods = self.root_cell.methods if self.root_cell is not None else ()
        return next((m for m in methods if m.name == "construct"), None)

    def __str__(self) -> str:
        from ms_port.ir.printer import render

        return render(self)
