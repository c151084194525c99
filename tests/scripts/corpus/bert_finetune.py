"""Fine-tune a small BERT-like classifier: mask, warm-up by LambdaLR, no decay for biases and norms."""
import math
from typing import Optional

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler, random_split


class SelfAttention(nn.Module):
    def __init__(self, hidden: int, heads: int, p: float):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(p)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        new_shape = x.size()[:-1] + (self.heads, self.size)
        x = x.view(*new_shape)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states: Tensor, attention_mask: Optional[Tensor] = None) -> Tensor:
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = nn.functional.softmax(scores, dim=-1)
        context = torch.matmul(self.dropout(probs), v)
        context = context.permute(0, 2, 1, 3).contiguous()
        return context.view(*(context.size()[:-2] + (self.heads * self.size,)))


class Layer(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.attention = SelfAttention(hidden, heads, p)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)
        self.dense = nn.Linear(hidden, hidden * 2)
        self.output = nn.Linear(hidden * 2, hidden)

    def forward(self, x, mask):
        x = self.LayerNorm(x + self.attention(x, attention_mask=mask))
        return x + self.output(nn.functional.gelu(self.dense(x)))


class Classifier(nn.Module):
    def __init__(self, vocab=30, hidden=16, layers=2, labels=3):
        super().__init__()
        self.word = nn.Embedding(vocab, hidden, padding_idx=0)
        self.position = nn.Embedding(12, hidden)
        self.layers = nn.ModuleList([Layer(hidden, 2, 0.1) for _ in range(layers)])
        self.pooler = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, labels)
        self.register_buffer('position_ids', torch.arange(12).expand((1, -1)))

    def forward(self, input_ids, attention_mask, labels=None):
        length = input_ids.shape[1]
        x = self.word(input_ids) + self.position(self.position_ids[:, :length])
        mask = (1.0 - attention_mask[:, None, None, :].to(dtype=x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        logits = self.head(pooled)
        loss = None
        if labels is not None:
            loss = nn.CrossEntropyLoss()(logits.view(-1, logits.shape[-1]), labels.view(-1))
        return {'loss': loss, 'logits': logits}


class Texts(Dataset):
    def __init__(self, n=24):
        rng = np.random.RandomState(2)
        self.rows = [rng.randint(1, 30, rng.randint(4, 12)) for _ in range(n)]
        self.labels = rng.randint(0, 3, n)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, item):
        ids = np.zeros(12, dtype=np.int64)
        row = self.rows[item]
        ids[: len(row)] = row
        mask = (ids > 0).astype(np.int64)
        return {
            'input_ids': torch.tensor(ids, dtype=torch.long),
            'attention_mask': torch.tensor(mask, dtype=torch.long),
            'labels': torch.tensor(self.labels[item], dtype=torch.long),
        }


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, last_epoch=-1):
    def lr_lambda(current_step):
        if current_step < num_warmup_steps:
            return float(current_step) / float(max(1, num_warmup_steps))
        return max(0.0, float(num_training_steps - current_step) / float(max(1, num_training_steps - num_warmup_steps)))

    return LambdaLR(optimizer, lr_lambda, last_epoch)


def evaluate(model, loader):
    model.eval()
    right, total, losses = 0, 0, []
    for batch in loader:
        with torch.no_grad():
            out = model(**batch)
        losses.append(out['loss'].item())
        preds = torch.argmax(out['logits'], dim=1).flatten()
        right += (preds == batch['labels']).cpu().numpy().sum()
        total += len(preds)
    return np.mean(losses), right / total


if __name__ == '__main__':
    torch.manual_seed(42)
    dataset = Texts()
    train_set, val_set = random_split(dataset, [18, 6])
    train_loader = DataLoader(train_set, sampler=RandomSampler(train_set), batch_size=6)
    val_loader = DataLoader(val_set, sampler=SequentialSampler(val_set), batch_size=6)
    model = Classifier()
    no_decay = ['bias', 'LayerNorm.weight']
    groups = [
        {'params': [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], 'weight_decay': 0.01},
        {'params': [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], 'weight_decay': 0.0},
    ]
    optimizer = AdamW(groups, lr=2e-3, eps=1e-8)
    steps = 2 * len(train_loader)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, steps)
    for epoch in range(2):
        model.train()
        for step, batch in enumerate(train_loader):
            batch = {k: v.to('cpu') for k, v in batch.items()}
            model.zero_grad()
            outputs = model(batch['input_ids'], attention_mask=batch['attention_mask'], labels=batch['labels'])
            loss = outputs['loss']
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            print(f"epoch {epoch} step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}")
        val_loss, acc = evaluate(model, val_loader)
        print(f"val loss {val_loss:.4f} acc {acc:.3f}")
