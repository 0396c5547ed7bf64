"""Are the tests able to find bugs? Break the coordinator, the storage and the broker's shell of groups in many small
ways and see who notices.

    python -m tools.mutation_check deliberate                 every bug of tools/mutants is caught
    python -m tools.mutation_check operators --budget 1200    200 drawn operator mutants, 80 % caught

Each mutant lives in a copy of the source. It meets the unit tests first, then some lifetimes, then the property
tests, then more lifetimes, and the first that fails has caught it; so has a stage that does not end in time. Results
are kept in a file and not computed twice, so a run can be stopped and taken up again. One JSON line at the end;
survivors have their reasons in tools/mutants/survivors.json.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.mutants.client_shell import SHELL_BUGS
from tools.mutants.deliberate import BUGS, Bug
from tools.mutants.operators import mutants_of, mutated

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seamark"
SURVIVORS = ROOT / "tools" / "mutants" / "survivors.json"
PACKAGES = ("coordinator", "storage")
OPERATOR_MUTANTS = 200
LEAST_CAUGHT = 0.8
SEEDS = 2000
WORKERS = 2
STAGE_SECONDS = 240

_LIFETIMES = """
import sys
from seamark.simulation import SCENARIOS, run_lifetime
first, count = int(sys.argv[1]), int(sys.argv[2])
for seed in range(first, first + count):
    run_lifetime(seed)
    if seed % 10 == 0:
        for name in (name for name, each in SCENARIOS.items() if not each.has_real_clients):
            run_lifetime(seed, name)
"""
# The client's shell is broken where only lifetimes of real clients are to notice it.
_CLIENT_LIFETIMES = """
import sys
from seamark.simulation import SCENARIOS, run_lifetime
for seed in range(int(sys.argv[1])):
    for name in (name for name, each in SCENARIOS.items() if each.has_real_clients):
        run_lifetime(seed, name)
"""
_CLIENT_SEEDS = 40


class Candidate(NamedTuple):
    """A mutant to try: ``text`` is what its file becomes."""

    name: str
    file: str
    text: str
    about: str


class Stage(NamedTuple):
    name: str
    command: list[str]


def _stages(package: str, seeds: int) -> list[Stage]:
    if package == "client":
        return [Stage("lifetimes", [sys.executable, "-c", _CLIENT_LIFETIMES, str(min(_CLIENT_SEEDS, seeds))])]
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-m", "not kafka and not java"]
    units = [f"tests/unit/{package}", "tests/simulation/test_edges_of_the_cores.py"]
    if package == "storage":
        units.append("tests/contracts/test_filesystem_contract.py")
    lifetimes = [sys.executable, "-c", _LIFETIMES]
    few = min(100, seeds)
    stages = [
        Stage("unit", [*pytest, *units]),
        Stage("lifetimes", [*lifetimes, "0", str(few)]),
    ]
    if (ROOT / "tests" / "property" / package).exists():
        stages.append(Stage("properties", [*pytest, f"tests/property/{package}"]))
    if seeds > few:
        stages.append(Stage("more lifetimes", [*lifetimes, str(few), str(seeds - few)]))
    return stages


class Tree:
    """A copy of the source in which one mutant lives at a time."""

    def __init__(self, directory: Path) -> None:
        self._source = directory / "src" / "seamark"
        shutil.copytree(SOURCE, self._source, ignore=shutil.ignore_patterns("__pycache__"))
        self._compiled = directory / "compiled"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(directory / "src"),
            "PYTHONPYCACHEPREFIX": str(self._compiled),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(directory / "hypothesis"),
            "CI": "1",
        }

    def try_out(self, candidate: Candidate, seeds: int) -> str | None:
        """Return the name of the stage that caught the mutant, or None."""
        path = self._source / candidate.file
        original = path.read_text()
        path.write_text(candidate.text)
        try:
            for stage in _stages(candidate.file.partition("/")[0], seeds):
                self._forget_compiled(path)
                if not self.passes(stage):
                    return stage.name
            return None
        finally:
            path.write_text(original)
            self._forget_compiled(path)

    def _forget_compiled(self, path: Path) -> None:
        # Compiled code is told from outdated one by size and second only, which two mutants can share.
        for compiled in self._compiled.rglob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def passes(self, stage: Stage) -> bool:
        try:
            done = subprocess.run(
                stage.command,
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=STAGE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def deliberate_candidates() -> list[Candidate]:
    candidates = []
    for bug in BUGS:
        text = (SOURCE / bug.file).read_text()
        candidates.append(Candidate(f"{bug.file}: {bug.why}", bug.file, _with_bug(text, bug), bug.new.strip()))
    for shell_bug in SHELL_BUGS:
        (file,) = {edit.file for edit in shell_bug.edits}
        text = (SOURCE / file).read_text()
        for edit in shell_bug.edits:
            text = _with_bug(text, Bug(file, edit.old, edit.new, shell_bug.why))
        candidates.append(Candidate(f"{file}: {shell_bug.why}", file, text, shell_bug.edits[0].new.strip()))
    return candidates


def _with_bug(text: str, bug: Bug) -> str:
    old = f"{bug.after}\n{bug.old}\n" if bug.after else f"{bug.old}\n"
    if text.count(old) != 1:
        raise SystemExit(f"{bug.file} has the line of {bug.why!r} {text.count(old)} times, not once: {bug.old!r}")
    return text.replace(old, old.replace(bug.old, bug.new))


def operator_candidates(count: int, seed: int) -> list[Candidate]:
    everything = [mutant for package in PACKAGES for mutant in mutants_of(SOURCE, package)]
    chosen = random.Random(seed).sample(everything, min(count, len(everything)))
    return [
        Candidate(
            mutant.name, mutant.file, mutated((SOURCE / mutant.file).read_text(), mutant.number), f"line {mutant.line}"
        )
        for mutant in chosen
    ]


def run(
    candidates: list[Candidate], seeds: int, results_file: Path, budget_seconds: float, say: Callable[[str], None]
) -> dict[str, str]:
    """Try candidates that have no result yet, until the budget is used up; return all results by name."""
    results: dict[str, str] = {}
    if results_file.exists():
        for line in results_file.read_text().splitlines():
            entry = json.loads(line)
            results[entry["name"]] = entry["caught_by"]
    waiting: queue.SimpleQueue[Candidate] = queue.SimpleQueue()
    for candidate in candidates:
        if candidate.name not in results:
            waiting.put(candidate)
    deadline = time.monotonic() + budget_seconds
    lock = threading.Lock()

    def work(directory: Path) -> None:
        tree = Tree(directory)
        while time.monotonic() < deadline:
            try:
                candidate = waiting.get_nowait()
            except queue.Empty:
                return
            caught_by = tree.try_out(candidate, seeds) or ""
            with lock:
                results[candidate.name] = caught_by
                with results_file.open("a") as file:
                    file.write(json.dumps({"name": candidate.name, "caught_by": caught_by}) + "\n")
                say(f"{caught_by or 'SURVIVED':<15} {candidate.name}  ({candidate.about})")

    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        threads = [threading.Thread(target=work, args=(Path(directory) / str(number),)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wanted = {candidate.name for candidate in candidates}
    return {name: caught_by for name, caught_by in results.items() if name in wanted}


def check_sound_source(seeds: int) -> None:
    """The tests must pass without a mutant, or every mutant would seem to be caught."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        tree = Tree(Path(directory))
        for package in (*PACKAGES, "client"):
            for stage in _stages(package, seeds):
                if not tree.passes(stage):
                    raise SystemExit(f"the {stage.name} stage of {package} fails without any mutant")


def verdict(kind: str, candidates: list[Candidate], results: dict[str, str]) -> dict[str, object]:
    reasons: dict[str, str] = json.loads(SURVIVORS.read_text()) if SURVIVORS.exists() else {}
    caught = [name for name, caught_by in results.items() if caught_by]
    survivors = sorted(name for name, caught_by in results.items() if not caught_by)
    unexplained = [name for name in survivors if name not in reasons]
    is_complete = len(results) == len(candidates)
    if kind == "deliberate":
        is_ok = is_complete and not survivors
    else:
        is_ok = is_complete and len(caught) >= LEAST_CAUGHT * len(candidates) and not unexplained
    return {
        "mutation_check": kind,
        "ok": is_ok,
        "mutants": len(candidates),
        "tried": len(results),
        "caught": len(caught),
        "caught_by_unit_tests": sum(caught_by == "unit" for caught_by in results.values()),
        "survivors": survivors,
        "without_reason": unexplained,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="mutation_check", description="Do the tests find bugs?")
    parser.add_argument("kind", choices=["deliberate", "operators"])
    parser.add_argument("--count", type=int, default=OPERATOR_MUTANTS, help="how many operator mutants to draw")
    parser.add_argument("--draw", type=int, default=1, help="which draw of operator mutants")
    parser.add_argument("--seeds", type=int, default=None, help="lifetimes per mutant: 2000 deliberate, 200 operators")
    parser.add_argument("--budget", type=float, default=1500.0, help="seconds after which no further mutant is begun")
    parser.add_argument("--results", type=Path, default=None, help="file of results to go on from")
    parser.add_argument("--trust-source", action="store_true", help="do not run the tests without a mutant first")
    chosen = parser.parse_args(arguments)
    is_deliberate = chosen.kind == "deliberate"
    seeds = chosen.seeds or (SEEDS if is_deliberate else 200)
    candidates = deliberate_candidates() if is_deliberate else operator_candidates(chosen.count, chosen.draw)
    results_file = chosen.results or ROOT / "build" / f"mutants-{chosen.kind}.jsonl"
    results_file.parent.mkdir(parents=True, exist_ok=True)
    if not chosen.trust_source:
        check_sound_source(100)
    results = run(candidates, seeds, results_file, chosen.budget, lambda line: print(line, file=sys.stderr, flush=True))
    report = verdict(chosen.kind, candidates, results)
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
