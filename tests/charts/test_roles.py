from __future__ import annotations

import pytest

from helpers.course.charts.roles import roles_chart
from helpers.tf_config import build_tf_configs


@pytest.mark.parametrize(("ps", "arrows"), [(0, 1 + 2), (2, 2 * 2 + 2)], ids=["ring", "ps"])
def test_the_picture_shows_every_task_its_connections_and_the_folder(ps: int, arrows: int) -> None:
    addresses = [f"10.0.0.{number}:2222" for number in range(1, 3 + ps)]
    configs = build_tf_configs(addresses, chief=True, ps=ps, evaluator=True)
    picture = roles_chart(configs)
    [axes] = picture.figure.axes
    texts = [text.get_text() for text in axes.texts]
    for task in configs[0].tasks:
        assert f"{task}\n{configs[0].address_of(task)}" in texts
    assert {"model_dir", "evaluator 0"} <= set(texts)
    assert texts.count("") == arrows  # matplotlib's arrows are annotations without text
    assert all(str(config.task) in picture.label for config in configs)
