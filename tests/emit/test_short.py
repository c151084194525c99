"""What a reader would not have written is not there: dead names, aliases, empty constructors, branches in branches."""

from collections.abc import Callable
from pathlib import Path

Port = Callable[..., str]
NETS = Path(__file__).parents[1] / "passes" / "nets_reading.py"


def nets(root: str) -> str:
    """The source of the nets with ``root`` as the model."""
    text = NETS.read_text(encoding="utf-8").partition("x4 = ")[0]
    return text.partition("from torch import Tensor, nn\n")[2].join(
        [
            "from collections import OrderedDict\nfrom typing import Callable, Optional\nfrom torch import Tensor\n",
            f"\nNet = {root}\n",
        ]
    )


def test_bases_that_say_nothing_go(port: Port) -> None:
    text = port(nets("NamedChildren"))
    assert "class Base" not in text
    assert "class Scale(nn.Cell):" in text
    assert "kind" not in text
    assert "tags" not in text
    assert "self.log" not in text
    assert text.count("def __init__(self) -> None:") == 1


def test_names_that_nothing_reads_go(port: Port) -> None:
    text = port(nets("NamedChildren"))
    assert "names" not in text.partition("class NamedChildren")[2]
    assert "= None" not in text.partition("class NamedChildren")[2].partition("def build_model")[0]
    assert "y = self.head.norm(x)" in text


def test_an_alias_gives_way_to_what_it_names(port: Port) -> None:
    text = port(nets("NamedChildren"))
    assert "return mixed(q, k, v, rate=" in text
    assert "attend" not in text.partition("def construct")[2].replace("self.attention", "")


def test_a_rate_that_was_zero_stays_an_option(port: Port) -> None:
    text = port(nets("NamedChildren"))
    assert "dropout_p=rate, draw=rand" in text
    assert "rate: float = 0.0" in text


NESTED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.first = nn.Linear(4, 3)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, x):
        return self.first(self.embedding(x))
"""


def test_branches_by_class_are_not_nested(port: Port) -> None:
    import torch

    text = port(NESTED, torch.tensor([[1, 2], [3, 4]]))
    assert "        if isinstance(module, nn.Dense):\n            module.weight.set_data(" in text
    assert "        elif isinstance(module, nn.Embedding):\n            module.embedding_table.set_data(" in text
    assert "(nn.Dense, nn.Embedding)" not in text
