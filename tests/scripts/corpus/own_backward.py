import torch, torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
torch.manual_seed(0)
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x); ctx.k = k
        return x.clamp(min=0) * k
    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        g = grad_output.clone()
        g[x < 0] = 0
        return 0.5 * g * ctx.k, None
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(torch.linspace(-1, 1, 40).view(10, 4), freeze=False)
        self.rnn = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 5)
        self.drop = nn.Dropout2d(0.3)
        self.fc = nn.Linear(5, 3)
    def forward(self, x, lengths):
        x = self.emb(x)
        p = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = self.rnn(p)
        out, n = pad_packed_sequence(out, batch_first=True)
        out = Scaled.apply(out, 2.0)
        q, h = self.gru(pack_padded_sequence(out.transpose(0, 1), n, enforce_sorted=False))
        return F.dropout(self.drop(self.fc(h[-1])), p=0.2, training=self.training)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.05)
x = torch.randint(0, 10, (4, 6)); y = torch.tensor([0, 1, 2, 1])
lengths = [3, 6, 2, 5]
for step in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(net(x, lengths), y)
    loss.backward()
    opt.step()
    print(step, f'{loss.item():.5f}', net.rnn.weight_ih_l0.grad.abs().sum().item())
w1 = torch.randn(4, 3, requires_grad=True)
for t in range(3):
    loss = (torch.ones(2, 4).mm(w1).clamp(min=0) - 1).pow(2).sum()
    print(t, loss.item())
    loss.backward()
    with torch.no_grad():
        w1 -= 0.01 * w1.grad
        w1.grad.zero_()
