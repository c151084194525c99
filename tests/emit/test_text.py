"""What of the source's text comes over beside its code: comments, docstrings, names."""

from collections.abc import Callable

from ms_port.emit.docstrings import summary

Port = Callable[..., str]

COMMENTS = """\
# A net for tests.
# Two lines.
class Net(nn.Module):
    # how wide
    expansion = 2  # times

    def __init__(self, width: int = 4):  # any width
        super().__init__()
        self.first = nn.Linear(4, width * self.expansion)  # B, 2W
        self.rest = nn.Sequential(
            # rectify
            nn.ReLU(),  # in (0, inf)
            nn.Linear(
                width * self.expansion,  # wide
                3,
            ),
        )  # B, 3

    # the whole
    def forward(self, x):  # B, 4
        x = self.first(x)  # type: ignore[no-any-return]
        if self.training:  # learns
            x = x * 2  # twice
        else:  # does not
            x = x + 1
        # See note [TorchScript super()]
        for _ in range(2):  # two times
            x = x + 1

        # last
        return self.rest(x)  # scores
"""


def test_comments(port: Port) -> None:
    text = port(COMMENTS)
    for line in (
        "\n# A net for tests.\n# Two lines.\nclass Net(nn.Cell):\n    # how wide\n    expansion = 2  # times\n",
        "def __init__(self, width: int = 4):  # any width\n",
        "self.first = nn.Dense(4, width * self.expansion)  # B, 2W\n",
        "            # rectify\n            nn.ReLU(),  # in (0, inf)\n",
        "                width * self.expansion,  # wide\n",
        "        )  # B, 3\n",
        "    # the whole\n    def construct(self, x):  # B, 4\n",
        "        x = self.first(x)\n        if self.training:  # learns\n            x = x * 2  # twice\n",
        "        else:\n            # does not\n            x = x + 1\n",
        "        for _ in range(2):  # two times\n",
        "\n        # last\n        return self.rest(x)  # scores\n",
    ):
        assert line in text, f"{line}\n--- is not in\n{text}"
    assert "TorchScript" not in text
    assert "type: ignore" not in text


DOCSTRINGS = '''\
class Net(nn.Module):
    r"""
    Scores, with \\alpha.

    This model inherits from [`Elsewhere`]. Check the superclass.

    Args:
        width (int): how wide,
            in channels.
        device: where it lies.

    A torch.Tensor goes into this nn.Module.
    """

    def __init__(self, width: int = 4, device=None):
        super().__init__()
        self.first = nn.Linear(4, width, device=device)

    def scale(self, x, flag=False, by=2.0):
        """Scale.

        :param flag: says nothing here
        :param by: the factor

        Example::

            >>> import torch
            >>> net.scale(torch.ones(2))
        """
        if flag:
            return x
        return x * by

    def forward(self, x):
        """One very long line of text that says what this does in more words than there is room for in a line of code, which is a pity."""
        return self.scale(self.first(x))
'''


def test_docstrings_speak_of_what_is_there(port: Port) -> None:
    text = port(DOCSTRINGS)
    assert (
        '    r"""\n    Scores, with \\alpha.\n\n    Args:\n        width (int): how wide,\n            in channels.\n\n'
        '    A Tensor goes into this nn.Cell.\n    """\n'
    ) in text
    assert "device" not in text
    assert "flag" not in text
    assert ":param by: the factor" in text
    assert "Example" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert "which is a pity." in text


CONSTANTS = """\
USED = 2
ALSO = USED + 1
OTHER = 5
helpers = {"a": 1}


def helper(x):
    return x + OTHER


class Net(nn.Module):
    def __init__(self, deep: bool = False):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x) * ALSO
"""


def test_only_constants_that_are_read(port: Port) -> None:
    text = port(CONSTANTS)
    assert "ALSO = " in text
    assert "OTHER" not in text
    assert "helper" not in text


def test_where_code_came_from_stays_true() -> None:
    assert summary("A ViT in PyTorch.\n\nMore.") == "A ViT in MindSpore."
    assert summary("Adapted from the PyTorch code of others.") == "Adapted from the PyTorch code of others."
    assert summary("The official PyTorch implementation.") == "The official PyTorch implementation."


def test_a_model_without_parameters_has_nothing_to_load(port: Port) -> None:
    text = port("class Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n")
    assert '"""Nothing is loaded: no cell of this model has a parameter."""' in text
    assert "load_checkpoint" not in text and "load_checkpoint" in port(COMMENTS)
