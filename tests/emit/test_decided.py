"""An option whose other side the port lacks does not stay: it could be set and would be ignored."""

from collections.abc import Callable

Port = Callable[..., str]

OPTIONS = """\
class Never(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return self.inner(x)


class Net(nn.Module):
    def __init__(self, width=4, extra=False, pre=False, mode="mean", bias=True, twice=True):
        super().__init__()
        assert mode in ("mean", "max")
        self.pre, self.mode = pre, mode
        self.twice = twice
        self.width = width * 2 if mode == "max" else width
        self.first = nn.Linear(4, width, bias=bias)
        self.extra = extra
        if extra:
            if not bias:
                raise ValueError("extra needs a bias")
            self.side = Never(width)
        if pre and twice:
            raise ValueError("not both")

    def forward(self, x):
        x = self.first(x)
        if self.pre:
            x = x * self.width
        if self.twice:
            x = x + x
        if self.extra:
            x = x + self.side(x)
        return x.mean() if self.mode == "mean" else x.max()
"""


def test_options_of_pruned_branches_go(port: Port) -> None:
    text = port(OPTIONS)
    assert "def __init__(self, width=4, bias=True):" in text
    body = text[text.index("class Net") : text.index("def build_model")]
    for gone in ("extra", "pre", "mode", "twice", "Never", "side", "raise", "assert"):
        assert gone not in body, body


KEPT = """\
class Block(nn.Module):
    def __init__(self, width, norm=True, act=None, verbose=False):
        super().__init__()
        if verbose:
            print("a block")
        self.first = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.act = act or nn.ReLU()

    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("two dimensions")
        return self.act(self.norm(self.first(x)))


class Net(nn.Module):
    def __init__(self, width=4, norm=True, act=None):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(width, norm, act) for _ in range(2)])

    def forward(self, x):
        return self.blocks(x)
"""


def test_options_with_both_sides_stay(port: Port) -> None:
    text = port(KEPT)
    assert "def __init__(self, width, norm=True, act=None" in text
    assert "nn.LayerNorm((width,), epsilon=1e-5) if norm else nn.Identity()" in text
    assert "Block(width, norm, act)" in text
