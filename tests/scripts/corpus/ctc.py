"""CTC speech recognition on made-up spectrograms: padding in collate_fn, GRU, OneCycleLR."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data as data
import numpy as np


def data_processing(samples):
    spectrograms, labels, input_lengths, label_lengths = [], [], [], []
    for spec, label in samples:
        spectrograms.append(spec)
        labels.append(label)
        input_lengths.append(spec.shape[0])
        label_lengths.append(len(label))
    spectrograms = nn.utils.rnn.pad_sequence(spectrograms, batch_first=True)
    labels = nn.utils.rnn.pad_sequence(labels, batch_first=True)
    return spectrograms, labels, input_lengths, label_lengths


class Speech(data.Dataset):
    def __init__(self, n):
        rng = np.random.RandomState(5)
        self.items = [(rng.randn(rng.randint(14, 18), 8).astype('float32'), rng.randint(1, 6, rng.randint(2, 5))) for _ in range(n)]

    def __getitem__(self, i):
        spec, label = self.items[i]
        return torch.from_numpy(spec), torch.LongTensor(label)

    def __len__(self):
        return len(self.items)


class Model(nn.Module):
    def __init__(self, n_feats=8, hidden=12, n_class=6):
        super(Model, self).__init__()
        self.fc = nn.Linear(n_feats, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.gru = nn.GRU(hidden, hidden, num_layers=1, batch_first=True, bidirectional=True)
        self.classifier = nn.Sequential(nn.Linear(hidden * 2, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, n_class))

    def forward(self, x):
        x = F.gelu(self.norm(self.fc(x)))
        x, _ = self.gru(x)
        return self.classifier(x)


def main(learning_rate=5e-3, batch_size=4, epochs=2):
    torch.manual_seed(7)
    loader = data.DataLoader(dataset=Speech(12), batch_size=batch_size, shuffle=True, collate_fn=lambda x: data_processing(x))
    model = Model()
    print('Num Model Parameters', sum([param.nelement() for param in model.parameters()]))
    optimizer = optim.AdamW(model.parameters(), learning_rate)
    criterion = nn.CTCLoss(blank=0)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=learning_rate, steps_per_epoch=int(len(loader)), epochs=epochs, anneal_strategy='linear')
    for epoch in range(1, epochs + 1):
        model.train()
        for batch_idx, _data in enumerate(loader):
            spectrograms, labels, input_lengths, label_lengths = _data
            optimizer.zero_grad()
            output = model(spectrograms)  # (batch, time, n_class)
            output = F.log_softmax(output, dim=2)
            output = output.transpose(0, 1)  # (time, batch, n_class)
            loss = criterion(output, labels, torch.tensor(input_lengths), torch.tensor(label_lengths))
            loss.backward()
            optimizer.step()
            scheduler.step()
            print('Train Epoch: {} [{}/{}]\tLoss: {:.5f}'.format(epoch, batch_idx, len(loader), loss.item()))


if __name__ == "__main__":
    main()
