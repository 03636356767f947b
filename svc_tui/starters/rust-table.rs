//! Each request runs this program in a new WebAssembly instance. Rows of the table "__TABLE__" persist.

use svc_guest::tables::{self, params};
use svc_guest::{Request, Response, Result};

fn handle(mut request: Request) -> Result<Response> {
    match (request.method(), request.path()) {
        ("GET", "__PREFIX__/__TABLE__") => list(),
        ("POST", "__PREFIX__/__TABLE__") => add(&mut request),
        _ => Ok(Response::text("not found\n").with_status(404)),
    }
}

fn list() -> Result<Response> {
    let rows = tables::query(r#"select * from "__TABLE__" order by id desc limit 100"#, params![])?;
    Ok(Response::json(tables::to_json(&rows)))
}

/// The body is JSON with a text, which SQLite reads. `$1` is a parameter, never a part of the SQL.
fn add(request: &mut Request) -> Result<Response> {
    let sent = request.text()?;
    let written =
        tables::exec(r#"insert into "__TABLE__" (text) values ($1 ->> 'text') returning *"#, params![sent]);
    match written {
        Ok(written) => Ok(Response::json(written.rows[0].to_string()).with_status(201)),
        Err(error) if error.refusal().is_some() => {
            Ok(Response::json(r#"{"title":"The body is JSON with a text"}"#).with_status(400))
        }
        Err(error) => Err(error.into()),
    }
}

svc_guest::handler!(handle);
