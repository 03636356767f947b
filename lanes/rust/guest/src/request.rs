//! The incoming request.

use std::cell::OnceCell;
use std::mem::ManuallyDrop;

use crate::abi::incoming::IncomingRequest;
use crate::body::Body;
use crate::error::{HostError, Result};
use crate::headers::Headers;
use crate::query;

/// The request to handle. Its parts are fetched from the host on demand.
///
/// ```
/// use svc_guest::{Request, Response, Result};
///
/// fn handle(mut request: Request) -> Result<Response> {
///     let name = request.parameter("name").unwrap_or_else(|| "world".to_owned());
///     let agent = request.header("user-agent").unwrap_or("unknown").to_owned();
///     let text = request.text()?;
///     Ok(Response::text(format!("Hello {name} with {agent}, you said: {text}\n")))
/// }
/// ```
#[derive(Debug)]
pub struct Request {
    // Never dropped: the instance is discarded after its one request, which releases everything.
    request: ManuallyDrop<IncomingRequest>,
    method: OnceCell<String>,
    target: OnceCell<String>,
    headers: OnceCell<Headers>,
    body: Option<Body>,
}

impl Request {
    pub(crate) fn of(request: IncomingRequest) -> Self {
        Self {
            request: ManuallyDrop::new(request),
            method: OnceCell::new(),
            target: OnceCell::new(),
            headers: OnceCell::new(),
            body: None,
        }
    }

    /// The method, for example `GET`.
    pub fn method(&self) -> &str {
        self.method.get_or_init(|| self.request.method())
    }

    /// Path and query as the client sent them, percent-encoded.
    pub fn target(&self) -> &str {
        self.target.get_or_init(|| self.request.path_with_query().unwrap_or_else(|| "/".to_owned()))
    }

    /// The path as the client sent it, percent-encoded.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// The path, decoded.
    pub fn decoded_path(&self) -> String {
        query::decode(self.path(), false)
    }

    /// The query without the `?`, as the client sent it, or an empty string.
    pub fn query(&self) -> &str {
        self.target().split_once('?').map_or("", |(_, query)| query)
    }

    /// The first value of a query parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        query::parameter(self.query(), name)
    }

    /// The header fields.
    pub fn headers(&self) -> &Headers {
        self.headers.get_or_init(|| Headers::of(&self.request.headers()))
    }

    /// The first value of a header, ignoring the case of `name`; `None` also if it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)
    }

    /// The body, which is read as it arrives.
    ///
    /// ```
    /// # use svc_guest::{Request, Response};
    /// fn echo(mut request: Request) -> Response {
    ///     Response::stream(move |out| {
    ///         std::io::copy(request.body(), out)?;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn body(&mut self) -> &mut Body {
        self.body.get_or_insert_with(|| Body::of(self.request.consume()))
    }

    /// The body alone, to move it into a stream for instance.
    pub fn into_body(mut self) -> Body {
        self.body();
        self.body.unwrap_or_else(|| Body::of(None))
    }

    /// Read the rest of the body.
    ///
    /// # Errors
    ///
    /// If the client disconnected.
    pub fn bytes(&mut self) -> Result<Vec<u8>, HostError> {
        self.body().bytes()
    }

    /// Read the rest of the body as text.
    ///
    /// # Errors
    ///
    /// If the client disconnected, or the body is not UTF-8.
    pub fn text(&mut self) -> Result<String, HostError> {
        self.body().text()
    }
}
