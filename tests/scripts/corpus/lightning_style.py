"""A trainer class in Lightning's style, written out: hooks by name, two optimizers in a list."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class BaseModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def log(self, name, value):
        self.history.append((name, float(value)))

    def training_step(self, batch, batch_idx):
        raise NotImplementedError

    def configure_optimizers(self):
        raise NotImplementedError


class AutoEncoder(BaseModule):
    def __init__(self, width=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 2))
        self.decoder = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.encoder(x)

    def training_step(self, batch, batch_idx):
        (x,) = batch
        z = self.encoder(x)
        x_hat = self.decoder(z)
        loss = F.mse_loss(x_hat, x)
        self.log('train_loss', loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        return F.mse_loss(self.decoder(self(x)), x)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


class Trainer:
    def __init__(self, max_epochs=2, device='cpu', accumulate_grad_batches=1):
        self.max_epochs = max_epochs
        self.device = torch.device(device)
        self.accumulate = accumulate_grad_batches

    def fit(self, model, train_loader, val_loader=None):
        self.model = model.to(self.device)
        optimizers, schedulers = self.model.configure_optimizers()
        self.optimizer = optimizers[0]
        for epoch in range(self.max_epochs):
            self.model.train()
            for i, batch in enumerate(train_loader):
                batch = [t.to(self.device) for t in batch]
                loss = self.model.training_step(batch, i)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                print(f'epoch {epoch} batch {i} train_loss {loss:.4f}')
            for s in schedulers:
                s.step()
            if val_loader is not None:
                self.validate(epoch, val_loader)

    @torch.no_grad()
    def validate(self, epoch, loader):
        self.model.eval()
        losses = [self.model.validation_step([t.to(self.device) for t in batch], i) for i, batch in enumerate(loader)]
        print(f'epoch {epoch} val_loss {torch.stack(losses).mean().item():.4f}')


if __name__ == '__main__':
    torch.manual_seed(0)
    x = torch.randn(24, 10)
    train = DataLoader(TensorDataset(x[:18]), batch_size=6, shuffle=True)
    val = DataLoader(TensorDataset(x[18:]), batch_size=6)
    model = AutoEncoder()
    Trainer(max_epochs=2).fit(model, train, val)
    print(len(model.history), model.history[0][0])
