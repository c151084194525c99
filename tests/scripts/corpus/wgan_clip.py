import torch
import torch.nn as nn
from torch.autograd import Variable

cuda = True if torch.cuda.is_available() else False
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(5, 8, normalize=False),
            *block(8, 16),
            nn.Linear(16, 9),
            nn.Tanh()
        )

    def forward(self, z):
        img = self.model(z)
        img = img.view(img.shape[0], *(1, 3, 3))
        return img


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.model = nn.Sequential(nn.Linear(9, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))

    def forward(self, img):
        img_flat = img.view(img.shape[0], -1)
        return self.model(img_flat)


generator = Generator()
discriminator = Discriminator()
if cuda:
    generator.cuda()
    discriminator.cuda()

torch.manual_seed(3)
images = torch.rand(24, 1, 3, 3)
dataloader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images), batch_size=6, shuffle=True)
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=0.00005)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=0.00005)

batches_done = 0
for epoch in range(2):
    for i, (imgs,) in enumerate(dataloader):
        # Configure input
        real_imgs = Variable(imgs)

        # ---------------------
        #  Train Discriminator
        # ---------------------
        optimizer_D.zero_grad()
        z = torch.randn(imgs.shape[0], 5)
        fake_imgs = generator(z).detach()
        # Adversarial loss
        loss_D = -torch.mean(discriminator(real_imgs)) + torch.mean(discriminator(fake_imgs))
        loss_D.backward()
        optimizer_D.step()

        # Clip weights of discriminator
        for p in discriminator.parameters():
            p.data.clamp_(-0.01, 0.01)

        # Train the generator every n_critic iterations
        if i % 2 == 0:
            optimizer_G.zero_grad()
            # Generate a batch of images
            gen_imgs = generator(z)
            loss_G = -torch.mean(discriminator(gen_imgs))
            loss_G.backward()
            optimizer_G.step()
            print("[Epoch %d] [Batch %d/%d] [D loss: %f] [G loss: %f]"
                  % (epoch, batches_done % len(dataloader), len(dataloader), loss_D.item(), loss_G.item()))
        batches_done += 1
