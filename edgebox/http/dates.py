"""HTTP dates: seconds since 1970 in UTC to octets and back (RFC 9110 §5.6.7).

One form is written, three are read. `strftime` and `strptime` would follow the locale,
and `email.utils` takes half-dates and zones for granted that HTTP calls invalid, so
both directions are spelled out here. The clock stays outside: only the two-digit year
of the RFC 850 form needs to know what time it is, and is told.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache

_DAY_NAMES = tuple(b"Mon Tue Wed Thu Fri Sat Sun".split())
_MONTHS = tuple(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
# What four digits of year can say: 0001-01-01 and 9999-12-31. Files claim stranger times.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


def _form(pattern: bytes) -> re.Pattern[bytes]:
    parts = {
        b"NAME": b"(?:%s)" % b"|".join(_DAY_NAMES),
        b"LONG": b"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day",
        b"MONTH": b"(?P<month>%s)" % b"|".join(_MONTHS),
        b"TIME": rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)",
    }
    for name, part in parts.items():
        pattern = pattern.replace(name, part)
    # The grammar is case-sensitive, but caches should not insist (RFC 9111 §4.2).
    return re.compile(pattern, re.IGNORECASE)


_FORMS = (
    _form(rb"NAME, (?P<day>\d\d) MONTH (?P<year>\d{4}) TIME GMT"),  # IMF-fixdate
    _form(rb"LONG, (?P<day>\d\d)-MONTH-(?P<year>\d\d) TIME GMT"),  # RFC 850
    _form(rb"NAME MONTH (?P<day>[ \d]\d) TIME (?P<year>\d{4})"),  # asctime()
)


def format_date(seconds: int) -> bytes:
    """IMF-fixdate of `seconds` since 1970, clamped to the years 1 to 9999."""
    t = _calendar(seconds)
    return b"%s, %02d %s %04d %02d:%02d:%02d GMT" % (
        _DAY_NAMES[t.weekday()],
        t.day,
        _MONTHS[t.month - 1],
        t.year,
        t.hour,
        t.minute,
        t.second,
    )


@lru_cache(maxsize=256)  # the dates of an answer are asked for several times, Date's each second
def parse_date(value: bytes, now: int) -> int | None:
    """Seconds since 1970 of an HTTP-date in any of its three forms; None if it is none.

    The day of the week must be a day's name but need not be the right one. A leap
    second counts as the first second of the next minute, as POSIX time has it.
    """
    for form in _FORMS:
        if found := form.fullmatch(value):
            return _seconds(found, now)
    return None


def _seconds(found: re.Match[bytes], now: int) -> int | None:
    month = _MONTHS.index(found["month"].title()) + 1
    day, hour, minute, second = (int(found[part]) for part in ("day", "hour", "minute", "second"))
    year = int(found["year"])
    if len(found["year"]) == 2:
        year = _full_year(year, (month, day, hour, minute, second), now)
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:  # 30 Feb, or a year that there is not
        return None
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def _full_year(two_digits: int, rest: tuple[int, ...], now: int) -> int:
    """The latest year ending in `two_digits` that is not over 50 years ahead of `now`.

    `rest` is month, day, hour, minute and second, since the bound is an instant.
    """
    t = _calendar(now)
    bound = t.year + 50
    year = bound - (bound - two_digits) % 100
    if (year, *rest) > (bound, t.month, t.day, t.hour, t.minute, t.second):
        year -= 100
    return year


def _calendar(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))
