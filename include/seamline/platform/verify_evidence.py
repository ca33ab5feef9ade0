"""Verify the evidence of a business date: python3 verify.py [ANCHORS ...]

It stands beside what it verifies, and needs nothing but Python 3.9 or newer:

    chain.jsonl            the log of acts from the first entry of the date on: its own whole, of others the hashes
    verdict-<n>.json       what was stored of the verdict that entry <n> is about
    expectations-<n>.json  what Great Expectations left, which that verdict names by its hash
    file-<n>.bin           the bytes of the file that entry n attached to a break; the entry has its name
    head.json              where the chain ends, and which lines of anchors say so

ANCHORS: files head-<host>.log that were kept elsewhere. Each line about an entry of this chain has to name its hash.

Ends with 0 where nothing is wrong, with 1 and a line per fault where something is, with 2 where files cannot be read.
How hashes are made: docs/reference/audit.md of Seamline.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

ABOUT_VERDICTS = ("verdict adopted", "compared", "checked", "signature kept")
COMPARE_NOTHING = ("checked", "signature kept")


def canonical(value: Any) -> bytes:
    # Every number is a whole one: fractions stand as texts.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def counted(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


class Evidence:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head: dict[str, Any] = json.loads((folder / "head.json").read_text(encoding="utf-8"))
        self.faults: list[str] = []
        self.hashes: dict[int, str] = {}
        self.entries: dict[int, dict[str, Any]] = {}

    def verify(self) -> None:
        self._follow_chain()
        self._compare_entries()
        self._compare_verdicts()
        self._compare_expectations()
        self._compare_named_verdicts()
        self._compare_files()

    def compare_anchors(self, path: Path) -> int:
        """How many lines were about this chain."""
        about = 0
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                words = line.split()
                if len(words) < 2 or not words[0].isdigit():
                    self.faults.append(f"{path.name} line {number}: it is no anchor")
                elif int(words[0]) in self.hashes:
                    about += 1
                    if self.hashes[int(words[0])] != words[1]:
                        self.faults.append(f"{path.name} line {number}: entry {words[0]} has another hash than here")
        return about

    def _follow_chain(self) -> None:
        number, previous = self.head["first"] - 1, self.head["previous"]
        with (self.folder / "chain.jsonl").open(encoding="utf-8") as file:
            for text in file:
                link = json.loads(text)
                if link["number"] != number + 1:
                    self.faults.append(f"entry {number + 1} is missing: entry {link['number']} follows {number}")
                number = link["number"]
                content = link.get("content")
                hashed = link["content_hash"] if content is None else sha256(canonical(content))
                own = sha256(canonical({"content": hashed, "number": number, "previous": previous}))
                if own != link["hash"]:
                    self.faults.append(f"entry {number}: it was changed, or another one stands before it")
                if content is not None:
                    self._keep(number, content)
                self.hashes[number] = previous = link["hash"]
        if (number, previous) != (self.head["number"], self.head["hash"]):
            self.faults.append(f"the chain ends with entry {number} and not with the head, {self.head['number']}")
        for anchor in self.head["anchors"]:
            if self.hashes.get(anchor["number"]) != anchor["hash"]:
                self.faults.append(f"anchor {anchor['place']}: it names another hash of entry {anchor['number']}")

    def _keep(self, number: int, content: dict[str, Any]) -> None:
        self.entries[number] = content
        if (content["sync"], content["business_date"]) != (self.head["sync"], self.head["business_date"]):
            self.faults.append(f"entry {number}: it is about another sync or date")

    def _newest(self) -> dict[tuple[str, str, str], int]:
        """Of each verdict its newest entry."""
        newest: dict[tuple[str, str, str], int] = {}
        for number, content in self.entries.items():
            if content["kind"] in ABOUT_VERDICTS:
                newest[content["run_id"], content["destination"], content["scope"]] = number
        return newest

    def _compare_entries(self) -> None:
        """What enters results or a signature takes the verdict up as the entry before it has it: nothing was compared
        in between."""
        newest: dict[tuple[str, str, str], int] = {}
        for number, content in self.entries.items():
            if content["kind"] not in ABOUT_VERDICTS:
                continue
            place = (content["run_id"], content["destination"], content["scope"])
            before, newest[place] = newest.get(place), number
            if before is not None and (wrong := self._changed(before, number)):
                kinds = (
                    f"({self.entries[before]['kind']}) and entry {number} ({content['kind']}), which compared nothing"
                )
                self.faults.append(f"{' '.join(place)}: {wrong} was changed between entry {before} {kinds}")

    def _changed(self, before: int, now: int) -> str:
        kind = self.entries[now]["kind"]
        old, new = self.entries[before]["document"], self.entries[now]["document"]
        if kind not in COMPARE_NOTHING:
            return ""
        names = sorted({*old["tables"], *new["tables"]})
        if changed := [name for name in names if old["tables"].get(name) != new["tables"].get(name)]:
            return f"table {', '.join(changed)}"
        if old["verdict"] != new["verdict"]:
            return "the verdict"
        is_other = kind == "signature kept" and old.get("expectations") != new.get("expectations")
        return "what its expectations said" if is_other else ""

    def _compare_verdicts(self) -> None:
        newest = self._newest()
        there = {path.name for path in self.folder.glob("verdict-*.json")}
        for place, number in newest.items():
            name = f"verdict-{number}.json"
            if name not in there:
                self.faults.append(f"{name}: the verdict of {' '.join(place)} is missing")
            elif sha256((self.folder / name).read_bytes()) != self.entries[number]["document"]["hash"]:
                what = f"the verdict of {' '.join(place)} is not what entry {number} says"
                self.faults.append(f"{name}: {what}: {self._parts(number)}")
        for name in sorted(there - {f"verdict-{number}.json" for number in newest.values()}):
            self.faults.append(f"{name}: no entry names it")

    def _parts(self, number: int) -> str:
        """Which tables differ, or what else."""
        document = self.entries[number]["document"]
        logged = document["tables"]
        try:
            stored = json.loads((self.folder / f"verdict-{number}.json").read_text(encoding="utf-8"))
            tables = {table["table"]: sha256(canonical(table)) for table in stored["tables"]}
            is_checked_so = stored["evidence"].get("expectations") == document.get("expectations")
        except (ValueError, KeyError, TypeError):
            return "it cannot be read"
        names = sorted(name for name in {*logged, *tables} if logged.get(name) != tables.get(name))
        rest = "its header or evidence" if is_checked_so else "what its expectations said"
        return f"table {', '.join(names)}" if names else rest

    def _compare_expectations(self) -> None:
        """What the expectations left is what the newest entry of each verdict has; one of before has nothing of it."""
        there = {path.name for path in self.folder.glob("expectations-*.json")}
        named = set()
        for place, number in self._newest().items():
            said = self.entries[number]["document"].get("expectations")
            if said is None:
                continue
            name = f"expectations-{number}.json"
            named.add(name)
            what = f"{name}: the results of the expectations of {' '.join(place)}"
            if name not in there:
                self.faults.append(f"{what} are missing")
            elif sha256((self.folder / name).read_bytes()) != said["hash"]:
                self.faults.append(f"{what} are not what entry {number} says")
        for name in sorted(there - named):
            self.faults.append(f"{name}: no entry names it")

    def _compare_named_verdicts(self) -> None:
        """Who decided, and what was published, was about a verdict that was reached."""
        reached = {
            content["document"]["hash"] for content in self.entries.values() if content["kind"] in ABOUT_VERDICTS
        }
        for number, content in self.entries.items():
            document = content["document"]
            named = [*document.get("verdict_hashes", {}).values(), document.get("verdict_hash")]
            if any(hashed and hashed not in reached for hashed in named):
                self.faults.append(f"entry {number} ({content['kind']}): no entry is about the verdict that it names")

    def _compare_files(self) -> None:
        """What people attached to breaks is there, and is what they attached."""
        there = {path.name for path in self.folder.glob("file-*")}
        named = {}
        for number, content in self.entries.items():
            if content["kind"] == "attached":
                named[f"file-{number}.bin"] = content["document"]
        for name, document in named.items():
            what = f"{name}: the file {json.dumps(document['file'])}, version {document['version']},"
            if name not in there:
                self.faults.append(f"{what} is missing")
            elif sha256((self.folder / name).read_bytes()) != document["sha256"]:
                self.faults.append(f"{what} was changed")
        for name in sorted(there - set(named)):
            self.faults.append(f"{name}: no entry names it")


def main(arguments: list[str]) -> int:
    try:
        evidence = Evidence(Path(__file__).resolve().parent)
        evidence.verify()
        about = sum(evidence.compare_anchors(Path(name)) for name in arguments)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        sys.stderr.write(f"the evidence cannot be read: {type(error).__name__}: {error}\n")
        return 2
    head = evidence.head
    for fault in evidence.faults:
        sys.stdout.write(f"FAULT  {fault}\n")
    sys.stdout.write(
        f"{head['sync']}, business date {head['business_date']}: {counted(len(evidence.entries), 'entry', 'entries')},"
        f" {counted(len(list(evidence.folder.glob('verdict-*.json'))), 'verdict')},"
        f" {counted(len(list(evidence.folder.glob('file-*.bin'))), 'file')}\n"
        f"the chain ends with entry {head['number']}, hash {head['hash']}\n"
    )
    if arguments:
        lines = counted(about, "line of the given anchors is", "lines of the given anchors are")
        sys.stdout.write(f"{lines} about this chain\n")
    faults = counted(len(evidence.faults), "FAULT", "FAULTS")
    sys.stdout.write(f"{faults}\n" if evidence.faults else "nothing is wrong\n")
    return 1 if evidence.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
