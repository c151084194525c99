"""What the port's source does without: casts, new names and conditions that nothing asks for; nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from timm.layers import trunc_normal_
from torch import nn

from ms_port.capture.derived_fields import derived_fields
from ms_port.opmap import OpMap
from tests.passes.port import port


class InPlace(nn.Module):
    def forward(self, x, mask):
        y = x.clone()
        y.masked_fill_(mask, 2.0)
        z = torch.zeros_like(x)
        z.scatter_(1, mask.long(), x)
        y.mul_(mask)
        half = x.half()
        half.add_(x)
        truth = x.clone()
        truth.gt_(0)
        return y + z, half, truth


class SeveralTypes(nn.Module):
    def forward(self, x, mask):
        outs = []
        for t in (x.clone(), x.clone().half()):
            t.add_(x)
            outs.append(t.float().masked_fill(mask, 0.0))
        return outs


class Shifted(nn.Conv2d):
    def __init__(self, channels, kernel, stride, groups, scales, padding):
        super().__init__(channels, channels, kernel, stride, padding)
        self.scales = scales

    def forward(self, x):
        weight = self.weight - self.weight.mean()
        return nn.functional.conv2d(x, weight, self.bias, self.stride, self.padding) * self.scales[0]


class Scaled(Shifted):
    def __init__(self, channels):
        super().__init__(channels, 3, 1, 1, (2.0, 3.0), 1)


class PlainLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.names, self.sizes = [], {}
        for i in range(2):
            self.names.append(str(i))
            self.sizes[i] = len(self.names)
        self.layer = Scaled(3)

    def forward(self, x):
        return self.layer(x) * len(self.names) * self.sizes[1]


class LateCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3)])
        self.layers.append(nn.Linear(3, 3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def _source(tmp_path, factory, *args):
    ported = port(factory, args, tmp_path, opmap=OpMap.load())
    return ported.source, {f.rule for f in ported.program.flags if f.open}


def test_a_write_in_place_is_cast_only_where_types_widen(tmp_path):
    source, rules = _source(tmp_path, InPlace, torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool))
    assert not rules
    cast = [line.split(" = ")[0].strip() for line in source.splitlines() if ".astype(" in line]
    assert cast == ["half", "truth"]


def test_a_write_in_place_to_several_types_is_refused(tmp_path):
    source, rules = _source(tmp_path, SeveralTypes, torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool))
    assert "MSP102" in rules
    assert "writes into tensors of float16, float32" in source


def test_plain_lists_and_own_constructors_change_nothing(tmp_path):
    source, rules = _source(tmp_path, PlainLists, torch.randn(1, 3, 5, 5))
    assert not rules
    assert "update_parameters_name" not in source
    assert "self.padding" in source
    assert "isinstance(self.padding" not in source


def test_cells_that_come_late_are_named_again(tmp_path):
    source, rules = _source(tmp_path, LateCells, torch.randn(2, 3))
    assert not rules
    assert "update_parameters_name" in source


class Settings:
    """Two names for one number, as configurations of transformers have them."""

    attribute_map = {"hidden_size": "width"}

    def __init__(self, width=4, depth=2):
        self.width, self.depth = width, depth

    def __getattr__(self, name):
        if name == "hidden_size":
            return self.width
        raise AttributeError(name)


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.first = nn.Linear(config.width, config.hidden_size)
        self.layers = nn.ModuleList(nn.Linear(config.hidden_size, 4) for i, _ in enumerate(range(config.depth)))

    def forward(self, x):
        x = self.first(x)
        for i, layer in enumerate(self.layers):
            x = layer(x)
        for i, layer in enumerate(self.layers):
            x = layer(x) * (i + 1)
        return x


def configured():
    return Configured(Settings())


def test_a_second_name_of_a_field_is_the_field(tmp_path):
    text, rules = _source(tmp_path, configured, torch.ones(2, 4))
    assert not rules
    assert "hidden_size" not in text and "nn.Dense(config.width, config.width)" in text


def test_loops_count_only_where_the_count_is_read(tmp_path):
    text, _ = _source(tmp_path, configured, torch.ones(2, 4))
    assert "for layer in self.layers:" in text and "for _ in range(config.depth)" in text
    assert text.count("enumerate") == 1


@dataclass
class Sizes:
    """What is None is computed."""

    width: int = 8
    heads: int = 2
    head_dim: int | None = None
    inner: int | None = None
    unread: int | None = None
    named: str | None = None

    def __post_init__(self):
        if self.head_dim is None:
            self.head_dim = self.width // self.heads
        self.inner = 4 * self.head_dim if self.inner is None else self.inner
        if self.unread is None:
            self.unread = 3
        if self.named is None:
            self.named = "gelu".upper()


class Stage:
    def __init__(self, width, out=None):
        if out is None:
            out = 2 * width
        self.width = width
        self.out = out


class Sized(nn.Module):
    def __init__(self, config, stages):
        super().__init__()
        if not all(isinstance(s, Stage) for s in stages):
            raise TypeError("stages are made of Stage")
        self.first = nn.Linear(config.heads * config.head_dim, config.inner)
        self.second = nn.Linear(config.inner, config.width)
        self.stages = nn.ModuleList(nn.Linear(s.width, s.out) for s in stages)

    def forward(self, x):
        x = self.second(self.first(x))
        return [stage(x) for stage in self.stages]


def sized():
    return Sized(Sizes(), [Stage(8), Stage(8, 16), Stage(8, 3)])


def sized_by_hand():
    return Sized(Sizes(width=6, head_dim=5), [Stage(6)])


def test_what_a_configuration_computes_it_computes_in_the_port(tmp_path):
    text, rules = _source(tmp_path, sized, torch.ones(2, 8))
    assert not rules
    made = {}
    exec(
        text.partition("@dataclass")[1] + text.partition("@dataclass")[2].partition("class Sized")[0],
        {"dataclass": dataclass},
        made,
    )
    assert vars(made["Sizes"]()) == {"width": 8, "heads": 2, "head_dim": 4, "inner": 16}
    assert vars(made["Sizes"](width=16, inner=5)) == {"width": 16, "heads": 2, "head_dim": 8, "inner": 5}
    assert "Sizes()" in text.partition("def build_model")[2]
    assert "stages are made of" not in text
    text, _ = _source(tmp_path, sized_by_hand, torch.ones(2, 10))
    assert "Sizes(width=6, head_dim=5)" in text


def test_what_is_read_of_a_configurations_code():
    assert derived_fields(Sizes) == (
        ("head_dim", "self.width // self.heads"),
        ("inner", "4 * self.head_dim"),
        ("unread", "3"),
    )
    assert derived_fields(Stage) == (("out", "2 * self.width"),)
    assert derived_fields(Settings) == ()
    assert derived_fields(int) == ()


def make_aa(layer, channels, enable=True, noop=nn.Identity):
    if layer is None or not enable:
        return noop()
    return layer.by_name("aa")(channels)


class Plane(nn.Module):
    def __init__(self, width, out, stride=1, dilation=1, act=nn.ReLU, aa=None):
        super().__init__()
        use_aa = aa is not None and stride == 2
        self.conv = nn.Conv2d(width, out, 3, 1 if use_aa else stride, dilation, dilation)
        self.act = act()
        self.aa = make_aa(aa, out, enable=use_aa)

    def forward(self, x):
        return self.aa(self.act(self.conv(x)))


def make_planes(widths, dilation=1, stride=1, device=None, dtype=None, **kwargs):
    dd = {"device": device, "dtype": dtype}
    planes = []
    for i, width in enumerate(widths[:-1]):
        settings = dict(stride=stride if i == 0 else 1, act=kwargs.get("act"), **kept(dd))
        more = {"dilation": dilation * 1, "aa": kwargs.get("aa")}
        planes.append(Plane(width, widths[i + 1], **settings, **more))
    return planes


def kept(options):
    return {key: value for key, value in options.items() if value is not None}


class Planes(nn.Module):
    def __init__(self, widths=(3, 4, 5), dilation=1, stride=2, act=nn.ReLU, aa=None):
        super().__init__()
        self.planes = nn.Sequential(*make_planes(widths, dilation, stride, act=act, aa=aa))

    def forward(self, x):
        return self.planes(x)


def test_keywords_of_a_constructor_stay_expressions_and_a_lost_option_goes_with_all_that_hands_it_on(tmp_path):
    text, rules = _source(tmp_path, Planes, torch.ones(2, 3, 8, 8))
    assert not rules
    assert "dilation=dilation * 1" in text and "act=act" in text
    assert "aa=" not in text and "use_aa" not in text
    assert "nn.Conv2d(width, out, 3, stride, " in text


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


class Halved(nn.Module):
    def forward(self, x):
        return x.cpu().numpy() / 2


SCALES = {"double": Doubled, "half": Halved}


def by_name(name):
    if name is None:
        return nn.Identity
    return SCALES[name]


class Named(nn.Module):
    def __init__(self, scale="double"):
        super().__init__()
        self.scale = by_name(scale)()

    def forward(self, x):
        return self.scale(x)


def test_a_table_that_is_asked_by_a_parameter_stays_one(tmp_path):
    """With what ran: another name is an error in the port, not the class that was seen."""
    text, rules = _source(tmp_path, Named, torch.ones(2))
    assert not rules
    assert 'SCALES = {"double": Doubled}' in text and "return SCALES[name]" in text


class Builder:
    """Nothing of it is left in the port: the layers are written where they stand."""

    def __init__(self, act):
        self.act = act
        self.made = []

    def __call__(self, widths):
        for a, b in pairwise(widths):
            self.made.append(nn.Sequential(nn.Linear(a, b), self.act()))
        return self.made


class Made(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        builder = Builder(nn.ReLU)
        self.blocks = nn.Sequential(*builder([width, 3, 2]))

    def forward(self, x):
        return self.blocks(x)


def test_a_builder_that_nothing_asks_is_not_made(tmp_path):
    text, _ = _source(tmp_path, Made, torch.ones(2, 4))
    assert "Builder" not in text and "builder" not in text


class Truncated(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 4))
        trunc_normal_(self.weight, std=0.02)
        self.layer = nn.Linear(4, 4)
        trunc_normal_(self.layer.weight)

    def forward(self, x):
        return self.layer(x) @ self.weight.T


def test_an_initialisation_of_a_library_writes_the_parameter_itself(tmp_path):
    text, rules = _source(tmp_path, Truncated, torch.ones(2, 4))
    assert not rules
    assert "self.weight.set_data(" in text and "self.layer.weight.set_data(" in text and "Tensor(" not in text
