"""Steps and batches of a training run, and the position at which it resumes in the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.tf_config import TFConfig, build_tf_configs
from helpers.worker.data_position import KEPT, DataPosition, EndOfTraining
from helpers.worker.progress import TrainingProgress

CHIEF, WORKER = build_tf_configs(["a:1", "b:2"])
SERVED = build_tf_configs(["a:1", "b:2", "c:3"], chief=True, ps=1)


def progress(folder: Path, config: TFConfig = CHIEF, **total: int) -> TrainingProgress:
    asynchronous = config.is_asynchronous
    position = DataPosition(str(folder), config, 2 if asynchronous else 1)
    return TrainingProgress(position, is_asynchronous=asynchronous, **total)


@pytest.mark.parametrize(("every", "updates"), [(1, 1), (1, 2), (4, 1)])
def test_batches_end_an_epoch_and_a_restart_goes_on_with_the_next(
    every: int, updates: int, tmp_path: Path
) -> None:
    first = progress(tmp_path, total_batches=20)
    first.begin(0)
    for batch in range(1, 13):
        first.next_batch()
        first.end_batch()
        first.saw(batch // every * updates, exactly=True)
        assert not first.is_complete
    step = 12 // every * updates
    assert first.total_steps == 20 // every * updates
    first.record(step)

    for config in (CHIEF, WORKER):  # all read the chief's file
        again = progress(tmp_path, config, total_batches=20)
        again.begin(step)
        assert again.batches == 12
        for _batch in range(8):
            assert not again.is_complete
            again.next_batch()
        assert again.is_complete


def test_an_ordinary_training_leaves_no_file(tmp_path: Path) -> None:
    one = progress(tmp_path, total_steps=20)
    one.begin(0)
    for batch in range(1, 6):
        one.next_batch()
        one.saw(batch, exactly=True)
        one.record(batch)
    assert one.step == 5 and one.is_regular and not list(tmp_path.iterdir())


def test_a_batch_without_data_does_not_count(tmp_path: Path) -> None:
    one = progress(tmp_path, total_steps=20)
    one.begin(0)
    one.next_batch()
    one.end_batch()
    one.next_batch()
    one.close()
    one.close()
    assert one.batches == 1


def test_each_task_beside_servers_has_a_position_of_its_own(tmp_path: Path) -> None:
    chief, worker, _ps = SERVED
    for config, batches in ((chief, 30), (worker, 70)):
        one = progress(tmp_path, config, total_batches=200)
        one.begin(0)
        one.counts_with_a_batch(2)
        for _batch in range(batches):
            one.next_batch()
        one.record(200)
    for config, batches in ((chief, 30), (worker, 70)):
        again = progress(tmp_path, config, total_batches=200)
        again.begin(200)
        assert again.batches == batches
        assert again.total_steps == 400 and not again.is_complete


def test_only_the_newest_positions_are_kept(tmp_path: Path) -> None:
    position = DataPosition(str(tmp_path), CHIEF, 1)
    for step in range(2, 2 * KEPT + 22, 2):
        position.record(step, step // 2)
    assert position.batches_at(2) == 2  # forgotten, as if the step counted batches
    assert position.batches_at(2 * KEPT) == KEPT


def test_the_end_of_another_plan_is_not_the_end(tmp_path: Path) -> None:
    end = EndOfTraining(str(tmp_path), (1, None))
    assert not end.is_at(100)
    end.write(100)
    assert end.is_at(100) and not end.is_at(99)
    assert not EndOfTraining(str(tmp_path), (2, None)).is_at(100)
    end.clear()
    assert not end.is_at(100)
