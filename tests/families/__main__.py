"""`python tests/families` writes docs/reference/families.md; `--differential` compares numbers with the libraries'."""

import sys
from pathlib import Path


def main() -> None:
    """Run every cell, and write the page."""
    sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("families", "models", "models/generation", ".")]
    if "--differential" in sys.argv[1:]:
        from differential import main as compare

        compare()
        return
    from families_page import PAGE, render, run

    PAGE.write_text(render(run()), encoding="utf-8")


if __name__ == "__main__":
    main()
