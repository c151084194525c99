"""Names that ``nn.Cell`` keeps for itself and ``torch.nn.Module`` doesn't: the port writes them with a ``_`` behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ms_port.ir.program import CellDef, FunctionDef, ModuleInstance, Program
from ms_port.ir.tree import copy

CELL_NAMES = frozenset(
    """
    IGNORE_LIST _add_attr _add_init_args _add_mixed_precision_flag _amp_level _auto_prefix _backward_hook
    _backward_pre_hook _bprop_debug _call_custom_bprop _call_post_process _call_pre_process _cell_backward_hook
    _cell_backward_pre_hook _cell_tag _cells _check_construct_args _check_parameter_consistency
    _children_scope_recursive _compile_cache _compile_phase _compiled _complex_call _construct_sig _create_time
    _del_attr _dynamic_shape_inputs _exist_names _exist_objs _forward_hook _forward_hook_always_called
    _forward_hook_with_kwargs _forward_pre_hook _forward_pre_hook_with_kwargs _get_attr_from_cell
    _get_cell_parallel_mode _get_compile_args _get_prims_recursively _has_config_recompute _has_mutable_args_list _id
    _in_strategy _init_check _init_flag _is_check_and_refresh _is_recursion_hook _jit_backward_hook
    _jit_backward_pre_hook _jit_config_dict _jit_forward_hook _jit_forward_pre_hook _jit_graph_name
    _lazy_backward_hook _lazy_backward_pre_hook _lazy_construct_sig _lazy_forward_hook
    _lazy_forward_hook_always_called _lazy_forward_hook_with_kwargs _lazy_forward_pre_hook
    _lazy_forward_pre_hook_with_kwargs _lazy_load_state_dict_post_hooks _lazy_load_state_dict_pre_hooks
    _lazy_non_persistent_buffers_set _lazy_state_dict_hooks _lazy_state_dict_pre_hooks _lazy_user_parameters
    _mp_comm_recompute _no_auto_lazy_inline _out_strategy _parallel_optimizer_comm_recompute
    _parallel_parameter_merge_net_dict _parallel_parameter_name_list _param_prefix _parameter_layout_dict _params
    _params_list _phase _phase_cache _predict _primitives _recompute _recompute_cell _recompute_slice_activation
    _run_construct _run_forward_hook _run_forward_pre_hook _run_grad_construct _saved_tensors_pack_hook
    _saved_tensors_unpack_hook _scope _self_check _set_attr_for_cell _set_attr_for_object
    _set_attr_for_param_or_param_tuple _set_attr_for_parameter_in_list_or_tuple _set_attr_for_params
    _set_jit_graph_name _set_recompute_scope _set_scope _shard_fn _update_local_parameters_name _user_parameters
    add_flags add_flags_recursive arguments_key bprop bprop_debug cast_inputs cell_init_args cell_type cells
    cells_and_names check_names check_names_and_refresh_name cls_name compile_and_run compile_cache compile_phase
    compiled construct create_time enable_backward_hook exist_names exist_objs extend_repr generate_scope get_flags
    get_func_graph_proto get_inputs get_mixed_precision_type get_parameters get_scope get_sub_cell global_cells
    grad_ops_label has_bprop init_parameters_data insert_child_to_cell insert_param_to_cell is_top_cell
    jit_config_dict mixed_precision_type name_cells offload parallel_parameter_merge_net_dict
    parallel_parameter_name_list param_prefix parameter_layout_dict parameters_and_names parameters_broadcast_dict
    parameters_dict phase phase_cache pipeline_segment pipeline_stage recompute register_backward_pre_hook
    register_parameter_forward_hook register_saved_tensors_hooks remove_redundant_parameters requires_grad
    run_construct set_boost set_broadcast_flag set_comm_fusion set_data_parallel set_grad set_inputs set_jit_config
    set_mixed_precision_type set_train shard to_float total_instance_count trainable_params untrainable_params
    update_cell_prefix update_cell_type update_parameters_name
    """.split()
)
"""``dir(nn.Cell()) - dir(torch.nn.Module())`` of MindSpore 2.x, and ``bprop``, which a Cell may define."""

_ALSO_OF_TENSORS = frozenset({"requires_grad"})
_PACKAGES = frozenset("ms nn ops mint np math functions".split())
_NAMING = {"insert_child_to_cell": 0, "insert_param_to_cell": 0, "setattr": 1, "getattr": 1, "hasattr": 1}
"""Callee -> which argument is an attribute's name."""


def renamed_path(program: Program, path: str) -> str:
    """A parameter's or module's dotted name with the names that the port gives its parts."""
    parts = path.split(".")
    for index, part in enumerate(parts):
        if part in CELL_NAMES:
            owner = program.modules.get(".".join(path.split(".")[:index]))
            if owner is not None and owner.cls in program.cells:
                parts[index] = _names(program)[part]
    return ".".join(parts)


def rename_reserved(program: Program) -> Program:
    """Give attributes and methods that would stand in the place of ``nn.Cell``'s own another name."""
    names, methods = _names(program), _methods(program)
    names |= {name: f"{name}_" for name in methods if name not in names}
    if not names:
        return program
    cells = {}
    for key, cell in program.cells.items():
        of_module = _is_module(program, cell)
        change = _Rename(names, methods, of_module)
        renames = of_module and not has_bprop(cell)
        made = [change.function(m, names.get(m.name, m.name) if renames else m.name) for m in cell.methods]
        attributes = tuple(_class_level(s, names) if of_module else s for s in cell.attributes)
        cells[key] = replace(cell, methods=tuple(made), attributes=attributes)
    change = _Rename(names, methods, False)
    functions = {key: change.function(f, f.name) for key, f in program.functions.items()}
    factory = change.function(program.factory, program.factory.name) if program.factory is not None else None
    return replace(program, cells=cells, functions=functions, factory=factory)


def _names(program: Program) -> dict[str, str]:
    """Name in torch -> name in the port, of what the model's own modules hold."""
    held = {name for module in program.modules.values() if module.cls in program.cells for name in _held(module)}
    for path in program.parameters:
        owner, _, name = path.rpartition(".")
        if (module := program.modules.get(owner)) is not None and module.cls in program.cells:
            held.add(name)
    held |= {
        target.id
        for cell in program.cells.values()
        for statement in cell.attributes
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    made = {}
    for name in sorted(held & CELL_NAMES):
        made[name] = f"{name}_"
        while made[name] in held:
            made[name] += "_"
    return made


def _held(module: ModuleInstance) -> Iterator[str]:
    yield from (name for name, _ in module.attributes)
    yield from (name for name, _ in module.children)


def _methods(program: Program) -> frozenset[str]:
    """Methods of the source that have one of the names; ``construct`` is what forward became."""
    modules = [cell for cell in program.cells.values() if _is_module(program, cell) and not has_bprop(cell)]
    found = {m.name for cell in modules for m in cell.methods}
    return frozenset(found & CELL_NAMES - {"construct"})


def has_bprop(cell: CellDef) -> bool:
    """Whether the cell was an ``autograd.Function``: its ``bprop`` is MindSpore's own word."""
    return not cell.instances and any(m.name == "bprop" and m.key.endswith(".backward") for m in cell.methods)


def _is_module(program: Program, cell: CellDef) -> bool:
    """Whether the class is a cell, or a mixin of one."""
    if cell.instances or any(base.startswith("torch.nn.") for base in cell.bases):
        return True
    below = (other for other in program.cells.values() if cell.key in other.bases)
    above = (program.cells[base] for base in cell.bases if base in program.cells)
    return any(_is_module(program, other) for other in below) or any(is_cell(program, other.key) for other in above)


def is_cell(program: Program, cls: str) -> bool:
    """Whether the class derives from a torch module."""
    if cls.startswith("torch.nn."):
        return True
    cell = program.cells.get(cls)
    return cell is not None and any(is_cell(program, base) for base in cell.bases)


def _class_level(statement: ast.stmt, names: Mapping[str, str]) -> ast.stmt:
    new = copy(statement)
    for node in ast.walk(new):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            node.id = names.get(node.id, node.id)
    return new


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str], methods: frozenset[str], of_module: bool) -> None:
        self._names, self._methods, self._of_module = names, methods, of_module

    def function(self, function: FunctionDef, name: str) -> FunctionDef:
        """The function under its name in the port; ``construct`` keeps its own."""
        node = function.node
        if name != function.name and function.name != "construct":
            node = copy(node)
            node.name = name
        else:
            name = function.name
        body = tuple(self.visit(copy(s)) for s in function.body)
        return replace(function, name=name, node=node, body=body)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in self._names and self._is_cells_own(node, func.attr):
            func.value = self.visit(func.value)
            node.args = [self.visit(a) for a in node.args]
            node.keywords = [self.visit(k) for k in node.keywords]
        else:
            self.generic_visit(node)
        callee = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        index = _NAMING.get(callee)
        if index is not None and len(node.args) > index:
            named = node.args[index]
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                named.value = self._names.get(named.value, named.value)
        return node

    def _is_cells_own(self, node: ast.Call, name: str) -> bool:
        """Whether the port calls ``nn.Cell``'s method: ``self.construct(x)``, ``self.cells()``."""
        if name == "construct":
            return True
        if name in ("insert_child_to_cell", "insert_param_to_cell"):
            return len(node.args) == 2 and isinstance(node.args[0], ast.Constant)
        return name not in self._methods and not node.args and not node.keywords

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr not in self._names or getattr(node, "of_configs", None) is not None:
            return node
        base = node.value.id if isinstance(node.value, ast.Name) else ""
        if base == "self":
            rename = self._of_module
        else:
            rename = base not in _PACKAGES and node.attr not in _ALSO_OF_TENSORS
        if rename:
            node.attr = self._names[node.attr]
        return node
