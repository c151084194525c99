"""What a training script does around the model: checkpoints, devices, processes, event files."""

import os
import time

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init


class Device(str):
    """A device as torch names it. MindSpore computes on the one that ``ms.set_device`` sets."""

    def __new__(cls, name="cpu", index=None):
        name = "cuda" if isinstance(name, int) else str(name)
        return super().__new__(cls, name if index is None else f"{name}:{index}")

    @property
    def type(self):
        return self.partition(":")[0]

    @property
    def index(self):
        number = self.partition(":")[2]
        return int(number) if number else None


def seed_besides_numpy(seed):
    """Begin MindSpore's random numbers anew; numpy's, which ``ms.set_seed`` would begin too, go on as they were."""
    state = np.random.get_state()
    ms.set_seed(seed % 2**32)
    np.random.set_state(state)


def device_count():
    """Accelerators that this process sees."""
    return 0 if ms.get_context("device_target") == "CPU" else 1


def distributed():
    """Whether a launcher started several processes."""
    return int(os.environ.get("WORLD_SIZE") or os.environ.get("RANK_SIZE") or os.environ.get("MS_WORKER_NUM") or 1) > 1


def initialized():
    return ms.communication.GlobalComm.INITED


def init_process_group(*args, **kwargs):
    """Join the processes that ``msrun`` started; alone there is nothing to join."""
    if distributed() and not initialized():
        init()
        ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)


def world_size(*args):
    return get_group_size() if initialized() else 1


def process_rank(*args):
    return get_rank() if initialized() else 0


def barrier(*args, **kwargs):
    if initialized():
        ops.AllReduce()(Tensor(np.zeros(1, np.float32)))


def all_reduce(tensor, op="sum", group=None, async_op=False):
    """Reduce over the processes in place."""
    if initialized():
        kind = {"sum": ops.ReduceOp.SUM, "mean": ops.ReduceOp.SUM, "max": ops.ReduceOp.MAX, "min": ops.ReduceOp.MIN}[op]
        total = ops.AllReduce(kind)(tensor)
        tensor.assign_value(total / world_size() if op == "mean" else total)


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run as the process that the launcher made this one: `msrun --worker_num=N train.py` starts N of them."""
    return fn(int(os.environ.get("RANK_ID") or os.environ.get("RANK") or 0), *args)


class DistributedDataParallel(nn.Cell):
    """A model whose gradients are averaged over the processes (`reduce_gradients`)."""

    def __init__(self, module, *args, **kwargs):
        super().__init__(auto_prefix=False)
        self.module = module
        self.set_train(module.training)
        for parameter in module.get_parameters():
            parameter.reduced = True
        if initialized():
            for parameter in module.get_parameters():
                parameter.set_data(ops.Broadcast(0)((parameter + 0,))[0])

    def construct(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def reduce_gradients(parameters, gradients):
    """Average the gradients of data-parallel parameters over the processes."""
    if not initialized() or world_size() == 1:
        return gradients
    reduce = ops.AllReduce()
    return tuple(reduce(g) / world_size() if getattr(p, "reduced", False) else g for p, g in zip(parameters, gradients))


class SummaryWriter:
    """Scalars to event files that TensorBoard reads (by the package `tensorboard`)."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.log_dir = log_dir or os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + comment)
        self.writer = EventFileWriter(str(self.log_dir), max_queue, flush_secs, filename_suffix)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, **kwargs):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=tag, simple_value=float(scalar_value))])
        event = Event(
            wall_time=walltime or time.time(), step=None if global_step is None else int(global_step), summary=summary
        )
        self.writer.add_event(event)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def _left_out(self, *args, **kwargs):
        """Images, graphs and histograms have no MindSpore form here; scalars are written."""

    add_image = add_images = add_figure = add_graph = add_histogram = add_text = add_hparams = add_embedding = _left_out

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def unsupported(what):
    """Stands where no MindSpore form was found: raises when it is reached."""
    raise NotImplementedError(what)


def assign(tensor, value):
    """Write into a tensor or parameter, as torch's in-place methods do; returns it."""
    value = value if isinstance(value, Tensor) else Tensor(value, tensor.dtype)
    value = value.astype(tensor.dtype) if value.dtype != tensor.dtype else value
    value = value.broadcast_to(tensor.shape) if value.shape != tensor.shape else value
    if isinstance(tensor, Parameter):
        ops.assign(tensor, value)
    else:
        tensor[...] = value
    return tensor


def as_double(cell):
    """A model in float64, for the layers that compute in it (no convolution and no BatchNorm of MindSpore does)."""
    for parameter in cell.get_parameters():
        if parameter.dtype in (ms.float16, ms.float32):
            parameter.set_dtype(ms.float64)
    for _, inner in cell.cells_and_names():
        for name, held in getattr(inner, "_buffers", {}).items():
            if held is not None and held.dtype in (ms.float16, ms.float32):
                inner._buffers[name] = held.astype(ms.float64)
    return cell


class DataParallel(nn.Cell):
    """A model under the name ``module``: one process computes on one device, so that there is nothing to split."""

    def __init__(self, module, *args, **kwargs):
        super().__init__(auto_prefix=False)
        self.module = module
        self.set_train(module.training)

    def construct(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def as_tensor(data, dtype=None):
    """A tensor of numbers, arrays or tensors, or an empty one of a size; float64 arrays stay float64."""
    if not isinstance(data, (Tensor, np.ndarray, np.generic, bool, int, float)):
        data = list(data)
    if isinstance(data, list) and any(isinstance(item, Tensor) for item in data):
        mixed = not all(isinstance(item, Tensor) for item in data)
        data = np.stack([item.asnumpy() if isinstance(item, Tensor) else np.asarray(item) for item in data])
        data = data.astype(np.float32) if mixed and data.dtype == np.float64 else data
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    if isinstance(data, (bool, int, float, list)) and dtype is None:
        array = np.asarray(data)
        return Tensor(array.astype(np.float32) if array.dtype == np.float64 else array)
    return Tensor(np.asarray(data)) if dtype is None else Tensor(np.asarray(data), dtype)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences of differing length, padded to the longest."""
    arrays = [item.asnumpy() if isinstance(item, Tensor) else np.asarray(item) for item in sequences]
    longest = max(len(item) for item in arrays)
    out = np.full((len(arrays), longest, *arrays[0].shape[1:]), padding_value, arrays[0].dtype)
    for row, item in zip(out, arrays):
        row[longest - len(item) :] = item if padding_side == "left" else row[longest - len(item) :]
        if padding_side != "left":
            row[: len(item)] = item
    return Tensor(out if batch_first else out.swapaxes(0, 1).copy())


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """Images (N, C, H, W) side by side as one image (C, H, W)."""
    images = np.stack([t.asnumpy() for t in tensor]) if isinstance(tensor, (list, tuple)) else tensor.asnumpy()
    images = np.repeat(images, 3, 1) if images.shape[1] == 1 else images
    if normalize:
        low, high = value_range if value_range is not None else (images.min(), images.max())
        images = (np.clip(images, low, high) - low) / max(high - low, 1e-5)
    columns = min(nrow, len(images))
    rows = -(-len(images) // columns)
    height, width = images.shape[2] + padding, images.shape[3] + padding
    grid = np.full((images.shape[1], height * rows + padding, width * columns + padding), pad_value, images.dtype)
    for index, image in enumerate(images):
        top, left = index // columns * height + padding, index % columns * width + padding
        grid[:, top : top + image.shape[1], left : left + image.shape[2]] = image
    return Tensor(grid)


def save_image(tensor, fp, format=None, **kwargs):
    """Write images to a picture file."""
    from PIL import Image

    grid = make_grid(tensor if len(tensor.shape) == 4 else tensor.expand_dims(0), **kwargs).asnumpy()
    Image.fromarray(np.clip(grid * 255 + 0.5, 0, 255).transpose(1, 2, 0).astype(np.uint8)).save(fp, format=format)


def parameters_to_vector(parameters):
    return ops.cat([p.reshape(-1) for p in parameters])


def name_as_torch():
    """Let normalization layers and embeddings be read by torch's names too: ``m.weight`` of a layer that is not known before."""
    norm = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
    table = {
        nn.Embedding: {"weight": "embedding_table"},
        nn.LayerNorm: dict(list(norm.items())[:2]),
        nn.GroupNorm: dict(list(norm.items())[:2]),
    }
    table |= dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), norm)
    for kind, names in table.items():
        for name, own in names.items():
            setattr(kind, name, property(lambda cell, own=own: getattr(cell, own)))


def index_by_numpy():
    """Let numpy's integers stand among the indices of a tensor, as torch does: MindSpore takes Python's only."""
    read, write = Tensor.__getitem__, Tensor.__setitem__

    def plain(index):
        if isinstance(index, tuple):
            return tuple(map(plain, index))
        if isinstance(index, slice):
            return slice(plain(index.start), plain(index.stop), plain(index.step))
        return int(index) if isinstance(index, np.integer) else index

    Tensor.__getitem__ = lambda tensor, index: read(tensor, plain(index))
    Tensor.__setitem__ = lambda tensor, index, value: write(tensor, plain(index), value)


class PortedModels(dict):
    """Builders of the models that were ported, by torchvision's name."""

    def __missing__(self, name):
        raise NotImplementedError(
            f"MSP602: {name} is not among the ported models {sorted(self)}: name it as the default of the option and run "
            f"ms-port script again, or port it: ms-port convert torchvision.models:{name}"
        )


class Context:
    """What a ``Function`` keeps between forward and backward."""

    saved_tensors = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        pass


class Function:
    """A computation with its own backward: ``apply`` runs ``forward(ctx, ...)``, its gradient is ``backward(ctx, ...)``."""

    @classmethod
    def apply(cls, *args):
        return FunctionCell(cls)(*args)


class FunctionCell(nn.Cell):
    """One call of a ``Function``."""

    def __init__(self, function):
        super().__init__(auto_prefix=False)
        self.function = function

    def construct(self, *args):
        self.context = Context()
        if not hasattr(self.function, "setup_context"):
            return self.function.forward(self.context, *args)
        result = self.function.forward(*args)
        self.function.setup_context(self.context, args, result)
        return result

    def bprop(self, *args):
        *given, _, gradient = args
        gradients = gradient if isinstance(gradient, tuple) else (gradient,)
        found = self.function.backward(self.context, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(ops.zeros_like(x) if g is None and isinstance(x, Tensor) else g for x, g in zip(given, found))
