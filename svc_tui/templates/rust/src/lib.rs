//! Each request runs this program in a new WebAssembly instance: nothing in memory survives.

use std::time::Duration;

use svc_guest::{log, quote, sleep, Event, Request, Response, Result};

const PAGE: &str = include_str!("page.html");

fn handle(request: Request) -> Result<Response> {
    Ok(match (request.method(), request.path()) {
        ("GET", "/") => Response::html(PAGE),
        ("GET", "/hello") => hello(&request),
        ("GET", "/breaths") => breaths(),
        _ => Response::text("not found\n").with_status(404),
    })
}

/// The name to greet is in the query. `std::env` has the variables of `svc.toml` and those of svc.
fn hello(request: &Request) -> Response {
    let name = request.parameter("name").filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "world".to_owned());
    log::info!("greeted", name = name);
    let id = std::env::var("SVC_REQUEST_ID").unwrap_or_default();
    Response::json(format!("{{\"hello\":{},\"request\":{}}}\n", quote(&name), quote(&id)))
}

/// A stream of events, each sent at once.
fn breaths() -> Response {
    Response::events(|events| {
        for n in 1..=5 {
            for word in ["in", "out"] {
                events.send(&Event::data(format!("{{\"n\":{n},\"breathe\":\"{word}\"}}")))?;
                sleep(Duration::from_secs(2));
            }
        }
        events.send(&Event::data("{\"n\":5,\"breathe\":\"done\"}").name("done"))?;
        Ok(())
    })
}

svc_guest::handler!(handle);
