"""Operators in neuraloperator's own Trainer, with its losses and data processor; its model in our evaluation."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from operformer import FANO, TNO, Grid, Increment, Smoothing, ViTNO, load
from operformer.errors import DataError, UsageError
from operformer.evaluation.errors import evaluate
from operformer.evaluation.loss import relative_l2
from operformer.problems import Darcy
from operformer.sharing.neuralop import AsNeuralop, UniformOnly, as_neuralop, carry_normalizers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    neuralop = pytest.importorskip("neuralop")
    from neuralop.data.transforms.data_processors import DefaultDataProcessor
    from neuralop.data.transforms.normalizers import UnitGaussianNormalizer
    from neuralop.losses import H1Loss, LpLoss
    from neuralop.training import Trainer

pytestmark = pytest.mark.filterwarnings("ignore")  # its losses warn of the x that its own Trainer gives them
SMALL = {"in_channels": 1, "out_channels": 1, "hidden_channels": 8, "n_layers": 1, "n_heads": 2}


@pytest.fixture(scope="module")
def samples():
    return Darcy("piecewise", n_modes=64).sample(32, 16, seed=3).to(dtype=torch.float32)


def fitted(values, dim=(0, 2, 3)):
    normalizer = UnitGaussianNormalizer(dim=list(dim))
    normalizer.fit(values)
    return normalizer


def train(operator, samples, loss, epochs=6, **options):
    """Some epochs by neuraloperator's Trainer: the loss of each, and its data processor."""
    torch.manual_seed(0)
    pairs = [{"x": u, "y": z} for u, z in zip(samples.u, samples.z, strict=True)]
    processor = DefaultDataProcessor(fitted(samples.u), fitted(samples.z))
    model = as_neuralop(operator, kind="cells")
    trainer = Trainer(model=model, n_epochs=epochs, data_processor=processor)
    losses, one_epoch = [], trainer.train_one_epoch

    def recorded(*arguments):
        losses.append(one_epoch(*arguments))
        return losses[-1]

    trainer.train_one_epoch = recorded
    optimizer = torch.optim.AdamW(operator.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    loader = DataLoader(pairs, batch_size=4, shuffle=True)
    judged = {"l2": LpLoss(d=2)}
    tests = {"16": DataLoader(pairs, batch_size=8)}
    metrics = trainer.train(loader, tests, optimizer, scheduler, training_loss=loss, eval_losses=judged, **options)
    return [average for _, average, *_ in losses], processor, metrics


@pytest.mark.parametrize(
    ("make", "loss", "fall"),
    [
        (lambda: FANO((2, 2), 3, **SMALL), H1Loss(d=2), 0.9),
        (lambda: ViTNO((2, 2), 3, **SMALL), LpLoss(d=2), 0.95),
        (lambda: TNO(2, **SMALL), LpLoss(d=2), 0.99),  # it starts slowly
    ],
)
def test_operators_train_in_its_trainer(make, loss, fall, samples, tmp_path):
    torch.manual_seed(1)
    operator = make()
    losses, processor, metrics = train(operator, samples, loss, save_every=1, save_dir=tmp_path / "theirs")
    print("losses of the epochs:", losses)
    assert losses[1] < losses[0]
    assert losses[-1] < fall * losses[0]
    # What it calls the test error is ours, of an operator that carries its normalisation and needs no processor.
    carry_normalizers(operator, processor)
    operator.save_pretrained(tmp_path / "ours")
    z = load(tmp_path / "ours")(samples.u, samples.grid)
    ours = relative_l2(z, samples.z, samples.grid).mean()
    torch.testing.assert_close(ours, torch.as_tensor(metrics["16_l2"], dtype=ours.dtype), atol=0, rtol=1e-4)
    # Its own checkpoint goes on.
    again = make()
    more, _, _ = train(again, samples, loss, epochs=7, resume_from_dir=tmp_path / "theirs")
    assert len(more) == 2  # the last one again, and another
    assert more[0] < losses[0]


def test_the_kind_of_grid_is_the_one_that_was_said():
    torch.manual_seed(2)
    operator = TNO(2, **SMALL).eval()
    operator.domain_extent.copy_(torch.tensor([2.0, 3.0]))
    x = torch.randn(2, 1, 5, 7)
    for kind in ("nodes", "cells", "periodic"):
        expected = operator(x, Grid.uniform((5, 7), [(0, 2), (0, 3)], kind))
        torch.testing.assert_close(as_neuralop(operator, kind)(x=x, y=x, other=3), expected, atol=0, rtol=0)
    torch.testing.assert_close(as_neuralop(operator)(x), operator(x), atol=0, rtol=0)
    with pytest.raises(UsageError, match="nodes, cells, periodic"):
        as_neuralop(operator, "scattered")


def test_normalizers_are_composed_with_what_the_operator_has():
    torch.manual_seed(3)
    operator = TNO(2, 2, 3, hidden_channels=4, n_layers=1, n_heads=1).double().eval()
    for buffer in ("input_mean", "input_scale", "output_mean", "output_scale"):
        getattr(operator, buffer).uniform_(0.5, 2.0)
    x, y = torch.randn(7, 2, 5, 3).double() * 4 + 1, torch.randn(7, 3, 5, 3).double() * 5 - 2
    processor = DefaultDataProcessor(fitted(x), fitted(y, dim=(0, 1, 2, 3)))  # by channel, and one for all
    processor.eval()
    given = processor.preprocess({"x": x, "y": y})
    expected, _ = processor.postprocess(operator(given["x"]), given)
    carry_normalizers(operator, processor)
    torch.testing.assert_close(operator(x), expected, atol=1e-10, rtol=1e-10)


def test_numbers_for_each_point_are_refused():
    processor = DefaultDataProcessor(fitted(torch.randn(7, 1, 5, 3), dim=(0,)))
    with pytest.raises(UsageError, match=r"in_normalizer has shape \(1, 1, 5, 3\)"):
        carry_normalizers(TNO(2, **SMALL), processor)


def test_its_own_model_runs_in_our_evaluation(samples):
    torch.manual_seed(4)
    theirs = neuralop.models.FNO((6, 6), 1, 1, hidden_channels=6, n_layers=1)
    found = evaluate(UniformOnly(theirs), samples, "1x")
    with torch.no_grad():
        difference = (theirs(samples.u) - samples.z).flatten(1)
    expected = difference.norm(dim=1) / samples.z.flatten(1).norm(dim=1)  # cells have equal weights
    torch.testing.assert_close(torch.tensor(found.errors), expected, atol=1e-5, rtol=1e-5)
    assert found.h1 is not None
    assert found.jumps is None


def test_tensors_may_lie_on_any_grid():
    torch.manual_seed(2)
    operator, u = TNO(1, **SMALL), torch.randn(2, 1, 5)
    graded = Grid.rectilinear([0, 0.1, 0.3, 0.6, 1])
    assert torch.equal(as_neuralop(operator, graded)(u), operator(u, graded))
    assert torch.equal(as_neuralop(operator, "left")(u), operator(u, Grid.uniform(5, kind="left")))
    with pytest.raises(UsageError, match="kind must be a Grid or one of nodes, cells, periodic, left"):
        as_neuralop(operator, "rectilinear")


@pytest.mark.parametrize("kind", ["cells", Grid.scattered(torch.rand(35, 2), torch.rand(35))])
def test_a_model_comes_from_its_checkpoint(kind, tmp_path):
    """As neuraloperator's models do, from a folder of its Trainer; without unpickling anything that could run."""
    torch.manual_seed(5)
    model = as_neuralop(Increment(TNO(2, **SMALL, sources=9)), kind).double().eval()
    model.operator.operator.output_scale.fill_(3.0)
    model.save_checkpoint(tmp_path, "best_model")
    assert {path.name for path in tmp_path.iterdir()} == {"best_model_state_dict.pt", "best_model_metadata.pkl"}
    again = AsNeuralop.from_checkpoint(tmp_path, "best_model").eval()
    x = torch.randn(2, 1, *((5, 7) if kind == "cells" else (35,))).double()
    torch.testing.assert_close(again(x), model(x), atol=0, rtol=0)
    with pytest.raises(DataError, match=r"there is no file .*model_state_dict\.pt"):
        AsNeuralop.from_checkpoint(tmp_path, "model")
    (tmp_path / "best_model_metadata.pkl").write_bytes(b"not a file of torch")
    with pytest.raises(DataError, match="is no checkpoint of as_neuralop"):
        AsNeuralop.from_checkpoint(tmp_path, "best_model")


def test_inside_its_uncertainty_operator(tmp_path):
    torch.manual_seed(6)
    models = (as_neuralop(TNO(2, **SMALL), "cells") for _ in range(2))
    both = neuralop.models.UQNO(base_model=next(models), residual_model=next(models)).eval()
    both.save_checkpoint(tmp_path, "uqno")
    again, x = neuralop.models.UQNO.from_checkpoint(tmp_path, "uqno").eval(), torch.randn(2, 1, 5, 7)
    for found, expected in zip(again(x), both(x), strict=True):
        torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_an_output_that_is_zero_at_the_boundary_is_not_moved(samples):
    torch.manual_seed(7)
    operator = FANO((2, 2), 3, **SMALL, last=Smoothing("dirichlet"))
    with pytest.raises(UsageError, match="at the boundary, and this operator's are zero there; train it without"):
        train(operator, samples, LpLoss(d=2), epochs=1)
    model = as_neuralop(operator, "cells").train()
    model(x=samples.u, y=samples.z)  # as they are, they are learned
    processor = DefaultDataProcessor(fitted(samples.u), fitted(samples.z))
    with pytest.raises(UsageError, match="the output normalizer adds a mean"):
        carry_normalizers(operator, processor)
