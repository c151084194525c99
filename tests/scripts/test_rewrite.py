"""Small scripts and their MindSpore text: one construct a test."""

from __future__ import annotations

import ast
import random
import re
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from migrating import CORPUS, migrated, torch_imports

from ms_port.script.migrate import migrate, write

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
LINES = {
    "a device is left out": ("x = torch.zeros(3).to(device)", "x = ops.zeros((3,))"),
    "a cast stays": ("x = torch.zeros(3).to(torch.float64)", "x = ops.zeros((3,)).astype(ms.float64)"),
    "size of a dim": ("x = torch.zeros(3)\nn = x.size(0)", "n = x.shape[0]"),
    "to numpy by way of detach and cpu": ("x = torch.zeros(3)\na = x.detach().cpu().numpy()", "a = x.asnumpy()"),
    "names of arguments": ("x = torch.cat([torch.zeros(3), torch.ones(3)], dim=0)", "axis=0"),
    "stride of a pool is written": ("m = nn.MaxPool2d(2)", "stride=2"),
    "momentum of BatchNorm is complemented": ("m = nn.BatchNorm2d(8, momentum=0.03)", "momentum=0.97"),
    "LayerNorm's epsilon": ("m = nn.LayerNorm(8)", "epsilon=1e-05"),
    "exact GELU": ("m = nn.GELU()", "approximate=False"),
    "dropout by keyword": ("m = nn.Dropout(0.1)", "p=0.1"),
    "dropout of a variable": ("p = 0.1\nm = nn.Dropout(p)", "nn.Dropout(p=p)"),
    "unbiased std": ("x = torch.zeros(3)\ns = x.std()", "std"),
    "an in-place method writes": ("x = torch.zeros(3)\nx.mul_(2)", "assign(x, x * 2)"),
    "chained in-place methods": (
        "e = torch.zeros(3)\np = torch.ones(3)\ne.mul_(0.9).add_(p, alpha=0.1)",
        "assign(e, (e * 0.9) + p * 0.1)",
    ),
    "a format of a tensor": ("loss = torch.zeros(1).sum()\nprint(f'{loss:.3f}')", "{float(loss):.3f}"),
    "str.format of a tensor": (
        "loss = torch.zeros(1).sum()\nprint('{:.3f}'.format(loss))",
        "'{:.3f}'.format(float(loss))",
    ),
    "isinstance takes a class": ("ok = isinstance(m, nn.Linear)", "isinstance(m, nn.Dense)"),
    "a trained tensor is a Parameter": ("w = torch.randn(3, requires_grad=True)", "Parameter(ops.randn(3))"),
    "a seed": ("torch.manual_seed(3)", "ms.set_seed(3)"),
    "the seed that numpy has too": ("import numpy as np\nnp.random.seed(3)\ntorch.manual_seed(3)", "ms.set_seed(3)"),
    "another seed than numpy's": (
        "import numpy as np\nnp.random.seed(1)\ntorch.manual_seed(3)",
        "seed_besides_numpy(3)",
    ),
    "a model trains from its start": (
        "net = nn.Sequential(nn.Linear(2, 2))",
        "nn.SequentialCell(nn.Dense(2, 2)).set_train()",
    ),
    "evaluation mode": ("net = nn.Linear(2, 2)\nnet.eval()", "net.set_train(False)"),
    "comparison of types": ("x = torch.zeros(1)\nok = x.dtype == torch.float32", "x.dtype == ms.float32"),
    "an optimizer by its name": (
        "m = nn.Linear(2, 2)\no = getattr(torch.optim, name)(m.parameters(), lr=0.1)",
        "getattr(OPTIMIZERS, name)(all_parameters(m), lr=0.1)",
    ),
    "a schedule by its name": ("s = torch.optim.lr_scheduler.__dict__[name](o)", "vars(SCHEDULERS)[name](o)"),
    "Variable as a function": (
        "from torch.autograd import Variable\na, b = map(Variable, (torch.ones(1), torch.ones(2)))",
        "map(Tensor, (",
    ),
    "a function that writes": ("x = torch.zeros(3)\ntorch.clamp_(x, 0, 1)", "assign(x, x.clamp(0, 1))"),
    "a function that writes, in a cell": (
        "class N(nn.Module):\n    def forward(self, x):\n        y = torch.clamp_(x, 0, 1) + 1\n        return y",
        "y = (x := x.clamp(0, 1)) + 1",
    ),
    "a state that may be torch's": (
        "m = nn.Linear(2, 2)\nm.load_state_dict(torch.load('a.pt'), strict=False)",
        "load_state(m, load('a.pt'), strict=False)",
    ),
    "operands in a list": ("x = torch.ones(2, 2)\ny = torch.einsum('ij,jk->ik', [x, x])", "einsum('ij,jk->ik', x, x)"),
    "steps of a slice": ("x = torch.ones(2, 4)\ny = x[::2, 1:]", "strided(x, np.s_[::2, 1:])"),
    "no gradient, as a value": ("context = torch.no_grad", "context = nullcontext"),
    "a type under a name of the script": (
        "T = torch.FloatTensor\nx = torch.ones(2)\ny = x.type(T)",
        "y = x.astype(ms.float32)",
    ),
    "a forward hook": ("m = nn.Linear(2, 2)\nh = m.register_forward_hook(print)", "h = m.register_forward_hook(print)"),
    "a class name that is compared": (
        "def init(m):\n    name = m.__class__.__name__\n    if name in ('Conv2d', 'Linear') or name.find('Linear') >= 0:\n        pass",
        "if name in ('Conv2d', 'Dense') or name.find('Dense') >= 0:",
    ),
    "a word that is no class name": (
        "def show(m):\n    print('Linear', m.__class__.__name__)",
        "print('Linear', m.__class__.__name__)",
    ),
    "a sparse tensor stays dense": (
        "a = torch.eye(3).to_sparse()\nb = torch.sparse.mm(a, torch.ones(3, 3)).to_dense()",
        "b = ops.mm(a, ops.ones((3, 3)))",
    ),
    "a class by the file that defines it": (
        "from torch.nn.modules.pixelshuffle import PixelShuffle\nm = PixelShuffle(2)",
        "nn.PixelShuffle(2)",
    ),
    "a convolution's own constructor": (
        "class C(nn.Conv2d):\n    def __init__(self, i, o):\n        super().__init__(i, o, 3)",
        "super().__init__(i, o, 3, pad_mode='valid', has_bias=True)",
    ),
    "a layer's constructor by its class": (
        "class D(nn.Dropout):\n    def __init__(self):\n        nn.Dropout.__init__(self, 0.25)",
        "nn.Dropout.__init__(self, p=0.25)",
    ),
    "an instance of what is derived from a layer": (
        "class C(nn.Conv1d):\n    def forward(self, x):\n        return super().forward(x)\nclass C2(C):\n    pass\nc = C2(2, 3, 1)",
        "c = C2(2, 3, 1, pad_mode='valid', has_bias=True).set_train()",
    ),
    "a list of parameters": (
        "p = nn.ParameterList([nn.Parameter(torch.ones(2))])\ny = p[0] * 2",
        "p = ListOfParameters([Parameter(ops.ones((2,)), requires_grad=True)])",
    ),
    "a layer put into a model that is not known": (
        "def swap(m, name):\n    setattr(m, name, nn.Linear(2, 2))\ns = nn.Sequential",
        "import sequential_as_torch",
    ),
    "a setting of what is derived from a layer": (
        "class C(nn.Conv2d):\n    def forward(self, x):\n        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)",
        "groups=self.group)",
    ),
    "a Sequential that grows": ("m = nn.Sequential()\nm.add_module('a', nn.ReLU())", "import sequential_as_torch"),
    "an attribute of a Sequential": (
        "class B(nn.Sequential):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(2, 2)",
        "import sequential_as_torch",
    ),
    "a layer set by name in a Sequential": (
        "m = nn.Sequential()\nsetattr(m, 'a', nn.ReLU())",
        "import sequential_as_torch",
    ),
    "a buffer that is bound anew": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('n', torch.zeros(1), False)\n"
        "    def forward(self, x):\n        self.n += 1\n        return x",
        "self.register_buffer('n', self.n + 1, persistent=False)",
    ),
    "an in-place method of what may be a number": (
        "def f(g, k):\n    u = g * (1 - k)\n    u.sign_()",
        "assign(u, u.sign())",
    ),
    "a function as a value, with torch's default": (
        "table = {'huber': F.smooth_l1_loss}",
        "{'huber': lambda input, target: ops.smooth_l1_loss(input, target, reduction='mean')}",
    ),
    "a partial over a function": (
        "from functools import partial\nf = partial(F.leaky_relu, negative_slope=0.2)",
        "f = lambda input: leaky_relu(input, negative_slope=0.2)",
    ),
    "a partial keeps what it was given": (
        "from functools import partial\nfor s in (0.1, 0.2):\n    f = partial(F.leaky_relu, negative_slope=s)",
        "f = lambda input, negative_slope=s: leaky_relu(input, negative_slope=negative_slope)",
    ),
    "a layer that a longer text names": (
        "CONFIG = 'act: SiLU'\nm = getattr(nn, CONFIG[5:])()",
        "{'SiLU': lambda: nn.SiLU().set_train()}[CONFIG[5:]]()",
    ),
    "axes of einops": (
        "from einops import rearrange\nx = torch.ones(2, 4)\ny = rearrange(x, 'a (b c) -> a b c', b=2)",
        "rearrange(x, 'a (b c) -> a b c', {'b': 2})",
    ),
    "a layer chosen by name": (
        "name = 'GRU'\nm = getattr(nn, name)(2, 3)",
        "{'GRU': lambda: nn.GRU(2, 3).set_train()}[name]()",
    ),
    "a layer by its name": ("m = getattr(nn, 'LayerNorm')(8)", "nn.LayerNorm((8,), epsilon=1e-05)"),
    "a function chosen by name": ("name = 'relu'\nf = getattr(F, name)", "{'relu': ops.relu}[name]"),
    "a class that is asked for later": (
        "kinds = (nn.LayerNorm, nn.GroupNorm)\nok = isinstance(m, kinds)",
        "kinds = ((nn.LayerNorm, FlexibleLayerNorm), (nn.GroupNorm, FlexibleGroupNorm))",
    ),
    "arguments of a transform": (
        "from torchvision import transforms as T\nt = T.RandomCrop(32, padding=4, padding_mode='reflect')",
        "RandomCrop(32, padding=4, padding_mode='reflect')",
    ),
    "parameters by torch's names": (
        "m = nn.Linear(2, 2)\np = [p for n, p in m.named_parameters(recurse=False)]",
        "in named_parameters(m, recurse=False)]",
    ),
    "a partial over a layer": (
        "from functools import partial\nn = partial(nn.BatchNorm2d, momentum=0.05)\nm = n(8)",
        "partial(batch_norm2d_of, momentum=0.05)\nm = n(8)",
    ),
    "a layer that a name may hold": (
        "class N(nn.Module):\n    def __init__(self, norm=None):\n        norm = norm or nn.BatchNorm2d\n        self.n = norm(8)",
        "norm = norm or batch_norm2d_of\n        self.n = norm(8)",
    ),
    "comparison of classes": ("ok = type(m) in (nn.Linear, nn.Conv2d)", "type(m) in (nn.Dense, nn.Conv2d)"),
    "arguments that a template has no place for": ("i = torch.randperm(4, dtype=torch.int32)", "astype(ms.int32)"),
    "an index behind an operation": ("x = torch.ones(2, 2)\ny = x.frac()[0]", "y = (x - ops.trunc(x))[0]"),
    "a factor of an operation": ("x = torch.ones(2, 2)\ny = 2 * x.frac()", "y = 2 * (x - ops.trunc(x))"),
    "a shape changed in place": ("x = torch.ones(2, 2)\nx.unsqueeze_(0)", "x = x.expand_dims(0)"),
    "a fresh tensor that is filled": (
        "n = 2\np = torch.FloatTensor(n, 2).zero_()",
        "p = assign(FloatTensor(n, 2), 0)",
    ),
    "a fresh tensor that is computed on": ("x = torch.ones(2)\ny = x.mul(0.5).exp_()", "y = (x.mul(0.5)).exp()"),
    "a write through a view": ("x = torch.ones(2, 2)\nx.t().fill_(2)", "assign(x.T, 2)"),
    "a loss from keywords": ("k = {'label_smoothing': 0.1}\nc = nn.CrossEntropyLoss(**k)", "CrossEntropyLoss(**k)"),
    "a normed weight": (
        "from torch.nn.utils import weight_norm\nn = 3\nm = weight_norm(nn.Conv1d(2, n, 3, padding=2))",
        "WeightNormConv1d(2, n, 3, padding=2)",
    ),
    "numpy for a function's own import": (
        "def f():\n    import numpy as np\n    return np.zeros(3)\nx = torch.ones(2, 4)\ny = x[:, ::2]",
        "import numpy as ms_np",
    ),
    "a write by numpy's index": (
        "import numpy as np\ni = np.arange(3)\nx = torch.zeros(3)\nx[i[0]] = 2",
        "import index_by_numpy",
    ),
    "arguments that are known at run time": (
        "def block(a, b, **options):\n    return nn.Conv2d(a, b, bias=False, **options)",
        "conv2d_of(a, b, bias=False, **options)",
    ),
    "a device by keywords": (
        "def f(device=None):\n    factory = {'device': device}\n    return nn.Linear(2, 3, bias=False, **factory)",
        "nn.Dense(2, 3, has_bias=False)",
    ),
    "parts of a result by name": (
        "x = torch.zeros(3, 2)\na = x.max(1).indices.view(1, 3)\nb = torch.sort(x).values",
        "a = ops.max(x, 1)[1].reshape(1, 3)\nb = sort(x)[0]",
    ),
    "weights of an RNN in one piece": ("if flag:\n    net.rnn.flatten_parameters()", "if flag:\n    pass"),
    "a base of losses": (
        "class L(nn.modules.loss._WeightedLoss):\n    def forward(self, x):\n        return x.mean()",
        "class L(Loss):\n    def construct(self, x):",
    ),
    "an index that may be numpy's": (
        "import numpy as np\nx = torch.zeros(3)\nfor i in np.arange(3):\n    y = x[i]",
        "import index_by_numpy",
    ),
    "a copy of what is not known": ("a = held.targets.clone()", "held.targets.copy()"),
    "a model of which the best is read at the end": (
        "m = nn.Linear(2, 2)\ndef train():\n    m.train()\n    m.zero_grad()\ntrain()\nm = torch.load('best.pt')",
        "clear_gradients(m)",
    ),
    "an annotation": ("def f(x: torch.Tensor, m: nn.Module): pass", "x: Tensor, m: nn.Cell"),
}


@pytest.mark.parametrize("name", LINES)
def test_line(tmp_path: Path, name: str) -> None:
    source, wanted = LINES[name]
    text, found = migrated(tmp_path, HEAD + source + "\n")
    assert wanted in text
    assert not [n for n in found.notes if n.severity == "error"]


LOOP = """
import torch
from torch import nn
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in data:
    {body}
"""


def loop(tmp_path: Path, *body: str) -> str:
    text, found = migrated(tmp_path, LOOP.format(body="\n    ".join(body)))
    assert not [n for n in found.notes if n.severity == "error"], found.notes
    return text


def test_the_plain_step_calls_the_optimizer(tmp_path: Path) -> None:
    text = loop(
        tmp_path,
        "optimizer.zero_grad()",
        "out = net(x)",
        "loss = (out - y).pow(2).mean()",
        "loss.backward()",
        "optimizer.step()",
        "print(loss.item(), out.shape)",
    )
    assert "(loss, out), gradients = ms.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)()" in text
    assert "optimizer(gradients)" in text and "zero_grad" not in text and "backward" not in text


def test_a_loss_function_that_looks_at_its_value_cuts_no_gradient(tmp_path: Path) -> None:
    functions = "def distance(a, b):\n    found = (a - b).pow(2).mean()\n    print(found.item())\n    return found\n"
    functions += "def decay(m):\n    return sum(p.pow(2).sum() for p in m.parameters())\n"
    functions += "def cut(h):\n    return h.detach() if torch.is_tensor(h) else tuple(cut(v) for v in h)\n"
    body = ["hidden = cut(hidden)", "out, hidden = net(x, hidden)", "loss = distance(out, y) + decay(net)"]
    body += ["optimizer.zero_grad()", "loss.backward()", "optimizer.step()"]
    source = LOOP.replace("for x, y", functions + "for x, y").format(body="\n    ".join(body))
    text, found = migrated(tmp_path, source)
    assert not [n for n in found.notes if n.severity == "error"], found.notes
    function = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == "forward_fn")
    inside = [ast.unparse(s).replace("(out, hidden) =", "out, hidden =") for s in function.body]
    assert inside[:2] == ["out, hidden = net(x, hidden)", "loss = distance(out, y) + decay(net)"], inside
    assert text.index("hidden = cut(hidden)") < text.index("def forward_fn")


def test_zero_grad_between_loss_and_backward(tmp_path: Path) -> None:
    text = loop(tmp_path, "loss = net(x).sum()", "optimizer.zero_grad()", "loss.backward()", "optimizer.step()")
    assert "loss, gradients = ms.value_and_grad(forward_fn, None, optimizer.parameters)()" in text


def test_accumulation_keeps_the_gradients(tmp_path: Path) -> None:
    text = loop(
        tmp_path,
        "loss = net(x).sum() / 4",
        "loss.backward()",
        "if step % 4 == 3:",
        "    optimizer.step()",
        "    optimizer.zero_grad()",
    )
    assert "accumulate(optimizer.parameters, gradients)" in text
    assert text.index("accumulate(optimizer") < text.index("optimizer.step()") < text.index("optimizer.zero_grad()")


def test_a_backward_in_a_branch_asks_for_the_gradient_there(tmp_path: Path) -> None:
    text = loop(
        tmp_path,
        "loss = net(x).sum()",
        "if phase == 'train':",
        "    optimizer.zero_grad()",
        "    loss.backward()",
        "    optimizer.step()",
    )
    assert "if phase == 'train':\n        loss, gradients" in text and "loss = forward_fn()" in text


def test_a_value_that_is_read_before_it_is_set_becomes_an_argument(tmp_path: Path) -> None:
    text = loop(
        tmp_path,
        "hidden = hidden.detach()",
        "out, hidden = net(x, hidden)",
        "loss = out.sum()",
        "loss.backward()",
        "optimizer.step()",
    )
    assert "def forward_fn(hidden=hidden):" in text


def test_comments_in_the_region_stay(tmp_path: Path) -> None:
    text = loop(
        tmp_path,
        "# the step",
        "out = net(x)  # forward",
        "# the loss",
        "loss = out.sum()",
        "loss.backward()  # gradients",
        "optimizer.step()",
    )
    for comment in ("# the step", "# forward", "# the loss"):
        assert comment in text


def test_a_loss_from_another_function_raises_at_its_line(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        "import torch\n\ndef update(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n",
    )
    assert "raise NotImplementedError('MSP604" in text
    assert [(n.rule, n.line) for n in found.notes if n.severity == "error"] == [("MSP604", 5)]


def test_what_has_no_form_raises_and_keeps_the_line(tmp_path: Path) -> None:
    text, found = migrated(tmp_path, HEAD + "x = torch.zeros(3)\ny = torch.sparse_csr_tensor(x, x, x)\nz = x + 1\n")
    assert (
        "# y = torch.sparse_csr_tensor(x, x, x)\nraise NotImplementedError(" in text
        and "MSP602: torch.sparse_csr_tensor" in text
    )
    assert "z = x + 1" in text
    assert [(n.rule, n.line) for n in found.notes if n.severity == "error"] == [("MSP602", 5)]


def test_gradient_penalty(tmp_path: Path) -> None:
    source = """
    import torch
    def penalty(D, x):
        x = x.requires_grad_(True)
        out = D(x)
        g = torch.autograd.grad(outputs=out, inputs=x, grad_outputs=torch.ones_like(out), create_graph=True)[0]
        return ((g.norm(2, dim=1) - 1) ** 2).mean()
    """
    text, _ = migrated(tmp_path, source)
    assert "def out_of_inputs(x):" in text and "gradient_of(out_of_inputs, (x,), ops.ones_like(out))[0]" in text


def test_no_grad_is_taken_off_and_its_body_moves_left(tmp_path: Path) -> None:
    source = HEAD + "net = nn.Linear(2, 2)\nwith torch.no_grad():\n    # look\n    y = net(x)\n    s = '''a\n    b'''\n"
    text, _ = migrated(tmp_path, source)
    assert "\n# look\ny = net(x)\ns = '''a\n    b'''\n" in text


def test_files_without_torch_are_byte_identical(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    data = b"# caf\xc3\xa9\r\nx = 1\r\n\tpass_ = 2\n"
    (place / "plain.py").write_bytes(data)
    (place / "broken.py").write_bytes(b"def f(:\n")
    (place / "table.csv").write_bytes(b"\xff\x00")
    found = migrate(place)
    write(found, place, tmp_path / "out")
    for file in place.iterdir():
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()
    assert "broken.py" in found.broken


SCRIPTS = sorted(path for path in CORPUS.rglob("*.py"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    write(migrate(CORPUS), CORPUS, out)
    return out


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.relative_to(CORPUS).as_posix())
def test_corpus_becomes_python_without_torch(corpus: Path, path: Path) -> None:
    text = (corpus / path.relative_to(CORPUS)).read_text()
    assert not torch_imports(text)
    assert "NotImplementedError('MSP" not in text and "unsupported(" not in text
    if "torch" not in path.read_text():
        assert text == path.read_text()


def test_migrating_twice_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    again = migrate(corpus)
    write(again, corpus, tmp_path / "again")
    for path in corpus.rglob("*.py"):
        assert (tmp_path / "again" / path.relative_to(corpus)).read_bytes() == path.read_bytes()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6))
def test_mutated_sources_never_break_the_output(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Statements of the corpus dropped, doubled and swapped: what comes out parses, whatever the source means."""
    draw = random.Random(seed)
    tree = ast.parse(draw.choice([p for p in SCRIPTS if p.parent == CORPUS]).read_text())
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and len(block) > 1 and draw.random() < 0.3:
                first, second = draw.randrange(len(block)), draw.randrange(len(block))
                choice = draw.randrange(3)
                if choice == 0:
                    del block[first]
                elif choice == 1:
                    block.insert(first, block[second])
                else:
                    block[first], block[second] = block[second], block[first]
    try:
        source = ast.unparse(ast.fix_missing_locations(tree))
        compile(source, "mutated", "exec")
    except (SyntaxError, ValueError):
        return
    migrated(tmp_path_factory.mktemp("mutated"), source)


def test_a_picture_that_is_trained_is_a_parameter(tmp_path: Path) -> None:
    source = (
        HEAD
        + "net = nn.Linear(2, 1)\nx = torch.rand(1, 2)\nx.requires_grad = True\nloss = net(x).sum()\nloss.backward()\nx = x + x.grad.sign()\n"
    )
    text, _ = migrated(tmp_path, source)
    assert "x = Parameter(x)" in text and "trainable(net) + [x]" in text


def test_freezing_a_parameter_is_no_idle_statement(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path, HEAD + "net = nn.Linear(2, 1)\nfor p in net.parameters():\n    p.requires_grad_(False)\n"
    )
    assert "p.requires_grad = False" in text


def test_an_input_of_a_penalty_stays_a_tensor(tmp_path: Path) -> None:
    text, _ = migrated(tmp_path, HEAD + "x = (torch.rand(2) * 2).requires_grad_(True)\ny = x * 2\n")
    assert "Parameter" not in text


def test_a_function_with_its_own_backward_stays_one(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        HEAD + "class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n        return x * 2\n    @staticmethod\n    def backward(ctx, g):\n"
        "        x, = ctx.saved_tensors\n        return g.masked_fill(x < 0, 0)\ny = Twice.apply(torch.ones(2))\n",
    )
    assert "class Twice(Function):" in text
    assert not found.open


def test_layers_that_get_packed_sequences(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        HEAD + "from torch.nn.utils.rnn import pack_padded_sequence\nrnn = nn.LSTM(3, 4)\n"
        "out, _ = rnn(pack_padded_sequence(torch.zeros(5, 2, 3), [5, 3]))\n",
    )
    assert "rnn = PackedLSTM(3, 4)" in text
    assert not found.open


def test_a_method_of_strings_is_no_method_of_tensors(tmp_path: Path) -> None:
    text, _ = migrated(tmp_path, HEAD + "x = torch.zeros(3)\nx = name\nprint(x.lower())\n")
    assert "x.lower()" in text
    assert "raise" not in text


def test_a_parameter_written_by_hand_stays_one(tmp_path: Path) -> None:
    text, found = migrated(
        tmp_path,
        HEAD + "w = torch.randn(3, requires_grad=True)\nfor x in data:\n    loss = (w * x).sum()\n    loss.backward()\n"
        "    with torch.no_grad():\n        w -= 0.1 * w.grad\n        w.grad.zero_()\n",
    )
    assert "assign(w, w - (0.1 * w.grad))" in text
    assert not found.open


def test_a_model_is_not_made_again(tmp_path: Path) -> None:
    """What is made once and used in the loop is no part of the loss, whatever else goes into its making."""
    text, found = migrated(
        tmp_path,
        HEAD
        + """
class Net(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1) * scale)

    def forward(self, x):
        return self.scale * x

def build(scale):
    net = Net(scale)
    return net

net = build(2.0)
net = net.cuda()
criterion = nn.MSELoss().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in data:
    net.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
""",
    )
    assert not [n for n in found.notes if n.severity != "info"]
    assert "optimizer(gradients)" in text


def test_what_stands_beside_the_loss_may_hold_no_tensor(tmp_path: Path) -> None:
    text = loop(
        tmp_path, "for i in range(3):", "    loss = net(x).sum() * i", "    n = i + 1", "loss.backward()", "print(n, i)"
    )
    assert "return loss, (n, i)" in text or "return loss, (i, n)" in text


def test_global_names_are_global_in_the_function(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path,
        HEAD
        + """
total = 0
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def train():
    global total
    for x in data:
        optimizer.zero_grad()
        out = net(x)
        total += 1
        loss = out.sum()
        loss.backward()
        optimizer.step()
""",
    )
    function = text[text.index("def forward_fn") :]
    assert function.index("global total") < function.index("total += 1")


def test_names_that_another_file_imports(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "helpers.py").write_text("import torch\nfrom torch.autograd import Variable\n")
    text, _ = migrated(tmp_path, "from helpers import *\nx = Variable(torch.zeros(3)).unsqueeze(0)\n")
    assert "x = ops.zeros((3,)).expand_dims(0)" in text


def test_state_of_the_round_before_is_no_part_of_the_loss(tmp_path: Path) -> None:
    """What a loop hands from round to round starts before it, and must not start anew in each round."""
    text, found = migrated(
        tmp_path,
        HEAD
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3)

    def start(self, n):
        return next(self.parameters()).new_zeros(1, n, 3)

    def forward(self, x, hidden):
        return self.rnn(x, hidden)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
hidden = net.start(4)
for x in data:
    hidden = hidden.detach()
    net.zero_grad()
    out, hidden = net(x, hidden)
    loss = out.sum()
    loss.backward()
    optimizer.step()
""",
    )
    assert not [n for n in found.notes if n.severity != "info"], found.notes
    assert "net.start" not in text[text.index("def forward_fn") :]


def test_a_tuple_is_bound_anew(tmp_path: Path) -> None:
    """An earlier use of the same names computes nothing of this loss."""
    text = loop(
        tmp_path,
        "for other in nets:",
        "    out, rest = other(x)",
        "    print(out)",
        "for i in range(2):",
        "    out, rest = net(x), 1",
        "    optimizer.zero_grad()",
        "    loss = out.sum()",
        "    loss.backward()",
        "    optimizer.step()",
    )
    assert "other(x)" not in text[text.index("def forward_fn") :]


def test_an_optimizer_that_may_not_exist(tmp_path: Path) -> None:
    text, _ = migrated(
        tmp_path,
        HEAD
        + """
net = nn.Linear(3, 1)
if flag:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def train():
    for x in data:
        net.zero_grad()
        net(x).sum().backward()
        if flag:
            optimizer.step()
        else:
            for p in net.parameters():
                p.data.add_(p.grad, alpha=-0.1)
""",
    )
    assert "value_and_grad(forward_fn, None, trainable(net))" in text


def test_what_an_unknown_variable_computes_is_part_of_the_loss(tmp_path: Path) -> None:
    """``nets["a"](x)`` of a ModuleDict and ``model(x)`` of a parameter, with ``x`` out of an unknown iterable."""
    source = """
    def train(model, criterion, batches, optimizer):
        nets = nn.ModuleDict({"a": nn.Linear(2, 2)})
        for x, y in batches:
            h = nets["a"](x)
            out = model(x)
            loss = criterion(out + h, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    text, _ = migrated(tmp_path, HEAD + textwrap.dedent(source))
    function = text[text.index("def forward_fn") : text.index("return loss")]
    assert "nets[" in function and "model(x)" in function


def test_optimizers_that_a_loop_steps_are_all_trained(tmp_path: Path) -> None:
    source = """
    net = nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1)]
    for x in torch.ones(3, 4, 2):
        loss = net(x).sum()
        for o in optimizers: o.zero_grad()
        loss.backward()
        for o in optimizers: o.step()
    """
    text, _ = migrated(tmp_path, HEAD + textwrap.dedent(source))
    assert "[p for o in optimizers for p in o.parameters])()" in text


def test_two_losses_over_the_same_statements(tmp_path: Path) -> None:
    source = """
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    out = net(torch.ones(4, 2))
    first = out.sum()
    second = first + out.mean()
    first.backward(retain_graph=True)
    second.backward()
    optimizer.step()
    """
    text, found = migrated(tmp_path, HEAD + textwrap.dedent(source))
    assert text.count("value_and_grad(") == 2 and text.count("accumulate(optimizer.parameters, ") == 2
    assert "MSP606" in {note.rule for note in found.open}


def test_a_write_through_a_view_that_is_lost_in_mindspore_raises(tmp_path: Path) -> None:
    text, _ = migrated(tmp_path, HEAD + "x = torch.ones(2, 2)\nx.narrow(0, 0, 1).copy_(x[1:])\n")
    assert "raise NotImplementedError('MSP602: torch.Tensor.narrow: a write through this view" in text


def test_a_write_into_what_a_container_or_a_call_hands_out_is_written(tmp_path: Path) -> None:
    source = """
    net = nn.Linear(2, 2)
    shadow = {k: v.clone() for k, v in net.state_dict().items()}
    for k, v in net.state_dict().items():
        shadow.get(k).mul_(0.9).add_(v, alpha=0.1)
    getattr(net, "weight").data.mul_(0.5)
    next(net.parameters()).mul_(0.5)
    y = torch.ones(2).relu().add_(1)
    """
    text, _ = migrated(tmp_path, HEAD + textwrap.dedent(source))
    assert text.count("assign(") == 3 and "assign(shadow.get(k), " in text


def test_a_setting_of_an_unknown_object_is_decided_when_it_runs(tmp_path: Path) -> None:
    text, _ = migrated(tmp_path, HEAD + "def widen(thing):\n    thing.padding = 1\n")
    assert "set_attribute(thing, 'padding', 1)" in text


def test_a_loss_from_an_unknown_object_is_gathered(tmp_path: Path) -> None:
    """What a trainer was handed is not known: a gradient may come out of each of its calls."""
    source = """
    class Trainer:
        def __init__(self, model, opt, loss_fn):
            self.model, self.opt, self.loss_fn = model, opt, loss_fn
        def compute(self, batch):
            return self.loss_fn(self.model(batch[0]), batch[1])
        def step(self, batch):
            self.opt.zero_grad()
            loss = self.compute(batch)
            loss.backward()
            self.opt.step()
    def run(agent, batches):
        for x in batches:
            features = agent.encode(x)
            loss = (agent.critic(features) - 1).pow(2).mean()
            agent.optim.zero_grad()
            loss.backward()
            agent.optim.step()
    """
    text, found = migrated(tmp_path, HEAD + textwrap.dedent(source))
    assert "value_and_grad(forward_fn, None, self.opt.parameters)" in text
    assert text.index("def forward_fn", text.index("def run")) < text.index("agent.encode(x)")
    assert not [note for note in found.notes if note.severity == "error"]


STEP = """
def train(net, x, optimizer, teacher):
    for _ in range(2):
        net(x)
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        ("self.penalty = self.fc(x).mean()", "net.penalty"),
        ("self.penalty = x.mean()", "sum(m.penalty for m in net.modules() if isinstance(m, Net))"),
        ("kept.append(x)", "kept[-1].mean()"),
    ],
)
def test_a_loss_out_of_what_a_call_leaves_behind(tmp_path: Path, model: str, loss: str) -> None:
    source = (
        f"{HEAD}kept = []\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(2, 2)\n"
        f"    def forward(self, x):\n        {model}\n        return x\n{STEP.format(loss=loss)}"
        "net = Net()\ntrain(net, torch.ones(1, 2), torch.optim.SGD(net.parameters(), lr=0.1), None)\n"
    )
    text, found = migrated(tmp_path, source)
    assert not found.open
    assert re.search(r"def forward_fn\(.*\):\n +net\(x\)\n +loss = ", text)


def test_what_a_hook_keeps_is_part_of_the_loss(tmp_path: Path) -> None:
    source = f"""{HEAD}kept = {{}}
def keep(name):
    def hook(module, args, output):
        kept[name] = output
    return hook
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
net[0].register_forward_hook(keep("fc"))
{STEP.format(loss='kept["fc"].mean()')}
train(net, torch.ones(1, 2), torch.optim.SGD(net.parameters(), lr=0.1), None)
"""
    text, _ = migrated(tmp_path, source)
    assert re.search(r"def forward_fn\(\):\n +net\(x\)\n +loss = ", text)


def test_an_optimizer_of_ones_own_is_one(tmp_path: Path) -> None:
    source = f"""{HEAD}class Own(torch.optim.Optimizer):
    def step(self, closure=None):
        pass
net = nn.Linear(2, 2)
best = Own(net.parameters(), {{}})
loss = net(torch.ones(1, 2)).sum() + sum(p.sum() for p in net.parameters())
best.zero_grad()
loss.backward()
best.step()
"""
    text, _ = migrated(tmp_path, source)
    assert "ms.value_and_grad(forward_fn, None, best.parameters)" in text and "return loss\n" in text


def test_layers_that_only_a_configuration_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "model.yaml").write_text("act: Tanh\n")
    text, found = migrated(tmp_path, f"{HEAD}def act(config):\n    return getattr(nn, config['act'])()\n")
    assert "{'Tanh': lambda: nn.Tanh().set_train()}[config['act']]()" in text and not found.open


def test_a_name_that_is_bound_anew_is_another_value(tmp_path: Path) -> None:
    source = f"""{HEAD}net = nn.Linear(3, 2)
w = torch.ones(1, requires_grad=True)
x = torch.tensor(2.0)
y = w * x
y.backward()
x, y = torch.randn(10, 3), torch.randn(10, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = F.mse_loss(net(x), y)
loss.backward()
optimizer.step()
"""
    text, found = migrated(tmp_path, source)
    assert text.count("y = w * x") == 1 and not found.open


@pytest.mark.parametrize("given", ["*args, **kwargs", "*args", "3, 4, **kwargs"])
def test_a_layers_constructor_with_unknown_arguments_raises(tmp_path: Path, given: str) -> None:
    source = f"{HEAD}class C(nn.Conv2d):\n    def __init__(self, *args, **kwargs):\n        super().__init__({given})\n"
    text, found = migrated(tmp_path, source)
    assert "MSP602: torch.nn.Conv2d: in a class derived from it" in text and "# super()" in text and found.open
