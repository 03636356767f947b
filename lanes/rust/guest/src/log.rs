//! Structured records: one line of JSON each, on standard error.
//!
//! ```
//! use svc_guest::log;
//!
//! let (user, ms) = ("ada", 12);
//! log::info!("signed in", user = user, ms = ms);
//! log::warn!("{user} was slow");
//! ```
//!
//! writes `{"level":"info","msg":"signed in","user":"ada","ms":12}` and a second line. The message is a
//! format string whose `{names}` are variables, or any expression. Values are texts, numbers, booleans and
//! options of them; give `value.to_string()` for others.

use std::io::Write;

pub use crate::__debug as debug;
pub use crate::__error as error;
pub use crate::__info as info;
pub use crate::__warn as warn;
use crate::json::Value;

#[doc(hidden)]
pub fn write(level: &str, message: &str, values: &[(&str, &dyn Value)]) {
    // In one piece, so that no other line comes between. That nobody reads it is no reason to fail.
    let _ = std::io::stderr().write_all(record(level, message, values).as_bytes());
}

fn record(level: &str, message: &str, values: &[(&str, &dyn Value)]) -> String {
    let mut line = String::from("{\"level\":");
    level.write_json(&mut line);
    line.push_str(",\"msg\":");
    message.write_json(&mut line);
    for (name, value) in values {
        line.push(',');
        name.write_json(&mut line);
        line.push(':');
        value.write_json(&mut line);
    }
    line.push_str("}\n");
    line
}

#[doc(hidden)]
#[macro_export]
macro_rules! __record {
    ($level:literal, $message:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::macros::write(
            $level,
            &::std::format!($message),
            &[$((::std::stringify!($name), &$value as &dyn $crate::macros::Value)),*],
        )
    };
    ($level:literal, $message:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::macros::write(
            $level,
            &::std::string::ToString::to_string(&$message),
            &[$((::std::stringify!($name), &$value as &dyn $crate::macros::Value)),*],
        )
    };
}

/// Write a record of level `debug`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($record:tt)*) => { $crate::__record!("debug", $($record)*) };
}

/// Write a record of level `info`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($record:tt)*) => { $crate::__record!("info", $($record)*) };
}

/// Write a record of level `warn`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($record:tt)*) => { $crate::__record!("warn", $($record)*) };
}

/// Write a record of level `error`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($record:tt)*) => { $crate::__record!("error", $($record)*) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_json() {
        let line = record("info", "two\nlines", &[("ms", &12), ("user", &Some("ada"))]);
        assert_eq!(line, "{\"level\":\"info\",\"msg\":\"two\\nlines\",\"ms\":12,\"user\":\"ada\"}\n");
    }

    #[test]
    fn messages_are_formats_or_values() {
        let (n, text) = (1, String::from("{n}"));
        crate::log::debug!("n is {n}", n = n);
        crate::log::error!(text, again = text,);
    }
}
