"""Pictures through random transforms, by workers; numpy's and Python's numbers are drawn without a seed of their own."""
import random

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

torch.manual_seed(0)


class Pictures(Dataset):
    def __init__(self, count, transform):
        self.pixels = np.random.randint(0, 255, (count, 20, 20, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.pixels[index])), index % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv2d(3, 8, 3, padding=1))
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.utils.weight_norm(nn.Linear(8, 3))

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


model = Net()
print(model, sum(p.numel() for p in model.parameters()))
augmented = transforms.Compose([
    transforms.RandomResizedCrop(16, scale=(0.3, 1.0), ratio=(0.8, 1.25)),
    transforms.RandomHorizontalFlip(),
    transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
    transforms.RandomRotation(10, fill=5),
    transforms.ToTensor(),
    transforms.Normalize([0.5] * 3, [0.25] * 3),
    transforms.RandomErasing(0.5),
])
loader = DataLoader(Pictures(24, augmented), batch_size=8, shuffle=True, num_workers=2)
decayed = [p for name, p in model.named_parameters() if not name.endswith("bias") and "norm" not in name]
others = [p for name, p in model.named_parameters() if name.endswith("bias") or "norm" in name]
print(len(decayed), len(others), [name for name in model.state_dict() if "norm.running" in name])
optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=0.01, weight_decay=0.5)
for epoch in range(2):
    for images, labels in loader:
        share = np.random.beta(0.4, 0.4)
        order = torch.randperm(len(labels))
        images = share * images + (1 - share) * images[order]
        output = model(images)
        loss = share * nn.functional.cross_entropy(output, labels) + (1 - share) * nn.functional.cross_entropy(output, labels[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.5f} {random.random():.4f}", images.shape, images.dtype)
print(loss)
