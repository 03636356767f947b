//! Requests to other servers. Calls to origins that `egress` in svc.toml does not list are denied.
//!
//! ```no_run
//! use svc_guest::{client, Result};
//!
//! fn name_of(id: u32) -> Result<String> {
//!     let mut response = client::get(format!("https://api.example.com/users/{id}")).send()?;
//!     Ok(response.text()?)
//! }
//!
//! // Several at once, in the time of the slowest:
//! fn names() -> Result<Vec<String>> {
//!     let requests = (1..=3).map(|id| client::get(format!("https://api.example.com/users/{id}")));
//!     client::all(requests).into_iter().map(|response| Ok(response?.text()?)).collect()
//! }
//! ```

use std::fmt;
use std::io::Write;
use std::time::Duration;

use crate::abi::incoming::OutgoingBody;
use crate::abi::outgoing::{FutureResponse, IncomingResponse, OutgoingRequest};
use crate::abi::poll::Pollable;
use crate::body::Body;
use crate::error::{ErrorKind, HostError, Result};
use crate::headers::Headers;
use crate::response::fields;
use crate::telemetry;
use crate::writer::Writer;

/// A GET request.
pub fn get(url: impl Into<String>) -> Request {
    Request::new("GET", url)
}

/// A HEAD request.
pub fn head(url: impl Into<String>) -> Request {
    Request::new("HEAD", url)
}

/// A POST request.
pub fn post(url: impl Into<String>) -> Request {
    Request::new("POST", url)
}

/// A PUT request.
pub fn put(url: impl Into<String>) -> Request {
    Request::new("PUT", url)
}

/// A PATCH request.
pub fn patch(url: impl Into<String>) -> Request {
    Request::new("PATCH", url)
}

/// A DELETE request.
pub fn delete(url: impl Into<String>) -> Request {
    Request::new("DELETE", url)
}

/// Send several requests at once and wait for the head of every response, in the order of the requests.
pub fn all(requests: impl IntoIterator<Item = Request>) -> Vec<Result<Response, HostError>> {
    let pending: Vec<_> = requests.into_iter().map(Request::start).collect();
    pending.into_iter().map(|started| started?.wait()).collect()
}

/// A request to another server.
///
/// ```no_run
/// use svc_guest::{client, quote};
///
/// let response = client::post("https://api.example.com/notes")
///     .header("authorization", "Bearer …")
///     .json(format!("{{\"text\":{}}}", quote("hello")))
///     .timeout(std::time::Duration::from_secs(5))
///     .send()?;
/// assert_eq!(response.status(), 201);
/// # Ok::<(), svc_guest::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    content: Content,
    timeout: Option<Duration>,
}

enum Content {
    None,
    Whole(Vec<u8>),
    Stream(Box<dyn FnOnce(&mut Writer) -> Result<()>>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("a stream"),
        }
    }
}

impl Request {
    /// A request with any method.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            content: Content::None,
            timeout: None,
        }
    }

    /// Add a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Set the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.content = Content::Whole(body.into());
        self
    }

    /// Set a JSON text as the body, with its content type.
    pub fn json(self, body: impl Into<String>) -> Self {
        self.header("content-type", "application/json").body(body.into())
    }

    /// Write the body with `write`, piece by piece, while the request is being sent.
    pub fn stream(mut self, write: impl FnOnce(&mut Writer) -> Result<()> + 'static) -> Self {
        self.content = Content::Stream(Box::new(write));
        self
    }

    /// Set the maximum time to wait for the head of the response.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Send the request and wait for the head of the response. No status is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Denied`] if `egress` does not permit it, [`ErrorKind::Invalid`] for an invalid URL, method or
    /// header, [`ErrorKind::TimedOut`], and [`ErrorKind::Network`] for all other failures.
    pub fn send(self) -> Result<Response, HostError> {
        self.start()?.wait()
    }

    /// Send the request and its body; [`Pending::wait`] waits for the response.
    ///
    /// # Errors
    ///
    /// As for [`Request::send`].
    pub fn start(mut self) -> Result<Pending, HostError> {
        let what = format!("{} {}", self.method, self.url);
        let address = Address::of(&self.url)
            .ok_or_else(|| HostError::new(ErrorKind::Invalid, format!("{what}: the URL is not valid")))?;
        if let Content::Whole(bytes) = &self.content {
            self.headers.push(("content-length".to_owned(), bytes.len().to_string().into_bytes()));
        }
        let request = OutgoingRequest::new(fields(&self.headers)?);
        if !request.set_method(&self.method)
            || !request.set_address(address.encrypted, address.authority, &address.target)
        {
            return Err(HostError::new(ErrorKind::Invalid, format!("{what}: the method or the URL is not valid")));
        }
        let body = match self.content {
            Content::None => None,
            _ => request.body(),
        };
        let timer = self.timeout.map(Pollable::after);
        let future = request.send().map_err(|code| {
            let kind = if code.denied() { ErrorKind::Denied } else { ErrorKind::Network };
            HostError::new(kind, format!("{what}: {}", code.meaning()))
        })?;
        if let Some(body) = body {
            write(body, self.content)?;
        }
        Ok(Pending { future, timer, what })
    }
}

/// Write the body of a request. A server that stops reading may still respond.
fn write(body: OutgoingBody, content: Content) -> Result<(), HostError> {
    let mut writer = Writer::of(body, "the server");
    let written = match content {
        Content::None => Ok(()),
        Content::Whole(bytes) => writer.write_all(&bytes).map_err(HostError::from),
        Content::Stream(write) => write(&mut writer).map_err(HostError::other),
    };
    match written {
        Ok(()) => writer.finish(),
        Err(error) if error.kind() == ErrorKind::Gone => Ok(()),
        Err(error) => Err(error),
    }
}

/// A request that was sent. Dropping it cancels it.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    future: FutureResponse,
    timer: Option<Pollable>,
    what: String,
}

impl Pending {
    /// Wait for the head of the response.
    ///
    /// # Errors
    ///
    /// As for [`Request::send`].
    pub fn wait(self) -> Result<Response, HostError> {
        let ready = self.future.subscribe();
        match &self.timer {
            None => telemetry::block(&ready),
            Some(timer) if ready.before(timer) => {}
            Some(_) => {
                let message = format!("{}: no response in time", self.what);
                return Err(HostError::new(ErrorKind::TimedOut, message));
            }
        }
        match self.future.get() {
            Some(Ok(response)) => Ok(Response::of(&response)),
            Some(Err(code)) => {
                let kind = if code.timed_out() { ErrorKind::TimedOut } else { ErrorKind::Network };
                Err(HostError::new(kind, format!("{}: {}", self.what, code.meaning())))
            }
            None => Err(HostError::new(ErrorKind::Network, format!("{}: no response", self.what))),
        }
    }
}

/// A response of another server; its body is read as it arrives.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: Headers,
    body: Body,
}

impl Response {
    fn of(response: &IncomingResponse) -> Self {
        Self {
            status: response.status(),
            headers: Headers::of(&response.headers()),
            body: Body::of(response.consume()),
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The header fields.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The first value of a header, ignoring the case of `name`; `None` also if it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// The body, which is read as it arrives.
    pub fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    /// The body alone, to move it into a stream for instance.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Read the rest of the body.
    ///
    /// # Errors
    ///
    /// If the server disconnected.
    pub fn bytes(&mut self) -> Result<Vec<u8>, HostError> {
        self.body.bytes()
    }

    /// Read the rest of the body as text.
    ///
    /// # Errors
    ///
    /// If the server disconnected, or the body is not UTF-8.
    pub fn text(&mut self) -> Result<String, HostError> {
        self.body.text()
    }
}

/// The parts of an absolute http or https URL, without the fragment.
#[derive(Debug, PartialEq)]
struct Address<'a> {
    encrypted: bool,
    authority: &'a str,
    target: String,
}

impl<'a> Address<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let mut target = String::with_capacity(path.len() + 1);
        if !path.starts_with('/') {
            target.push('/');
        }
        for byte in path.bytes() {
            match byte {
                b'!'..=b'~' => target.push(char::from(byte)),
                _ => target.push_str(&format!("%{byte:02X}")),
            }
        }
        (!authority.is_empty()).then_some(Self { encrypted, authority, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let address = |encrypted, authority, target: &str| {
            Some(Address { encrypted, authority, target: target.to_owned() })
        };
        assert_eq!(Address::of("https://a.example"), address(true, "a.example", "/"));
        assert_eq!(Address::of("HTTP://[::1]:80?x#y"), address(false, "[::1]:80", "/?x"));
        assert_eq!(Address::of("http://a/ü b/?q=%20#f"), address(false, "a", "/%C3%BC%20b/?q=%20"));
        for bad in ["", "/path", "ftp://a/", "http://", "https:///x"] {
            assert_eq!(Address::of(bad), None, "{bad}");
        }
    }
}
