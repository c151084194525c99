"""L-BFGS with a closure in a loop at the top level; a picture that is trained itself."""
import torch
from torch import nn, optim

torch.manual_seed(2)
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3))
for p in net.parameters():
    p.requires_grad_(False)
target = net(torch.rand(1, 1, 8, 8)).detach()
picture = torch.rand(1, 1, 8, 8).requires_grad_(True)
optimizer = optim.LBFGS([picture], lr=0.5, max_iter=4)
run = [0]
while run[0] <= 10:

    def closure():
        # correct the values of the picture
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(picture), target) * 100
        loss.backward()
        run[0] += 1
        if run[0] % 2 == 0:
            print('run {} loss {:.4f}'.format(run[0], loss.item()))
        return loss

    optimizer.step(closure)
with torch.no_grad():
    picture.clamp_(0, 1)
print('mean {:.3f}'.format(picture.mean().item()))
