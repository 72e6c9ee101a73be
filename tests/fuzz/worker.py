"""Judges seeds read from standard input, one a line, and answers with one line of JSON each.

A process of its own: a wrong program may take its process down with it.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any


def quiet() -> Any:
    """Sends what libraries print to nowhere; returns a stream for the answers."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    return answers


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "programs").mkdir(exist_ok=True)
    answers = quiet()
    import torch

    torch.set_num_threads(1)
    from corpus.runner import RELEASE
    from tests.fuzz.generate import generate
    from tests.fuzz.judge import judge
    from tests.fuzz.recipe import source

    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    commit = said.stdout.strip()
    for line in sys.stdin:
        seed = int(line)
        recipe = generate(seed)
        text = source(recipe)
        model = folder / "models" / f"seed_{seed:06}.py"
        model.write_text(text)
        # Seeds mean something else when the generator changes; recipes do not.
        model.with_suffix(".json").write_text(json.dumps(recipe))
        records = []
        for outcome in judge(text, model.stem, seed, held="--held" in sys.argv[2:]):
            if outcome.data:
                (folder / "programs" / f"seed_{seed:06}_{outcome.variant}.pte").write_bytes(outcome.data)
            record = dataclasses.asdict(outcome)
            del record["data"]
            record |= {"release": RELEASE, "commit": commit}
            records.append(record)
        answers.write(json.dumps(records) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
