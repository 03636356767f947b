//! The one error type: what went wrong, why, and where.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::panic::Location;

use crate::abi::streams::StreamError;
use crate::tables::Refusal;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client, or the server that was called, went away.
    Gone,
    /// A call to another server is not allowed by `egress`.
    Denied,
    /// Something took too long.
    TimedOut,
    /// An exchange with another server failed.
    Network,
    /// A header, a URL, a status, an event, a parameter or a column is not valid.
    Invalid,
    /// The tables refuse a statement; [`Error::refusal`] has the reason.
    Refused,
    /// Anything else.
    Other,
}

/// What went wrong, why, and the place in the source where it was made or met with `?`.
///
/// ```
/// use svc_guest::{Error, Result};
///
/// fn number(text: &str) -> Result<u32> {
///     if text.is_empty() {
///         return Err(Error::new("there is no number"));
///     }
///     Ok(text.parse()?)
/// }
///
/// assert_eq!(number("").unwrap_err().to_string(), "there is no number");
/// assert_eq!(number("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Error {
    kind: ErrorKind,
    what: What,
    cause: Option<Box<Error>>,
    place: &'static Location<'static>,
}

/// What is told of an error: words of this crate or of the program, or another error.
enum What {
    Words(String),
    Error(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// Make an error with a message of your own.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(ErrorKind::Other, message)
    }

    #[track_caller]
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::made(kind, What::Words(message.into()))
    }

    #[track_caller]
    fn made(kind: ErrorKind, what: What) -> Self {
        Self { kind, what, cause: None, place: Location::caller() }
    }

    /// Say what was being done: `message` goes first, this error becomes its cause.
    ///
    /// ```
    /// # use svc_guest::{Error, Result};
    /// fn port(text: &str) -> Result<u16> {
    ///     text.parse().map_err(|error| Error::from(error).context("the port is not a number"))
    /// }
    /// assert_eq!(port("x").unwrap_err().to_string(), "the port is not a number");
    /// ```
    #[must_use]
    pub fn context(self, message: impl Into<String>) -> Self {
        let (kind, place) = (self.kind, self.place);
        Self { kind, what: What::Words(message.into()), cause: Some(Box::new(self)), place }
    }

    /// What sort of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where in the source it was made, or met with `?`.
    pub fn place(&self) -> &'static Location<'static> {
        self.place
    }

    /// What the tables say, when it is they who refused: of this error or of its causes.
    ///
    /// ```no_run
    /// # use svc_guest::{tables::{self, params}, Response, Result};
    /// fn add(name: &str) -> Result<Response> {
    ///     match tables::exec("insert into users (name) values ($1)", params![name]) {
    ///         Err(error) if error.refusal().is_some_and(|refusal| refusal.constraint() == "unique") => {
    ///             Ok(Response::text("there is one of that name\n").with_status(409))
    ///         }
    ///         done => done.map(|_| Response::empty(204)),
    ///     }
    /// }
    /// ```
    pub fn refusal(&self) -> Option<&Refusal> {
        match (&self.cause, &self.what) {
            (_, What::Error(error)) => error.downcast_ref(),
            (Some(cause), _) => cause.refusal(),
            _ => None,
        }
    }

    #[track_caller]
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::made(ErrorKind::Refused, What::Error(Box::new(refusal)))
    }

    /// A stream that gave or took nothing; `what` names it.
    #[track_caller]
    pub(crate) fn stream(error: &StreamError, what: &str) -> Self {
        match error {
            StreamError::Closed => Self::of(ErrorKind::Gone, format!("{what} is closed")),
            StreamError::Failed => Self::of(ErrorKind::Network, format!("{what} was broken off")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Words(words) => f.write_str(words),
            What::Error(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.place)?;
        match &self.cause {
            Some(cause) => write!(f, ", caused by {cause:?}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.cause, &self.what) {
            (Some(cause), _) => Some(&**cause),
            (None, What::Error(error)) => error.source(),
            (None, What::Words(_)) => None,
        }
    }
}

impl From<io::Error> for Error {
    /// An error of this crate that went through `std::io` comes back as it was.
    #[track_caller]
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => ErrorKind::Gone,
            io::ErrorKind::TimedOut => ErrorKind::TimedOut,
            _ => ErrorKind::Other,
        };
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => Self::made(kind, What::Error(Box::new(other))),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::Gone => io::ErrorKind::BrokenPipe,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::Invalid => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<&str> for Error {
    #[track_caller]
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for Error {
    #[track_caller]
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<Box<dyn StdError + Send + Sync>> for Error {
    #[track_caller]
    fn from(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self::made(ErrorKind::Other, What::Error(error))
    }
}

/// Let `?` turn the errors of std into an [`Error`].
macro_rules! from_errors {
    ($($type:ty),* $(,)?) => {$(
        impl From<$type> for Error {
            #[track_caller]
            fn from(error: $type) -> Self {
                Self::made(ErrorKind::Other, What::Error(Box::new(error)))
            }
        }
    )*};
}

from_errors!(
    fmt::Error,
    std::char::ParseCharError,
    std::env::VarError,
    std::num::ParseFloatError,
    std::num::ParseIntError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::time::SystemTimeError,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32> {
        Ok(text.parse::<u32>()?)
    }

    #[test]
    fn a_question_mark_keeps_its_place() {
        let error = number("x").unwrap_err();
        assert!(error.place().file().ends_with("error.rs"));
        assert_eq!(error.place().line(), line!() - 7);
        let outer = error.context("no number");
        assert_eq!(outer.to_string(), "no number");
        assert_eq!(outer.source().unwrap().to_string(), "invalid digit found in string");
    }

    #[test]
    fn an_error_survives_its_way_through_std_io() {
        let error = Error::of(ErrorKind::Gone, "the client went away");
        let line = error.place().line();
        let through = Error::from(io::Error::from(error));
        assert_eq!(through.kind(), ErrorKind::Gone);
        assert_eq!(through.place().line(), line);
        assert_eq!(through.to_string(), "the client went away");
    }
}
