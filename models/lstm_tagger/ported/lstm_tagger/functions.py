"""What the model needs and MindSpore has no single call for. Copied by ms-port 0.1.0."""

from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal


class Embedding(nn.Embedding):
    """An embedding whose padding row starts as zeros and gets no gradient through the look-up, as in torch."""

    def __init__(self, vocab_size: int, embedding_size: int, padding_idx: int) -> None:
        row = padding_idx if padding_idx >= 0 else vocab_size + padding_idx
        super().__init__(vocab_size, embedding_size, embedding_table=Normal(1.0), padding_idx=row)

    def construct(self, ids: Tensor) -> Tensor:
        out = ops.gather(self.embedding_table, ids, 0)
        return ops.where((ids == self.padding_idx).expand_dims(-1), ops.stop_gradient(out), out)
