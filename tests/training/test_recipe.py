"""A training's settings: the same checks from Python as on the command line."""

import pytest

from operformer import Training, train
from operformer.errors import UsageError
from operformer.runs import parse

WRONG = {
    "optimizer": "adam",
    "schedule": "onecycle",
    "loss": "H1",
    "strategy": "dp",
    "averages": "fp16",
    "products": "tf16",
    "resolutions": "all",
    "batches": "samples",
    "device": "gpu",
    "epochs": 2.5,
    "batch_size": 0,
    "learning_rate": float("nan"),
    "clip_norm": "1",
    "augment": 1,
}


@pytest.mark.parametrize(("name", "value"), WRONG.items(), ids=WRONG)
def test_a_wrong_setting_is_refused_in_the_same_words_from_python_and_from_a_file(name, value):
    with pytest.raises(UsageError, match=f"training.{name} must") as from_python:
        Training(**{name: value})
    with pytest.raises(UsageError) as from_file:
        parse({"problem": {"name": "Lorenz63"}, "training": {name: value}})
    assert str(from_python.value) == str(from_file.value)


def test_a_training_needs_settings_and_an_operator(tmp_path, pairs, make_operator):
    with pytest.raises(UsageError, match="settings must be a Training: got"):
        train(make_operator(), pairs(3), pairs(2), {"epochs": 1}, tmp_path / "run")
    with pytest.raises(UsageError, match="operator must be an Operator"):
        train("TNO", pairs(3), pairs(2), Training(epochs=1), tmp_path / "run")
    assert not (tmp_path / "run").exists()
