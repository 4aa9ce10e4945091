"""A training loop of PyTorch alone: samples are its dataset, an operator is its module."""

import torch
from torch.utils.data import DataLoader, random_split

import operformer
from operformer.evaluation.errors import relative_errors
from operformer.evaluation.loss import relative_l2
from operformer.problems import Darcy
from operformer.training.normalisation import fit_normalisation

samples = Darcy("lognormal").sample(144, 16).to(dtype=torch.float32)  # or operformer.open_pairs(folder), from disk
train, test = samples[:128], samples[128:]

torch.manual_seed(0)
operator = operformer.SpectralOperator((8, 8), 1, 1, hidden_channels=16, n_layers=3, basis="cosine")
fit_normalisation(operator, train)  # physical units in and out, by buffers that are saved with the weights
optimizer = torch.optim.AdamW(operator.parameters(), lr=3e-3)

for epoch in range(6):
    for u, z in DataLoader(train, batch_size=8, shuffle=True, num_workers=0):
        loss = relative_l2(operator(u, samples.grid), z, samples.grid).mean()  # one grid, one object: tables are kept
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: error on 16 test samples: {relative_errors(operator, test).mean():.1%}")

# Any tool for datasets does: parts, other samplers, batches that carry their grid.
part, _ = random_split(train, [100, 28])
batch = train[[3, 14, 15]]
print(f"{len(part)} samples of {len(train)}; {batch}")
operator.save_pretrained("runs/plain")
