"""Both sides of the corpus, run from the same weights, batches and draws: what they print is equal within rounding."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from migrating import CORPUS

from ms_port.script.compare import compare, judge
from ms_port.script.migrate import migrate, write

RUNS = {
    "classify.py": "",
    "dcgan.py": "",
    "vae.py": "",
    "siamese.py": "",
    "language_model.py": "",
    "language_model.py --model Transformer": "--model Transformer",
    "unet_amp.py": "",
    "imagenet.py": "",
    "gpt.py": "",
    "bert_finetune.py": "",
    "ctc.py": "",
    "super_resolution.py": "",
    "reinforce.py": "",
    "wgan_clip.py": "",
    "wgan_gp.py": "",
    "metric_logging.py": "",
    "lbfgs_style.py": "",
    "lightning_style.py": "",
    "collate.py": "",
    "iterable.py": "",
    "mixed_types.py": "",
    "own_backward.py": "",
    "augmented.py": "",
    "adapters.py": "",
    "derived.py": "",
    "growing.py": "",
    "side_effects.py": "",
    "package/train.py": "",
}
BY_DEFAULT = {"metric_logging.py"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in BY_DEFAULT else pytest.mark.slow, id=n) for n in RUNS]
)
def test_both_sides_print_the_same(tmp_path: Path, name: str) -> None:
    entry = Path(name.split()[0])
    source = CORPUS / (entry.parts[0] if len(entry.parts) > 1 else entry)
    out = tmp_path / "out"
    write(migrate(source), source, out)
    result = compare(source, out, Path(entry.name), RUNS[name], timeout=300)
    assert result.status == "equal", result.reason
    assert result.compared >= 4


def test_judge() -> None:
    assert judge("loss 0.5312\n", "loss 0.5313\n").status == "equal"
    assert judge("loss 0.5312\n", "loss 0.5342\n").status == "not equal"
    assert judge("step 1 loss 0.5\n", "step 2 loss 0.5\n").status == "not equal"
    assert judge("loss 0.5\n", "Loss 0.5\n").status == "not equal"
    assert judge("loss 0.5\nacc 1\n", "loss 0.5\n").status == "not equal"
    assert judge("loss nan\n", "loss nan\n").status == "not equal"
    for text in ("| ms/batch {t} | loss {x}", "Epoch 1 loss {x} time {t}", "{t} images/s, loss {x}", "took {t}s loss {x}",
                 "[00:{t}<00:00, {t}it/s] loss {x}", "elapsed: {t} sec acc {x}", "1m {t}s loss {x}"):  # fmt: skip
        assert judge(text.format(t=5.2, x=0.5), text.format(t=7.9, x=0.5)).status == "equal", text
        assert judge(text.format(t=5.2, x=0.5), text.format(t=7.9, x=0.7)).status == "not equal", text
    assert judge("no numbers\n", "no numbers\n").status == "not equal"
    for text in ("time {} s", "Batch_time {}", "{} ms/batch", "{}ms", "{} img/s", "{} samples/sec", "total_seconds={}"):
        both = (text.format(1.23) + "\nloss 1.0\n", text.format(4.56) + "\nloss 1.0\n")
        assert judge(*both).status == "equal", text
    for text in ("Time {t} ({t})\tData {t} ({t})\tLoss {x} ({x})", "data_time: {t} ( {t}) loss {x}"):  # of a meter
        assert judge(text.format(t=5.2, x=0.5), text.format(t=7.9, x=0.5)).status == "equal", text
        assert judge(text.format(t=5.2, x=0.5), text.format(t=7.9, x=0.7)).status == "not equal", text
    assert judge("data 5.1 loss 0.5", "data 6.1 loss 0.5").status == "not equal"
    for text in ("beta {}", "params {}", "section {}", "a/some {}", "sometimes {}"):
        both = (text.format(1.23) + "\nloss 1.0\n", text.format(4.56) + "\nloss 1.0\n")
        assert judge(*both).status == "not equal", text
