"""Padding collate with a mask, packed lengths as a list, a bucket sampler of one's own, label smoothing."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler


class Sentences(Dataset):
    def __init__(self, n):
        rnd = random.Random(3)
        self.items = [([rnd.randrange(1, 15) for _ in range(rnd.randrange(3, 8))], rnd.randrange(2)) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        tokens, label = self.items[index]
        return torch.tensor(tokens), label


class BucketSampler(Sampler):
    def __init__(self, lengths, batch_size):
        self.order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        self.batch_size = batch_size

    def __iter__(self):
        batches = [self.order[i:i + self.batch_size] for i in range(0, len(self.order), self.batch_size)]
        random.Random(0).shuffle(batches)
        yield from batches

    def __len__(self):
        return (len(self.order) + self.batch_size - 1) // self.batch_size


class Collate:
    def __init__(self, pad=0):
        self.pad = pad

    def __call__(self, batch):
        batch.sort(key=lambda item: len(item[0]), reverse=True)
        lengths = [len(tokens) for tokens, _ in batch]
        padded = torch.zeros(len(batch), max(lengths), dtype=torch.long)
        for i, (tokens, _) in enumerate(batch):
            padded[i, :len(tokens)] = tokens
        mask = padded != self.pad
        labels = torch.tensor([label for _, label in batch])
        return padded, mask, lengths, labels


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(15, 8)
        self.score = nn.Linear(8, 1)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        scores = self.score(x).squeeze(-1)
        scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores, dim=1)
        pooled = torch.bmm(weights.unsqueeze(1), x).squeeze(1)
        return self.out(pooled)


def main():
    torch.manual_seed(5)
    random.seed(5)
    dataset = Sentences(20)
    sampler = BucketSampler([len(t) for t, _ in dataset.items], 4)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=Collate())
    model = Attend()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for epoch in range(2):
        total, right = 0.0, 0
        for tokens, mask, lengths, labels in loader:
            logits = model(tokens, mask)
            loss = criterion(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            right += int((logits.argmax(1) == labels).sum())
            print(tuple(tokens.shape), lengths[0], f'{loss.item():.4f}')
        print(f'epoch {epoch} loss {total / len(dataset):.4f} acc {right / len(dataset):.2f}')


if __name__ == '__main__':
    main()
