//! One run: from the request to the end of its response, and how a program fails.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{self, Location, PanicHookInfo};
use std::process;

use crate::abi::incoming::{IncomingRequest, ResponseOutparam};
use crate::error::{Error, ErrorKind};
use crate::request::Request;
use crate::response::Response;
use crate::telemetry;

/// What a handler may return.
pub trait Answer {
    /// The response, or why there is none.
    fn answer(self) -> Result<Response, Box<dyn StdError>>;
}

impl Answer for Response {
    fn answer(self) -> Result<Response, Box<dyn StdError>> {
        Ok(self)
    }
}

impl<E: Into<Box<dyn StdError>>> Answer for Result<Response, E> {
    fn answer(self) -> Result<Response, Box<dyn StdError>> {
        self.map_err(Into::into)
    }
}

/// Answer one request; the two numbers are the handles that the host calls the handler with.
pub fn serve<A: Answer>(request: u32, place: u32, handle: fn(Request) -> A) {
    panic::set_hook(Box::new(panicked));
    telemetry::open();
    let place = ResponseOutparam::from_handle(place);
    match handle(Request::of(IncomingRequest::from_handle(request))).answer() {
        Ok(response) => match response.send(place) {
            // A disconnected client is not an error, and cannot receive a response.
            Err(error) if error.kind() != ErrorKind::Gone => fail(&error),
            _ => {}
        },
        Err(error) => fail(&*error),
    }
    telemetry::flush();
    let _ = std::io::stdout().flush();
}

/// Say what went wrong and end the run: the host answers with 500, or cuts off what was begun.
fn fail(error: &(dyn StdError + 'static)) -> ! {
    let mut text = format!("Error: {error}\n");
    if let Some(own) = error.downcast_ref::<Error>() {
        at(&mut text, own.place());
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = writeln!(text, "  caused by {error}");
        cause = error.source();
    }
    end(&text)
}

fn panicked(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "something that is no text",
    };
    let mut text = format!("panicked: {message}\n");
    if let Some(place) = info.location() {
        at(&mut text, place);
    }
    end(&text)
}

fn at(text: &mut String, place: &Location<'_>) {
    let _ = writeln!(text, "    at {place}");
}

/// The host reports the last line that is not indented as the reason.
fn end(text: &str) -> ! {
    telemetry::flush();
    let _ = std::io::stderr().write_all(text.as_bytes());
    process::exit(1)
}
