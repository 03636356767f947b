//! Errors: those of this crate, and any error that a handler returns.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::Location;

use crate::abi::streams::StreamError;
use crate::tables::Refusal;

/// `Result` with [`Error`], which takes any error with `?`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client, or the server that was called, disconnected.
    Gone,
    /// `egress` does not permit the call to another server.
    Denied,
    /// An operation took too long.
    TimedOut,
    /// An exchange with another server failed.
    Network,
    /// A header, a URL, a status, an event, a parameter or a column is not valid.
    Invalid,
    /// The tables rejected a statement; [`HostError::refusal`] has the reason.
    Refused,
    /// Any other error.
    Other,
}

/// An error of this crate: of the request, the response, another server or the tables.
///
/// It implements [`std::error::Error`], so `?` turns it into an [`Error`], an `anyhow::Error` or an error of
/// your own alike.
#[derive(Debug)]
pub struct HostError {
    kind: ErrorKind,
    what: What,
}

#[derive(Debug)]
enum What {
    Message(String),
    Error(Box<dyn StdError + Send + Sync>),
}

impl HostError {
    /// Create an error, in an implementation of [`FromRow`](crate::tables::FromRow) for instance.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, what: What::Message(message.into()) }
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self { kind: ErrorKind::Refused, what: What::Error(refusal.into()) }
    }

    /// Wrap an error of the program, whose place is preserved.
    pub(crate) fn other(error: Error) -> Self {
        Self { kind: error.kind(), what: What::Error(error.0) }
    }

    /// Describe a failed stream; `what` names it.
    pub(crate) fn stream(error: &StreamError, what: &str) -> Self {
        match error {
            StreamError::Closed => Self::new(ErrorKind::Gone, format!("{what} is closed")),
            StreamError::Failed => Self::new(ErrorKind::Network, format!("{what} was broken off")),
        }
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Why the tables rejected the statement, if they did.
    ///
    /// ```no_run
    /// # use svc_guest::{tables::{self, params}, Response, Result};
    /// fn add(name: &str) -> Result<Response> {
    ///     match tables::exec("insert into users (name) values ($1)", params![name]) {
    ///         Err(error) if error.refusal().is_some_and(|refusal| refusal.constraint() == "unique") => {
    ///             Ok(Response::text("this name is in use\n").with_status(409))
    ///         }
    ///         done => {
    ///             done?;
    ///             Ok(Response::empty(204))
    ///         }
    ///     }
    /// }
    /// ```
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.what {
            What::Error(error) => error.downcast_ref(),
            What::Message(_) => None,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Message(message) => f.write_str(message),
            What::Error(error) => error.fmt(f),
        }
    }
}

impl StdError for HostError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.what {
            What::Error(error) => error.source(),
            What::Message(_) => None,
        }
    }
}

impl From<HostError> for io::Error {
    fn from(error: HostError) -> Self {
        Self::new(io_kind(error.kind), error)
    }
}

impl From<io::Error> for HostError {
    /// Return the error of this crate inside, if there is one.
    fn from(error: io::Error) -> Self {
        let kind = kind_of_io(&error);
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => Self { kind, what: What::Error(other.into()) },
        }
    }
}

/// Any error, and the place in the source where `?` met it.
///
/// `?` makes one of every error that implements [`std::error::Error`], of an `anyhow::Error`, and of a text.
/// As in `anyhow`, the type itself does not implement [`std::error::Error`]: it dereferences to it.
///
/// ```
/// use svc_guest::{Error, Result};
///
/// fn number(text: &str) -> Result<u32> {
///     if text.is_empty() {
///         return Err(Error::new("the number is missing"));
///     }
///     Ok(text.parse()?)
/// }
///
/// assert_eq!(number("").unwrap_err().to_string(), "the number is missing");
/// let error = number("x").unwrap_err();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
/// ```
pub struct Error(Box<Placed>);

/// An error and its place; [`Error`] as an implementation of [`std::error::Error`].
pub(crate) struct Placed {
    error: Box<dyn StdError + Send + Sync>,
    pub(crate) place: &'static Location<'static>,
}

/// A description in front of an error.
#[derive(Debug)]
struct Context {
    message: String,
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Create an error with a message of your own.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        Self::from(message.into())
    }

    /// Describe what failed: `message` goes first, this error becomes its cause.
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
        let Placed { error: cause, place } = *self.0;
        let error = Box::new(Context { message: message.into(), cause });
        Self(Box::new(Placed { error, place }))
    }

    /// The kind of the error, or of the first of its causes that has one.
    pub fn kind(&self) -> ErrorKind {
        let kind = |error: &(dyn StdError + 'static)| match error.downcast_ref::<io::Error>() {
            Some(error) => Some(kind_of_io(error)),
            None => error.downcast_ref::<HostError>().map(HostError::kind),
        };
        self.chain().find_map(kind).unwrap_or(ErrorKind::Other)
    }

    /// Where in the source it was created, or met with `?`.
    pub fn place(&self) -> &'static Location<'static> {
        self.0.place
    }

    /// Why the tables rejected a statement, if this error or one of its causes is that: see
    /// [`HostError::refusal`].
    pub fn refusal(&self) -> Option<&Refusal> {
        self.chain().find_map(|error| error.downcast_ref::<HostError>()?.refusal())
    }

    /// The error and its causes.
    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = &*self.0.error;
        std::iter::successors(Some(first), |&error| error.source())
    }
}

impl Deref for Error {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0.error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().fmt(f)
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.place)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ", caused by {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Placed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Context {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    /// An error of this crate that passed through `std::io` comes back as it was.
    #[track_caller]
    fn from(error: E) -> Self {
        let place = Location::caller();
        match unwrapped(error.into()).downcast() {
            Ok(placed) => Self(placed),
            Err(error) => Self(Box::new(Placed { error, place })),
        }
    }
}

/// Return the error of this crate or of the program inside a wrapper, or the error itself.
fn unwrapped(error: Box<dyn StdError + Send + Sync>) -> Box<dyn StdError + Send + Sync> {
    if error.downcast_ref::<io::Error>().and_then(io::Error::get_ref).is_some_and(is_own) {
        let inner = error.downcast::<io::Error>().ok().and_then(|error| error.into_inner());
        return unwrapped(inner.expect("the error inside was found before"));
    }
    match error.downcast::<HostError>() {
        Ok(host) => match *host {
            HostError { what: What::Error(error), .. } if error.is::<Placed>() => error,
            host => host.into(),
        },
        Err(other) => other,
    }
}

fn is_own(error: &(dyn StdError + Send + Sync + 'static)) -> bool {
    error.is::<Placed>() || error.is::<HostError>()
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let (kind, placed): (_, Box<dyn StdError + Send + Sync>) = (io_kind(error.kind()), error.0);
        Self::new(kind, placed)
    }
}

fn io_kind(kind: ErrorKind) -> io::ErrorKind {
    match kind {
        ErrorKind::Gone => io::ErrorKind::BrokenPipe,
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        ErrorKind::Invalid => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    }
}

fn kind_of_io(error: &io::Error) -> ErrorKind {
    if let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<HostError>()) {
        return own.kind;
    }
    match error.kind() {
        io::ErrorKind::BrokenPipe => ErrorKind::Gone,
        io::ErrorKind::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    }
}

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
        assert!(format!("{outer:?}").ends_with(", caused by invalid digit found in string"));
    }

    #[test]
    fn an_error_survives_its_way_through_std_io() {
        let error = Error::from(HostError::new(ErrorKind::Gone, "the client disconnected")).context("outer");
        let line = error.place().line();
        let through = Error::from(io::Error::from(error));
        assert_eq!((through.kind(), through.place().line()), (ErrorKind::Gone, line));
        assert_eq!(through.to_string(), "outer");
        let host = Error::from(io::Error::from(HostError::new(ErrorKind::Denied, "denied")));
        assert_eq!((host.kind(), host.to_string().as_str()), (ErrorKind::Denied, "denied"));
    }

    #[test]
    fn any_error_is_taken_with_its_causes() {
        fn plain() -> Result<()> {
            Err(io::Error::new(io::ErrorKind::TimedOut, "late"))?
        }
        fn boxed() -> Result<()> {
            plain().map_err(|error| error.context("boxed").into())
        }
        fn send() -> std::result::Result<(), Box<dyn StdError>> {
            Ok(boxed()?)
        }
        let error = boxed().unwrap_err();
        assert_eq!((error.kind(), error.source().unwrap().to_string().as_str()), (ErrorKind::TimedOut, "late"));
        assert_eq!(send().unwrap_err().source().unwrap().to_string(), "late");
        assert_eq!(Error::from("text").to_string(), "text");
        assert_eq!(Error::from(Box::<dyn StdError + Send + Sync>::from("boxed")).to_string(), "boxed");
    }
}
