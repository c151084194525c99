import argparse
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument('--gamma', type=float, default=0.99)
parser.add_argument('--seed', type=int, default=543)
args = parser.parse_args()


class Walk:
    """A walk on a line: action 1 goes right, 0 left; right is good."""

    def __init__(self):
        self.rng = np.random.RandomState(0)

    def reset(self):
        self.x, self.t = self.rng.uniform(-0.5, 0.5), 0
        return np.array([self.x, 1.0, -self.x, 0.5])

    def step(self, action):
        self.x += 0.3 if action == 1 else -0.3
        self.t += 1
        return np.array([self.x, 1.0, -self.x, 0.5]), self.x, self.t >= 5, {}


env = Walk()
torch.manual_seed(args.seed)


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 16)
        self.dropout = nn.Dropout(p=0.0)
        self.affine2 = nn.Linear(16, 2)

        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = self.affine1(x)
        x = self.dropout(x)
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=1)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = np.finfo(np.float32).eps.item()


def run_episode():
    state = env.reset()
    log_probs, rewards = [], []
    for t in count():
        probs = policy(torch.from_numpy(state).float().unsqueeze(0))
        action = int(probs.detach().numpy()[0, 1] > 0.5)
        log_probs.append(torch.log(probs[0, action]))
        state, reward, done, _ = env.step(action)
        rewards.append(reward)
        if done:
            break
    return log_probs, rewards


def main():
    running_reward = 0
    for i_episode in range(4):
        log_probs, rewards = run_episode()
        R = 0
        returns = []
        for r in rewards[::-1]:
            R = r + args.gamma * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + eps)
        policy_loss = []
        for log_prob, R in zip(log_probs, returns):
            policy_loss.append(-log_prob * R)
        optimizer.zero_grad()
        policy_loss = torch.stack(policy_loss).sum()
        policy_loss.backward()
        optimizer.step()
        running_reward = 0.05 * sum(rewards) + (1 - 0.05) * running_reward
        print('Episode {}\tLoss: {:.4f}\tAverage reward: {:.2f}'.format(i_episode, policy_loss.item(), running_reward))


if __name__ == '__main__':
    main()
