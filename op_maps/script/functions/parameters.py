"""Containers of parameters, indexed and walked over as torch's are."""

from mindspore import Parameter, Tensor, nn


class ListOfParameters(nn.Cell):
    """nn.ParameterList."""

    def __init__(self, values=()):
        super().__init__()
        self.extend(values or ())

    def append(self, value):
        self.insert_param_to_cell(str(len(self)), value if isinstance(value, Parameter) else Parameter(Tensor(value)))
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def __getitem__(self, index):
        return list(self._params.values())[index]

    def __setitem__(self, index, value):
        self._params[str(range(len(self))[index])] = value

    def __iter__(self):
        return iter(self._params.values())

    def __len__(self):
        return len(self._params)


class DictOfParameters(nn.Cell):
    """nn.ParameterDict."""

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters):
        for name, value in dict(parameters).items():
            self[name] = value

    def __setitem__(self, name, value):
        self.insert_param_to_cell(name, value if isinstance(value, Parameter) else Parameter(Tensor(value)))

    def __getitem__(self, name):
        return self._params[name]

    def __contains__(self, name):
        return name in self._params

    def __iter__(self):
        return iter(self._params)

    def __len__(self):
        return len(self._params)

    def keys(self):
        return self._params.keys()

    def values(self):
        return self._params.values()

    def items(self):
        return self._params.items()
