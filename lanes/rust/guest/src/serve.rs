//! One run: from the request to the end of its response, and failures of the program.

use std::error::Error as StdError;
use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::panic::{self, Location, PanicHookInfo};
use std::process;

use crate::abi::incoming::{IncomingRequest, ResponseOutparam};
use crate::error::{ErrorKind, Placed};
use crate::request::Request;
use crate::response::Response;
use crate::telemetry;

/// A return value of a handler.
pub trait IntoResponse {
    /// Return the response, or the error of the handler.
    fn into_response(self) -> Result<Response, Box<dyn StdError>>;
}

impl IntoResponse for Response {
    fn into_response(self) -> Result<Response, Box<dyn StdError>> {
        Ok(self)
    }
}

impl<E: Into<Box<dyn StdError>>> IntoResponse for Result<Response, E> {
    fn into_response(self) -> Result<Response, Box<dyn StdError>> {
        self.map_err(Into::into)
    }
}

/// Handle one request; the two numbers are the handles that the host passes.
pub fn serve<R: IntoResponse>(request: u32, out: u32, handle: fn(Request) -> R) {
    panic::set_hook(Box::new(panicked));
    telemetry::open();
    let out = ResponseOutparam::from_handle(out);
    match handle(Request::of(IncomingRequest::from_handle(request))).into_response() {
        Ok(response) => match response.send(out) {
            // A disconnected client is not an error, and cannot receive a response.
            Err(error) if error.kind() != ErrorKind::Gone => fail(&*Box::<dyn StdError>::from(error)),
            _ => {}
        },
        Err(error) => fail(&*error),
    }
    telemetry::flush();
    let _ = std::io::stdout().flush();
}

/// Print the error and exit: the host sends a response of 500, or aborts one that was started.
fn fail(error: &(dyn StdError + 'static)) -> ! {
    let mut text = format!("Error: {}\n", indented(error));
    if let Some(placed) = error.downcast_ref::<Placed>() {
        at(&mut text, placed.place);
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = writeln!(text, "  caused by {}", indented(error));
        cause = error.source();
    }
    end(&text)
}

fn panicked(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "a value that is not text",
    };
    let mut text = format!("panicked: {}\n", indented(&message));
    if let Some(place) = info.location() {
        at(&mut text, place);
    }
    end(&text)
}

/// Return a message whose later lines are indented: the host shows the last line without indentation as the reason.
fn indented(message: &dyn Display) -> String {
    message.to_string().trim_end().replace('\n', "\n    ")
}

fn at(text: &mut String, place: &Location<'_>) {
    let _ = writeln!(text, "    at {place}");
}

fn end(text: &str) -> ! {
    telemetry::flush();
    let _ = std::io::stderr().write_all(text.as_bytes());
    process::exit(1)
}
