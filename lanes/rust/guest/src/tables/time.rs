//! Timestamps: ISO 8601 in UTC with milliseconds, the format of the tables.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400;

/// Write a time, rounded down to the millisecond; `None` outside of the years 0 to 9999.
pub(super) fn iso(time: SystemTime) -> Option<String> {
    let millis = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_nanos().div_ceil(1_000_000)).ok()?,
    };
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    (0..10_000)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
}

/// Read `2026-01-31T12:00:00.000Z`, with any number of digits after the second or none.
pub(super) fn read(text: &str) -> Option<SystemTime> {
    let rest = text.strip_suffix('Z')?;
    let (rest, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let bytes = rest.as_bytes();
    if bytes.len() != 19 || !rest.is_ascii() {
        return None;
    }
    for (at, sign) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if bytes[at] != sign {
            return None;
        }
    }
    let digits = |from: usize, to: usize| number(&rest[from..to]);
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days(year, month, day);
    if date(days) != (year, month, day) {
        return None;
    }
    let nanos = number(&format!("{fraction:0<9}")[..9])?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time?.checked_add(Duration::from_nanos(nanos.unsigned_abs()))
}

fn number(digits: &str) -> Option<i64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
///
/// Years begin in March here, so that a leap day is the last day of a year; 400 years are an era.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// The day of a date, counted from 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T23:59:59.000Z", 951_868_799),
            ("2026-11-21T15:00:00.000Z", 1_795_273_200),
            ("9999-12-31T23:59:59.000Z", 253_402_300_799),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(iso(time).unwrap(), text);
            assert_eq!(read(text), Some(time));
        }
        let before = UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!(iso(before).unwrap(), "1969-12-31T23:59:59.999Z");
        assert_eq!(read("1969-12-31T23:59:59.999Z"), Some(before));
        assert_eq!(read("1970-01-01T00:00:01Z"), Some(UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!(iso(UNIX_EPOCH + Duration::from_secs(300_000_000_000)), None);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "2026-01-01", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-01T00:00:00+01:00"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read("2026-01-01T0ü:00:0.000Z"), None);
        assert_eq!(read("2026-01-01T00:00:00.ü000Z"), None);
    }
}
