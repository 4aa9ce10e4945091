"""The encoder against its recurrence, one number at a time (Section 4.1, equations recurrence_enc_def to NN)."""

import math

import numpy as np
import pytest
import torch

from operformer.errors import UsageError
from operformer.operators.attention import Measure, MultiHeadAttention, SelfAttention, log_density
from operformer.operators.encoder import EncoderLayer, PointwiseLift, UniversalLayer


def linear(v, state, name):
    """W v + b at each point."""
    out = v @ state[name + ".weight"].T
    return out + state[name + ".bias"] if name + ".bias" in state else out


def gelu(v):
    """f(s) = s Phi(s), Phi the normal distribution function."""
    return np.vectorize(lambda s: 0.5 * s * (1 + math.erf(s / math.sqrt(2))))(v)


def layer_norm(v, state, name, eps):
    """Equations (LN) and (LN_meanvar): the variance over channels divides by d_model."""
    out = np.empty_like(v)
    for i in range(len(v)):
        mean = sum(v[i]) / len(v[i])
        variance = sum((s - mean) ** 2 for s in v[i]) / len(v[i])
        for k in range(len(v[i])):
            normal = (v[i, k] - mean) / math.sqrt(variance + eps)
            out[i, k] = state[name + ".weight"][k] * normal + state[name + ".bias"][k]
    return out


def average(query, key, value, weights, scale):
    """E_{y ~ p}[V v(y)] with the integrals replaced by sums with weights (Definition 4)."""
    out = np.zeros((len(query), value.shape[1]))
    for i in range(len(query)):
        total = 0.0
        for j in range(len(key)):
            density = weights[j] * math.exp(scale * float(query[i] @ key[j]))
            out[i] += density * value[j]
            total += density
        out[i] /= total
    return out


def multi_head(v, state, name, weights, n_heads, source=None):
    """Equation (multihead1), one head after the other, d_K = d_model / H."""
    source = v if source is None else source
    query, key, value = (
        linear(v, state, name + ".query"),
        *(linear(source, state, name + s) for s in (".key", ".value")),
    )
    size = v.shape[1] // n_heads
    heads = []
    for h in range(n_heads):
        rows = slice(h * size, (h + 1) * size)
        heads.append(average(query[:, rows], key[:, rows], value[:, rows], weights, 1 / math.sqrt(size)))
    return linear(np.concatenate(heads, 1), state, name + ".merge")


def encoder_layer(v, state, name, weights, n_heads, eps, source=None):
    """The four steps of equation (recurrence_enc_def); W_1 and W_2 are the identity unless the state holds them."""
    has_skips = name + "skip_1.weight" in state
    v = (linear(v, state, name + "skip_1") if has_skips else v) + multi_head(
        v, state, name + "attention", weights, n_heads, source
    )
    v = layer_norm(v, state, name + "norm_1", eps)
    inner = gelu(linear(v, state, name + "feed_forward.0"))
    v = (linear(v, state, name + "skip_2") if has_skips else v) + linear(inner, state, name + "feed_forward.2")
    return layer_norm(v, state, name + "norm_2", eps)


def as_arrays(module):
    return {name: tensor.double().numpy() for name, tensor in module.state_dict().items()}


def randomise(module, seed):
    """Weights with nothing special about them: the LayerNorms' affine maps too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise / math.sqrt(parameter.shape[-1]) if parameter.ndim == 2 else 1 + 0.3 * noise)
    return module


def latent(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHTS = torch.tensor([0.5, 2.0, 0.1, 1.0, 3.0, 0.0, 0.7], dtype=torch.float64)
MEASURE = Measure(log_density(WEIGHTS))


@pytest.mark.parametrize("learnable_skips", [False, True])
def test_a_layer_is_the_recurrence(learnable_skips):
    layer = randomise(EncoderLayer(MultiHeadAttention(15, 3), 15, learnable_skips).double(), seed=1)
    v = latent(2, 7, 15)
    out = layer(v, MEASURE).detach()
    for b in range(2):
        expected = encoder_layer(v[b].numpy(), as_arrays(layer), "", WEIGHTS.numpy(), 3, layer.norm_1.eps)
        np.testing.assert_allclose(out[b].numpy(), expected, rtol=1e-11, atol=1e-11, equal_nan=False)


def test_a_layer_reads_another_function_at_its_own_points():
    layer = randomise(EncoderLayer(MultiHeadAttention(15, 5), 15).double(), seed=2)
    v, source = latent(1, 11, 15, seed=3), latent(1, 7, 15, seed=4)
    out = layer(v, MEASURE, source).detach()[0]
    expected = encoder_layer(
        v[0].numpy(), as_arrays(layer), "", WEIGHTS.numpy(), 5, layer.norm_1.eps, source=source[0].numpy()
    )
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-11, atol=1e-11, equal_nan=False)


def test_the_epsilon_of_the_norms_counts():
    """Nearly constant channels: a variance far below eps is not blown up to one."""
    layer = randomise(EncoderLayer(MultiHeadAttention(6, 2), 6).double(), seed=5)
    with torch.no_grad():
        for parameter in layer.attention.parameters():
            parameter.mul_(1e-4)
    v = 1 + 1e-4 * latent(1, 7, 6)
    out = layer(v, MEASURE).detach()[0]
    expected = encoder_layer(v[0].numpy(), as_arrays(layer), "", WEIGHTS.numpy(), 2, layer.norm_1.eps)
    without = encoder_layer(v[0].numpy(), as_arrays(layer), "", WEIGHTS.numpy(), 2, 0.0)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-10, atol=1e-10, equal_nan=False)
    assert np.abs(without - expected).max() > 0.1


def test_the_layer_of_section_5_has_no_norms():
    """v <- W_1 v + A(v; Q, K, V);  v <- W_2 v + W_3 f(W_4 v + b_1) + b_2 (equation recurrence_enc_func_ua)."""
    layer = randomise(UniversalLayer(SelfAttention(5), 5).double(), seed=6)
    state, v = as_arrays(layer), latent(1, 7, 5)[0].numpy()
    query, key, value = (linear(v, state, f"attention.{name}") for name in ("query", "key", "value"))
    middle = linear(v, state, "skip_1") + average(query, key, value, WEIGHTS.numpy(), 1.0)
    inner = gelu(linear(middle, state, "feed_forward.0"))
    expected = linear(middle, state, "skip_2") + linear(inner, state, "feed_forward.2")
    out = layer(torch.from_numpy(v)[None], MEASURE).detach()[0]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-11, atol=1e-11, equal_nan=False)


def test_a_lift_is_told_waves():
    """W_in (u, x) + b + sum_k W_sin sin(k pi x_j) + W_cos cos(k pi x_j), the sines of an axis before its cosines."""
    lift = randomise(PointwiseLift(2, 3, 7, waves=2).double(), seed=13)
    state = as_arrays(lift)
    u, x = latent(1, 5, 2, seed=14), torch.rand(5, 3, generator=torch.Generator().manual_seed(15)).double()
    expected = linear(np.concatenate([u[0].numpy(), x.numpy()], 1), state, "linear")
    weight = state["waves.linear.weight"]
    for i in range(5):
        for axis in range(3):
            for k in (1, 2):
                angle = k * math.pi * float(x[i, axis])
                expected[i] += weight[:, 4 * axis + k - 1] * math.sin(angle)
                expected[i] += weight[:, 4 * axis + 2 + k - 1] * math.cos(angle)
    np.testing.assert_allclose(lift(u, x).detach()[0].numpy(), expected, rtol=1e-12, atol=1e-12, equal_nan=False)


@pytest.mark.parametrize("waves", [-1, 1.0, True, "8"])
def test_waves_that_make_no_sense_are_refused(waves):
    with pytest.raises(UsageError, match="waves must be a whole number of at least 0"):
        PointwiseLift(1, 1, 4, waves)
