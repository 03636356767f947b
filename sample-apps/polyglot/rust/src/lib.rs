//! Each request runs this program in a new WebAssembly instance: nothing in memory survives.

use std::time::Duration;

use svc_guest::{log, quote, sleep, Event, Request, Response, Result};

const TICKS: u64 = 50; // 25 s, within run_limit_secs; the browser reconnects by itself.

fn handle(request: Request) -> Result<Response> {
    Ok(match (request.method(), request.path()) {
        ("GET", "/rust/hello") => hello(&request),
        ("GET", "/rust/events") => events(&request),
        ("POST", "/rust/echo") => echo(request),
        ("GET", "/rust/fail") => fail(),
        _ => Response::text("not found\n").with_status(404),
    })
}

fn hello(request: &Request) -> Response {
    let (method, path) = (request.method(), request.path());
    log::info!("hello", lane = "rust", method = method, path = path);
    let id = std::env::var("SVC_REQUEST_ID").unwrap_or_default();
    Response::json(format!(
        r#"{{"lane":"rust","message":"Hello from Rust","method":{},"path":{},"runtime":"none","request":{}}}"#,
        quote(method),
        quote(path),
        quote(&id),
    ))
}

/// When the client disconnects, the next `send` fails and `?` ends the handler.
fn events(request: &Request) -> Response {
    let seen = request.header("last-event-id").and_then(|id| id.parse().ok()).unwrap_or(0);
    Response::events(move |events| {
        for n in seen + 1..=seen + TICKS {
            let event = Event::data(format!(r#"{{"lane":"rust","n":{n}}}"#));
            events.send(&event.id(n.to_string()).retry(Duration::from_millis(500)))?;
            sleep(Duration::from_millis(500));
        }
        Ok(())
    })
}

/// Returns the request body while it arrives, in constant memory.
fn echo(mut request: Request) -> Response {
    let kind = request.header("content-type").unwrap_or("application/octet-stream").to_owned();
    Response::stream(move |out| {
        std::io::copy(request.body(), out)?;
        Ok(())
    })
    .with_header("content-type", kind)
}

fn fail() -> Response {
    log::warn!("about to fail", lane = "rust");
    panic!("panicked on purpose");
}

svc_guest::handler!(handle);
