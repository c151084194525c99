import copy
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import Dataset, DataLoader
import numpy as np


class Blobs(Dataset):
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.images = rng.rand(n, 1, 16, 16).astype(np.float32)
        self.masks = (self.images > 0.5).astype(np.float32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {'image': torch.from_numpy(self.images[i]), 'mask': torch.as_tensor(self.masks[i]).float().contiguous()}


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(2, cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, base=4):
        super().__init__()
        self.inc = DoubleConv(1, base)
        self.pool = nn.MaxPool2d(2)
        self.down = DoubleConv(base, base * 2)
        self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        self.conv = DoubleConv(base * 3, base)
        self.outc = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.up(self.down(self.pool(x1)))
        return self.outc(self.conv(torch.cat([x1, x2], dim=1)))


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.ema = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.ema.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.ema.parameters(), model.parameters()):
            e.mul_(self.decay).add_(m.detach(), alpha=1 - self.decay)


def dice_loss(pred, target, eps=1e-6):
    pred = torch.sigmoid(pred)
    inter = (pred * target).sum(dim=(1, 2, 3))
    union = pred.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return 1 - ((2 * inter + eps) / (union + eps)).mean()


def main(epochs=1, accum=2):
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    loader = DataLoader(Blobs(12), batch_size=2, shuffle=True, num_workers=0, pin_memory=True, drop_last=True)
    model = UNet().to(device=device)
    ema = ModelEMA(model)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=0)
    scaler = GradScaler(enabled=True)
    bce = nn.BCEWithLogitsLoss()
    step = 0
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad(set_to_none=True)
        for i, batch in enumerate(loader):
            images, masks = batch['image'], batch['mask']
            images = images.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            masks = masks.to(device=device, dtype=torch.float32)
            with autocast():
                logits = model(images)
                loss = bce(logits, masks) + dice_loss(logits, masks)
                loss = loss / accum
            scaler.scale(loss).backward()
            if (i + 1) % accum == 0:
                scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                ema.update(model)
                step += 1
                print(f'step {step} loss {loss.item() * accum:.5f} norm {norm:.4f}')
        model.eval()
        with torch.no_grad():
            score = -dice_loss(ema.ema(images), masks)
        scheduler.step(score)
        print(f"epoch {epoch} score {score.item():.4f} lr {optimizer.param_groups[0]['lr']:.6f}")
    torch.save({'epoch': epochs, 'model': model.state_dict(), 'ema': ema.ema.state_dict(), 'optimizer': optimizer.state_dict()}, 'ckpt.pth')


if __name__ == '__main__':
    main()
