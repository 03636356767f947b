//! Each request runs this program in a new WebAssembly instance. Data that must last belongs in a table.

use svc_guest::tables::{self, params, FromRow, Statement};
use svc_guest::{log, quote, HostError, Request, Response, Result};

fn handle(mut request: Request) -> Result<Response> {
    let entry = request.path().strip_prefix("/rust/entries/").and_then(|rest| rest.strip_suffix("/heart"));
    match (request.method(), request.path(), entry.map(str::parse)) {
        ("GET", "/rust/entries", _) => list(),
        ("POST", "/rust/entries", _) => add(&mut request),
        ("POST", _, Some(Ok(id))) => heart(id),
        _ => Ok(problem(404, "Not found")),
    }
}

fn list() -> Result<Response> {
    let rows = tables::query("select * from entries order by id desc limit 100", params![])?;
    Ok(Response::json(tables::to_json(&rows)))
}

tables::row! {
    struct Entry {
        id: i64,
        author: String,
    }
}

/// The body is JSON, which SQLite parses.
fn add(request: &mut Request) -> Result<Response> {
    let sent = request.text()?;
    let written = tables::exec(
        "insert into entries (lane, author, message)
         values ('rust', $1 ->> 'author', $1 ->> 'message') returning *",
        params![sent],
    );
    let row = match written {
        Ok(written) => written.rows.into_iter().next().ok_or("nothing was written")?,
        Err(error) => return refused(error),
    };
    let json = row.to_string();
    let entry = Entry::from_row(row)?;
    log::info!("entry written", lane = "rust", id = entry.id, author = entry.author);
    Ok(Response::json(json).with_status(201))
}

/// The visitor can correct an entry that the table rejects.
fn refused(error: HostError) -> Result<Response> {
    let Some(refusal) = error.refusal() else { return Err(error.into()) };
    let title = match refusal.code() {
        "constraint" => "A name has 1 to 40 characters, and a message 1 to 280",
        "sql-error" => "An entry is JSON with author and message",
        _ => return Err(error.into()),
    };
    log::warn!("entry refused", lane = "rust", reason = refusal.message());
    Ok(problem(400, title))
}

/// One transaction adds the heart and returns the new number.
fn heart(id: i64) -> Result<Response> {
    let done = tables::batch([
        Statement::new("update entries set hearts = hearts + 1 where id = $1", params![id]),
        Statement::new("select * from entries where id = $1", params![id]),
    ])?;
    Ok(match done[1].rows.first() {
        Some(row) => Response::json(row.to_string()),
        None => problem(404, "There is no such entry"),
    })
}

fn problem(status: u16, title: &str) -> Response {
    Response::json(format!("{{\"title\":{}}}", quote(title))).with_status(status)
}

svc_guest::handler!(handle);
