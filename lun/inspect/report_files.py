"""The files of a report, and the lines for the console."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from pathlib import Path

from lun.inspect.console_table import lines_of
from lun.inspect.contact import Seen, contact_sheet, first_examples
from lun.inspect.given import Given
from lun.inspect.page import page
from lun.inspect.rejected import Row, rejected_rows, unused_rows, write_rejected
from lun.inspect.statistics import DatasetFacts, facts_of
from lun.inspect.view import DatasetView


def write_report(
    given: Given, data: DatasetView, folder: Path, kinds: Collection[str]
) -> tuple[DatasetFacts, list[str]]:
    """Write `kinds` of report (html, png, json) and rejected.csv into `folder`; the facts, and lines for a console."""
    facts = facts_of(data, given)
    seen: list[Seen] = []
    broken: list[Row] = []
    if {"html", "png"} & set(kinds):
        seen, broken = first_examples(data, given.seed, given.buckets)
    known = {row[0] for row in facts.unreadable}
    unreadable = [*facts.unreadable, *(row for row in broken if row[0] not in known)]
    facts = dataclasses.replace(facts, unreadable=unreadable)
    facts = dataclasses.replace(facts, warnings=_warnings(facts))
    folder.mkdir(parents=True, exist_ok=True)
    left_out = [*(rejected_rows(data.selection) if data.selection else []), *unused_rows(data.unread)]
    write_rejected(folder / "rejected.csv", [*left_out, *unreadable])
    if "json" in kinds:
        text = json.dumps(dataclasses.asdict(facts), indent=1, ensure_ascii=False)
        (folder / "report.json").write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    if "png" in kinds:
        contact_sheet(seen).save(folder / "contact.png")
    if "html" in kinds:
        text = page(given, facts, seen, [*left_out, *unreadable], data)
        (folder / "report.html").write_text(text, encoding="utf-8", errors="backslashreplace")
    return facts, [*lines_of(facts, folder.as_posix()), *facts.warnings]


def _warnings(facts: DatasetFacts) -> list[str]:
    warnings = []
    if facts.unreadable:
        warnings.append(f"warning[DAT06]: unreadable images: {len(facts.unreadable):,}; list in rejected.csv")
    if facts.length_in == "tokens" and facts.too_long:
        warnings.append(
            f"warning[DAT07]: {facts.too_long / facts.captions:.0%} of captions are longer than {facts.most_tokens}"
            f" tokens (median {facts.median_length}, longest {facts.longest})"
        )
    return warnings
