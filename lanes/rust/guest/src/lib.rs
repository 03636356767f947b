//! Serve HTTP requests from a WebAssembly component on `wasi:http`.
//!
//! A program has one handler, a function that takes a [`Request`] and returns a [`Response`]:
//!
//! ```
//! use svc_guest::{Request, Response, Result};
//!
//! fn handle(request: Request) -> Result<Response> {
//!     Ok(match (request.method(), request.path()) {
//!         ("GET", "/") => Response::text("Hello!\n"),
//!         ("GET", "/json") => Response::json(r#"{"hello":"world"}"#),
//!         _ => Response::text("not found\n").with_status(404),
//!     })
//! }
//!
//! svc_guest::handler!(handle);
//! ```
//!
//! Every request runs the program on a new instance: nothing in memory survives. A handler
//! that returns an error or panics causes a response of 500; the log has its message, with file and line.
//!
//! - [`Request`] reads its headers and its body on demand; [`Body`] is a [`std::io::Read`].
//! - [`Response`] is created from a text, from bytes, from a stream ([`Response::stream`]) or from server-sent events
//!   ([`Response::events`]).
//! - [`client`] sends requests to other servers, several at once with [`client::all`].
//! - [`tables`] reads and writes the tables of the project.
//! - [`files`] stores large objects, as streams.
//! - [`jobs`] adds requests that svc sends later.
//! - [`password`] hashes and verifies passwords.
//! - [`log`] writes structured records; `println!` and `eprintln!` write plain ones.
//! - The environment is [`mod@std::env`]'s, the clock [`std::time`]'s, and [`sleep`] waits.
//!
//! The crate has no dependencies and works beside others that bind WASI 0.2, such as `wasi` and `wstd`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod body;
pub mod client;
mod door;
mod error;
mod events;
pub mod files;
mod headers;
pub mod jobs;
mod json;
pub mod log;
pub mod password;
mod query;
mod request;
mod response;
mod serve;
pub mod tables;
mod telemetry;
mod writer;

use std::time::Duration;

pub use body::Body;
pub use error::{Error, ErrorKind, HostError, Result};
pub use events::{Event, Events};
pub use headers::Headers;
pub use json::quote;
pub use request::Request;
pub use response::Response;
pub use writer::Writer;

#[doc(hidden)]
pub mod macros {
    pub use crate::abi::WORLD;
    pub use crate::serve::{serve, IntoResponse};
}

/// Wait. Other requests continue meanwhile.
///
/// ```no_run
/// svc_guest::sleep(std::time::Duration::from_millis(200));
/// ```
pub fn sleep(duration: Duration) {
    telemetry::block(&abi::poll::Pollable::after(duration));
}

/// Set the function that handles requests.
///
/// It takes a [`Request`] and returns a [`Response`], or a `Result` of one with any error that
/// `Box<dyn std::error::Error>` can be made of. Use this once in a program, in a library with
/// `crate-type = ["cdylib"]` or in a binary, whose `main` stays empty.
///
/// ```
/// use svc_guest::{Request, Response};
///
/// fn handle(_request: Request) -> Response {
///     Response::text("Hello!\n")
/// }
///
/// svc_guest::handler!(handle);
/// ```
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[used]
            #[link_section = "component-type:svc-guest"]
            static WORLD: [u8; $crate::macros::WORLD.len()] = *$crate::macros::WORLD;

            #[export_name = "wasi:http/incoming-handler@0.2.4#handle"]
            extern "C" fn __handle(request: u32, response: u32) {
                $crate::macros::serve(request, response, $handle);
            }
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = || $crate::macros::serve(0, 0, $handle);
    };
}
