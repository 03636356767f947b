//! Structured records: a severity, a message and named values, stored with their request.
//!
//! ```
//! use svc_guest::log;
//!
//! let (user, ms) = ("ada", 12);
//! log::info!("signed in", user = user, ms = ms);
//! log::warn!("{user} was slow");
//! ```
//!
//! The message is a format string whose `{names}` are variables, or any expression. Values are texts, numbers,
//! booleans and options of them; give `value.to_string()` for others.
//!
//! Hosted, records go to the telemetry Door once [`init`] was called, which [`handler!`](crate::handler) does.
//! They are sent in batches: when the handler returns or fails, waits or calls another server, at an error, and
//! when there are many or the first is 20 ms old. [`flush`] sends them at once.
//!
//! Elsewhere, and before that call, each record is one line of JSON on standard error:
//! `{"level":"info","msg":"signed in","user":"ada","ms":12}`.

use std::io::Write;

pub use crate::__debug as debug;
pub use crate::__error as error;
pub use crate::__info as info;
pub use crate::__trace as trace;
pub use crate::__warn as warn;
pub use crate::json::Value;
use crate::telemetry;

/// The severity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Most detailed diagnostics.
    Trace,
    /// Diagnostics for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// A condition that may become an error.
    Warn,
    /// A failure.
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The SeverityNumber of OpenTelemetry.
    const fn severity(self) -> u8 {
        match self {
            Self::Trace => 1,
            Self::Debug => 5,
            Self::Info => 9,
            Self::Warn => 13,
            Self::Error => 17,
        }
    }
}

/// Send records to the telemetry Door from now on. [`handler!`](crate::handler) calls this
/// itself; a program without it calls this first, and [`flush`] at the end of each request.
pub fn init() {
    telemetry::open();
}

/// Send the records in the batch. A run that the host ends, by a limit or a trap, loses unsent records.
pub fn flush() {
    telemetry::flush();
}

/// Write a record, as the macros do: for adapters of logging libraries.
///
/// ```
/// use svc_guest::log::{self, Level};
///
/// log::record(Level::Info, "signed in", &[("user", &"ada"), ("ms", &12)]);
/// ```
pub fn record(level: Level, message: &str, values: &[(&str, &dyn Value)]) {
    if telemetry::is_open() {
        telemetry::add(level.severity(), message, values);
    } else {
        // One write, so that lines are not interleaved. A closed stream is not an error here.
        let _ = std::io::stderr().write_all(line(level, message, values).as_bytes());
    }
}

fn line(level: Level, message: &str, values: &[(&str, &dyn Value)]) -> String {
    let mut line = String::from("{\"level\":");
    level.name().write_json(&mut line);
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
    ($level:ident, $message:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::log::record(
            $crate::log::Level::$level,
            &::std::format!($message),
            &[$((::std::stringify!($name), &$value as &dyn $crate::log::Value)),*],
        )
    };
    ($level:ident, $message:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::log::record(
            $crate::log::Level::$level,
            &::std::string::ToString::to_string(&$message),
            &[$((::std::stringify!($name), &$value as &dyn $crate::log::Value)),*],
        )
    };
}

/// Write a record of level `trace`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __trace {
    ($($record:tt)*) => { $crate::__record!(Trace, $($record)*) };
}

/// Write a record of level `debug`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($record:tt)*) => { $crate::__record!(Debug, $($record)*) };
}

/// Write a record of level `info`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($record:tt)*) => { $crate::__record!(Info, $($record)*) };
}

/// Write a record of level `warn`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($record:tt)*) => { $crate::__record!(Warn, $($record)*) };
}

/// Write a record of level `error`; see [`log`](crate::log).
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($record:tt)*) => { $crate::__record!(Error, $($record)*) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_json() {
        let line = line(Level::Info, "two\nlines", &[("ms", &12), ("user", &Some("ada"))]);
        assert_eq!(line, "{\"level\":\"info\",\"msg\":\"two\\nlines\",\"ms\":12,\"user\":\"ada\"}\n");
    }

    #[test]
    fn messages_are_formats_or_values() {
        let (n, text) = (1, String::from("{n}"));
        crate::log::debug!("n is {n}", n = n);
        crate::log::error!(text, again = text,);
    }
}
