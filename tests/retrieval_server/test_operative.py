"""What of a result is in force."""

from __future__ import annotations

import pytest

from retrieval_server.operative import operative_items


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "一、撤销甲院判决，即：被告人张某犯盗窃罪，判处有期徒刑三年。 二、上诉人张某犯盗窃罪，判处有期徒刑一年。",
            [("上诉人张某犯盗窃罪,判处有期徒刑一年。", False)],
        ),
        ("一、维持第一项，即“一、被告人李某判处二年”；二、撤销第二项。", [("维持第一项,即被告人李某判处二年;", True)]),
        ("撤销量刑部分，即有期徒刑五年，改判有期徒刑三年。", [("有期徒刑三年。", False)]),
        ("判处一年（刑期从判决执行之日起计算（略））。", [("判处一年。", False)]),
        ("判处三年（缓刑四年）。", [("判处三年,缓刑四年。", False)]),
        ("判处二年（刑期自判决执行之日起计算，至2020年", [("判处二年", False)]),
        ("理由略，判决如下：判处一年。如不服本判决，可上诉。", [("判处一年。", False)]),
        ("", []),
    ],
)
def test_operative_items(text: str, expected: list[tuple[str, bool]]) -> None:
    assert [(item.text, item.upheld) for item in operative_items(text)] == expected
