//! The response to the request.

use std::fmt;
use std::io::Write;

use crate::abi::fields::{Fields, HeaderError};
use crate::abi::incoming::{OutgoingResponse, ResponseOutparam};
use crate::error::{ErrorKind, HostError, Result};
use crate::events::Events;
use crate::writer::Writer;

/// A response: a status, headers and a body.
///
/// ```
/// use svc_guest::Response;
///
/// let response = Response::json(r#"{"error":"no such page"}"#)
///     .with_status(404)
///     .with_header("cache-control", "no-store");
/// ```
#[derive(Debug)]
#[must_use]
pub struct Response {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    content: Content,
}

enum Content {
    Whole(Vec<u8>),
    Stream(Box<dyn FnOnce(&mut Writer) -> Result<()>>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("a stream"),
        }
    }
}

impl Response {
    /// A response without a body, status 200 to 599.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), content: Content::Whole(Vec::new()) }
    }

    /// Bytes, without a content type.
    pub fn bytes(body: impl Into<Vec<u8>>) -> Self {
        Self { content: Content::Whole(body.into()), ..Self::empty(200) }
    }

    /// Plain text.
    pub fn text(body: impl Into<String>) -> Self {
        Self::bytes(body.into()).with_header("content-type", "text/plain; charset=utf-8")
    }

    /// An HTML page.
    pub fn html(body: impl Into<String>) -> Self {
        Self::bytes(body.into()).with_header("content-type", "text/html; charset=utf-8")
    }

    /// JSON, as text that a crate like `serde_json` made, or your own with [`quote`](crate::quote).
    pub fn json(body: impl Into<String>) -> Self {
        Self::bytes(body.into()).with_header("content-type", "application/json")
    }

    /// A redirection with status 303: the client requests `location` with GET.
    pub fn see_other(location: impl Into<String>) -> Self {
        Self::empty(303).with_header("location", location.into())
    }

    /// A body that `write` writes piece by piece; each piece is sent at once.
    ///
    /// If `write` returns an error, the connection is aborted, so that the client detects it; if the client
    /// disconnected, there is no further effect.
    ///
    /// ```
    /// use std::{io::Write, time::Duration};
    /// use svc_guest::{sleep, Response};
    ///
    /// let countdown = Response::stream(|out| {
    ///     for n in (1..=3).rev() {
    ///         writeln!(out, "{n}")?;
    ///         sleep(Duration::from_secs(1));
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn stream(write: impl FnOnce(&mut Writer) -> Result<()> + 'static) -> Self {
        Self { content: Content::Stream(Box::new(write)), ..Self::empty(200) }
    }

    /// Server-sent events; each is sent at once.
    ///
    /// ```
    /// use svc_guest::{Event, Response};
    ///
    /// let response = Response::events(|events| {
    ///     for n in 1..=3 {
    ///         events.send(&Event::data(format!("number {n}")).id(n.to_string()).name("tick"))?;
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn events(send: impl FnOnce(&mut Events<'_>) -> Result<()> + 'static) -> Self {
        Self::stream(move |out| send(&mut Events::to(out)))
            .with_header("content-type", "text/event-stream")
            .with_header("cache-control", "no-cache")
    }

    /// Set the status, 200 to 599.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Set a header and remove all others of that name.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    /// Add a header to those of the same name: `set-cookie` for instance.
    pub fn with_added_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Send the whole response; return once the host has accepted all of it.
    pub(crate) fn send(mut self, out: ResponseOutparam) -> Result<()> {
        self.announce_length();
        let response = OutgoingResponse::new(fields(&self.headers)?);
        if self.status != 200 && !response.set_status(self.status) {
            let message = format!("{} is not the status of a response (200 to 599)", self.status);
            return Err(HostError::new(ErrorKind::Invalid, message).into());
        }
        if matches!(&self.content, Content::Whole(bytes) if bytes.is_empty()) {
            out.set(response);
            return Ok(());
        }
        let body = response.body().expect("a response's body is taken once");
        out.set(response);
        let mut writer = Writer::of(body, "the client");
        match self.content {
            Content::Whole(bytes) => writer.write_all(&bytes)?,
            Content::Stream(write) => write(&mut writer)?,
        }
        Ok(writer.finish()?)
    }

    /// Set the content length of a complete body, which spares the host from measuring it.
    fn announce_length(&mut self) {
        let Content::Whole(bytes) = &self.content else { return };
        let known = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if !bytes.is_empty() && !known && !matches!(self.status, 204 | 304) {
            self.headers.push(("content-length".to_owned(), bytes.len().to_string().into_bytes()));
        }
    }
}

/// Create header fields from a list. Returns an error that names a rejected field.
pub(crate) fn fields(list: &[(String, Vec<u8>)]) -> Result<Fields, HostError> {
    Fields::from_list(list).map_err(|refusal| {
        let reason = match refusal {
            HeaderError::Syntax => "is not valid",
            HeaderError::Forbidden => "is the host's own affair",
            HeaderError::Immutable => "cannot be changed",
        };
        let refused = list.iter().find(|field| Fields::from_list(std::slice::from_ref(field)).is_err());
        let name = refused.map_or("", |(name, _)| name);
        HostError::new(ErrorKind::Invalid, format!("the header {name:?} {reason}"))
    })
}
