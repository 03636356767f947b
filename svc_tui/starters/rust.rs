//! Each request runs this program in a new WebAssembly instance, so nothing stays in memory between requests.

use svc_guest::{log, quote, Request, Response, Result};

fn handle(request: Request) -> Result<Response> {
    Ok(match (request.method(), request.path()) {
        ("GET", "__PREFIX__/hello") => hello(&request),
        _ => Response::text("not found\n").with_status(404),
    })
}

fn hello(request: &Request) -> Response {
    log::info!("hello", path = request.path());
    let id = std::env::var("SVC_REQUEST_ID").unwrap_or_default();
    Response::json(format!(r#"{{"hello":"__NAME__","request":{}}}"#, quote(&id)))
}

svc_guest::handler!(handle);
