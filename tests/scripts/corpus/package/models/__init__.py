from .nets import SmallNet, WideNet

MODELS = {'small': SmallNet, 'wide': WideNet}


def build_model(name, **kwargs):
    return MODELS[name](**kwargs)
