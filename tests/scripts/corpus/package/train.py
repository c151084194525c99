#!/usr/bin/env python
import argparse
import os
import sys

import torch
import yaml_free_config as config
from torch.utils.data import DataLoader

from data import build_dataset
from models import build_model
from utils import AverageMeter, accuracy, save_checkpoint, set_seed
from utils.losses import FocalLoss


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', default='small', choices=['small', 'wide'])
    parser.add_argument('--epochs', type=int, default=config.EPOCHS)
    parser.add_argument('--resume', default='')
    return parser.parse_args()


def train_one_epoch(model, criterion, optimizer, loader, device, epoch, scaler=None):
    losses, top1 = AverageMeter(), AverageMeter()
    model.train()
    for step, (samples, targets) in enumerate(loader):
        samples, targets = samples.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=scaler is not None):
            outputs = model(samples)
            loss = criterion(outputs, targets)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        losses.update(loss.item(), samples.size(0))
        top1.update(accuracy(outputs, targets), samples.size(0))
        print(f'epoch {epoch} step {step} loss {losses.val:.4f} acc {top1.avg:.2f}')


def main():
    args = parse_args()
    set_seed(config.SEED)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    loader = DataLoader(build_dataset(config.SAMPLES), batch_size=config.BATCH, shuffle=True)
    model = build_model(args.model, num_classes=config.CLASSES).to(device)
    criterion = FocalLoss(gamma=2.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.LR)
    start = 0
    if args.resume and os.path.exists(args.resume):
        state = torch.load(args.resume, map_location=device)
        model.load_state_dict(state['model'])
        optimizer.load_state_dict(state['optimizer'])
        start = state['epoch'] + 1
        print('resumed at', start)
    for epoch in range(start, args.epochs):
        train_one_epoch(model, criterion, optimizer, loader, device, epoch)
        save_checkpoint({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': epoch}, 'last.pth')


if __name__ == '__main__':
    sys.exit(main())
