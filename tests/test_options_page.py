"""docs/options.md lists the options as the plugin declares them."""

from __future__ import annotations

from pathlib import Path

from pytest_cwsandbox.options import OPTIONS, Option

PAGE = Path(__file__).parents[1] / "docs" / "options.md"


def test_the_page_lists_every_option_as_it_is_declared() -> None:
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `--")]
    assert listed == [row(option) for option in OPTIONS]


def row(option: Option) -> str:
    usage, meaning = (
        text.replace("|", "\\|") for text in (f"{option.flag}={option.metavar}", option.help)
    )
    return f"| `{usage}` | {meaning} |"
