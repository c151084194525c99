"""A small convolutional GAN for pictures of 32 x 32."""

import torch
from torch import Tensor, nn


def init_weights(module: nn.Module) -> None:
    """Normal weights, as the DCGAN paper has them."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


class UpBlock(nn.Sequential):
    """Double the resolution."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(True),
        )


class DownBlock(nn.Sequential):
    """Halve the resolution."""

    def __init__(self, in_channels: int, out_channels: int, norm: bool = True) -> None:
        layers = [nn.Conv2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1, bias=not norm)]
        if norm:
            layers.append(nn.BatchNorm2d(out_channels))
        layers.append(nn.LeakyReLU(0.2, inplace=True))
        super().__init__(*layers)


class Generator(nn.Module):
    """Noise, (batch, latent), to pictures, (batch, channels, 32, 32), in -1 ... 1."""

    def __init__(self, latent: int = 64, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        self.project = nn.Sequential(
            nn.ConvTranspose2d(latent, width * 4, kernel_size=4, bias=False), nn.BatchNorm2d(width * 4), nn.ReLU(True)
        )
        self.up1 = UpBlock(width * 4, width * 2)
        self.up2 = UpBlock(width * 2, width)
        self.to_image = nn.ConvTranspose2d(width, channels, kernel_size=4, stride=2, padding=1)
        self.apply(init_weights)

    def forward(self, noise: Tensor) -> Tensor:
        x = self.project(noise[:, :, None, None])
        x = self.up2(self.up1(x))
        return torch.tanh(self.to_image(x))


class Discriminator(nn.Module):
    """Pictures, (batch, channels, 32, 32), to one score each, (batch,)."""

    def __init__(self, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            DownBlock(channels, width, norm=False), DownBlock(width, width * 2), DownBlock(width * 2, width * 4)
        )
        self.score = nn.Conv2d(width * 4, 1, kernel_size=4)
        self.apply(init_weights)

    def forward(self, image: Tensor) -> Tensor:
        return self.score(self.features(image)).flatten(start_dim=0)
