//! As js/index.js.

use svc_guest::tables::{Options, Param, Sql, Statement};
use svc_guest::{Request, Response, Result};

fn handle(mut request: Request) -> Result<Response> {
    let body = request.text()?;
    let mut lines = body.split('\n').map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let statements: Vec<_> = lines.collect();
    let first = &statements[0];
    let mut on = Options::default();
    if !head[1].is_empty() {
        on = on.idempotency_key(head[1]);
    }
    if !head[2].is_empty() {
        on = on.stale_ok(true);
    }
    let done = match head[0] {
        "query" => on.query(sql(first), &params(first)).and_then(|rows| rows[0].get::<String>("found")),
        "exec" => on.exec(sql(first), &params(first)).map(|_| String::new()),
        _ => {
            let all = statements.iter().map(|statement| Statement::new(sql(statement), &params(statement)));
            on.batch(all).map(|_| String::new())
        }
    };
    match done {
        Ok(found) => Ok(Response::text(found)),
        Err(error) => match error.refusal() {
            Some(refusal) => Ok(Response::text(refusal.code()).with_status(refusal.status())),
            None => Err(error.into()),
        },
    }
}

fn sql(statement: &[&str]) -> Sql {
    Sql::made(statement[0])
}

fn params<'a>(statement: &'a [&'a str]) -> Vec<&'a dyn Param> {
    statement[1..].iter().map(|param| param as &dyn Param).collect()
}

svc_guest::handler!(handle);
