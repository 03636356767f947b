//! The request of a run.

use std::cell::OnceCell;
use std::mem::ManuallyDrop;

use crate::abi::incoming::IncomingRequest;
use crate::body::Body;
use crate::error::{HostError, Result};
use crate::headers::Headers;
use crate::query;

/// The request that is to be answered. What is not asked for is not fetched from the host.
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
    // Never given back: the instance is thrown away after its one request, and that gives back everything.
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

    /// The method, `GET` for instance.
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

    /// What follows the `?` as the client sent it, or nothing.
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

    /// The first value of a header, whatever the case of `name`; `None` also when it is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)
    }

    /// The body, to be read as it arrives.
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

    /// Read what is left of the body.
    ///
    /// # Errors
    ///
    /// When the client broke off.
    pub fn bytes(&mut self) -> Result<Vec<u8>, HostError> {
        self.body().bytes()
    }

    /// Read what is left of the body as text.
    ///
    /// # Errors
    ///
    /// When the client broke off, and when it is not UTF-8.
    pub fn text(&mut self) -> Result<String, HostError> {
        self.body().text()
    }
}
