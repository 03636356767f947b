"""Cron expressions and periods of schedules: their occurrences, also where clocks change, and mistakes."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine.manifest.load import load, warnings
from engine.manifest.problems import ManifestError
from engine.manifest.schedules import MAX_SCHEDULES, Schedule, at_problem

ZURICH = "Europe/Zurich"


def epoch(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def occurrences(at: str, zone: str, begin: str, end: str) -> list[str]:
    """Return the occurrences between two times in UTC, in local time with its offset."""
    schedule, now, last, found = Schedule("/", at, zone), epoch(begin), epoch(end), list[str]()
    while (following := schedule.next(now)) is not None and following <= last:
        found.append(datetime.fromtimestamp(following, ZoneInfo(zone)).isoformat(timespec="minutes"))
        now = following
    return found


def test_time_that_does_not_exist_runs_at_the_next_minute() -> None:
    assert occurrences("30 2 * * *", ZURICH, "2026-03-28T00:00", "2026-03-31T00:00") == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


@pytest.mark.parametrize(
    ("zone", "at"),
    [(ZURICH, "30 2 * * *"), ("America/New_York", "30 1 * * *"), ("Australia/Lord_Howe", "45 1 * * *")],
)
def test_time_that_exists_twice_runs_once(zone: str, at: str) -> None:
    days = [each[:10] for each in occurrences(at, zone, "2026-01-01T12:00", "2026-12-31T12:00")]
    assert len(days) == len(set(days)) == 364


def test_times_in_a_repeated_hour_of_intervals_run_in_both() -> None:
    found = occurrences("*/30 2 * * *", ZURICH, "2026-10-24T23:00", "2026-10-25T03:00")
    assert [each[11:] for each in found] == ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]


def test_two_times_at_one_moment_are_one_occurrence() -> None:
    found = occurrences("0 2,3 * * *", ZURICH, "2026-03-29T00:00", "2026-03-29T05:00")
    assert found == ["2026-03-29T03:00+02:00"]


@pytest.mark.parametrize(
    "at", ["30 2 * * *", "*/20 * * * *", "every 7m", "0 0 1 * *", "0 9 * * mon-fri", "@daily"]
)
@pytest.mark.parametrize("begin", ["2026-03-28T20:00", "2026-10-24T20:00", "2026-06-01T00:00"])
def test_latest_is_the_last_of_the_next_ones(at: str, begin: str) -> None:
    schedule, start = Schedule("/", at, ZURICH), epoch(begin)
    for after in range(start, start + 6 * 3600, 1800):
        for hours in (0, 1, 5, 26):
            now, expected, following = after + hours * 3600, None, schedule.next(after)
            while following is not None and following <= now:
                expected, following = following, schedule.next(following)
            assert schedule.latest(after, now) == expected


def test_period_counts_from_the_epoch() -> None:
    schedule = Schedule("/", "every 5m", ZURICH)
    assert schedule.next(0) == 300 and schedule.next(299) == 300 and schedule.next(300) == 600
    assert schedule.latest(0, 299) is None and schedule.latest(0, 10**9) == 10**9 // 300 * 300


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("61 * * * *", 'the minute field "61" of "61 * * * *" is not valid'),
        ("0 24 * * *", 'the hour field "24" of "0 24 * * *" is not valid'),
        ("0 0 32 * *", 'the day-of-month field "32" of "0 0 32 * *" is not valid'),
        ("0 0 * foo *", 'the month field "foo" of "0 0 * foo *" is not valid'),
        ("0 0 * * 8", 'the day-of-week field "8" of "0 0 * * 8" is not valid'),
        ("5-1 * * * *", 'the minute field "5-1" of "5-1 * * * *" is not valid'),
        ("*/0 * * * *", 'the minute field "*/0" of "*/0 * * * *" is not valid'),
        ("*/60 * * * *", 'the minute field "*/60" of "*/60 * * * *" has a step above 59'),
        ("0 0-23/36 * * *", 'the hour field "0-23/36" of "0 0-23/36 * * *" has a step above 23'),
        ("0 3 * * L", 'the day-of-week field "L" of "0 3 * * L" is not valid'),
        ("0 3 ² * *", 'the day-of-month field "²" of "0 3 ² * *" is not valid'),
        ("* * *", '"* * *" has 3 fields instead of five'),
        ("0 0 3 * * *", '"0 0 3 * * *" has 6 fields instead of five'),
        ("", '"" has 0 fields instead of five'),
        ("0 0 30 2 *", '"0 0 30 2 *" never occurs'),
        ("@reboot", 'unknown time "@reboot"'),
        ("every 5s", '"every 5s" is not a period'),
        ("every 0m", '"every 0m" is out of range'),
        ("every 367d", '"every 367d" is out of range'),
        ("1," * 200, "the time has 400 characters; the maximum is 200"),
    ],
)
def test_wrong_time_is_explained(at: str, message: str) -> None:
    problem = at_problem(at)
    assert problem is not None and problem[0] == message and problem[1].endswith((".", "three."))


@pytest.mark.parametrize(
    "at",
    ["0 3 * * *", "0 8 * * MON", "0 0 L * *", "*/15 9-17 * jan,dec 1-5", "@daily", "Every 2H", "every 1 d"],
)
def test_right_time_has_no_problem(at: str) -> None:
    assert at_problem(at) is None and Schedule("/", at).next(0) is not None


MANIFEST = '[project]\nname = "shop"\n\n[resource.worker]\nlane = "{}"\n{}'


def problems(folder: Path, text: str, lane: str = "js") -> list[str]:
    (folder / "svc.toml").write_text(MANIFEST.format(lane, text))
    with pytest.raises(ManifestError) as caught:
        load(folder)
    return [f"{each.line}: {each.key}: {each.message}" for each in caught.value.problems]


def test_manifest_schedules(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(
        MANIFEST.format(
            "js",
            'timezone = "Europe/Zurich"\n'
            'schedules."/a" = "0 3 * * *"\n'
            'schedules."/b" = { at = "every 5m", overlap = "queue", catch_up = true }\n',
        )
    )
    project = load(tmp_path)
    assert project.resources["worker"].schedules == (
        Schedule("/a", "0 3 * * *", ZURICH),
        Schedule("/b", "every 5m", ZURICH, "queue", True),
    )
    assert warnings(project) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'schedules = { "/a" = "99 3 * * *" }',
            '6: resource.worker.schedules."/a": the minute field "99" of',
        ),
        ('schedules = { "a" = "0 3 * * *" }', '6: resource.worker.schedules.a: the path "a" does not start'),
        ('schedules = { "/a/*" = "0 3 * * *" }', '6: resource.worker.schedules."/a/*": "/a/*" is not a path'),
        (
            'schedules = { "/a" = "@daily", "/%61" = "@daily" }',
            '6: resource.worker.schedules."/%61": "/%61" is the',
        ),
        ('schedules = { "/a" = {} }', '6: resource.worker.schedules."/a".at: "at" is missing'),
        (
            'schedules = { "/a" = { at = "@daily", every = 1 } }',
            '6: resource.worker.schedules."/a".every: unknown key',
        ),
        (
            'schedules = { "/a" = { at = "@daily", overlap = "no" } }',
            '6: resource.worker.schedules."/a".overlap: ',
        ),
        ('schedules = { "/a" = 5 }', '6: resource.worker.schedules."/a": must be a table'),
        ('timezone = "europe/zurich"', '6: resource.worker.timezone: unknown time zone "europe/zurich"'),
        ('timezone = "../etc/passwd"', '6: resource.worker.timezone: unknown time zone "../etc/passwd"'),
        ('timezone = "localtime"', '6: resource.worker.timezone: unknown time zone "localtime"'),
    ],
)
def test_manifest_mistake_has_line_and_key(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(problem)


def test_manifest_static_resource_has_no_schedules(tmp_path: Path) -> None:
    found = problems(tmp_path, 'output = "site"\nschedules = { "/a" = "@daily" }', "static")
    assert found == ["7: resource.worker.schedules: a static resource runs no code"]


def test_manifest_too_many_schedules(tmp_path: Path) -> None:
    lines = "\n".join(f'"/{number}" = "@daily"' for number in range(MAX_SCHEDULES + 1))
    (found,) = problems(tmp_path, f"[resource.worker.schedules]\n{lines}")
    assert f"the project has {MAX_SCHEDULES + 1} schedules; the maximum is {MAX_SCHEDULES}" in found
