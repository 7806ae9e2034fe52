"""Train until proven right: wrong and undecided inputs go back into training until none are left."""

import torch
from torch import nn

import exactformer as ef

TOKENS, LENGTH = 8, 3


class Net(nn.Module):
    """An encoder layer that is to answer with the largest of its tokens."""

    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.readout = nn.Embedding(TOKENS, width), nn.Linear(width, TOKENS)
        self.layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)

    def forward(self, ids):
        return self.readout(self.layer(self.embedding(ids)).mean(1))


torch.manual_seed(0)
net, hard = Net(), torch.zeros(0, LENGTH, dtype=torch.long)
for turn in range(10):
    optimiser = torch.optim.Adam(net.train().parameters(), 3e-3)
    for _ in range(150):
        ids = torch.randint(TOKENS, (192, LENGTH))
        if len(hard):
            ids = torch.cat([ids, hard[torch.randint(len(hard), (64,))]])
        right = ids.amax(1)
        logits = net(ids) - 3.0 * nn.functional.one_hot(right, TOKENS)  # right only if right by 3
        loss = nn.functional.cross_entropy(logits, right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    verdict = ef.verify(net.eval(), max, vocabulary=range(TOKENS), length=LENGTH)
    print(f"turn {turn}: {verdict.wrong} wrong, {verdict.doubtful} undecided of {verdict.total}")
    if verdict.agrees:
        break
    found = [case.tokens for case in (*verdict.counterexamples, *verdict.undecided)]
    hard = torch.cat([hard, torch.tensor(found)])
print(verdict)
