//! A route for each thing that `svc_guest::tables` offers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_guest::tables::{self, params, FromRow, Options, Outcome, Row, Sql, Statement, Value};
use svc_guest::{password, quote, Error, HostError, Request, Response, Result};

const TEXT: &str = "ü\"\\\n\0😀";
const BLOB: [u8; 3] = [0, 255, 16];
const DOCUMENT: &str = r#"{"list":[1,2.5,null],"text":"ü"}"#;

fn handle(request: Request) -> Result<Response> {
    Ok(Response::json(match request.path() {
        "/types" => types()?,
        "/nulls" => nulls()?,
        "/order" => tables::to_json(&tables::query(
            "select $2 as b, $1 as a, $1 as again",
            params!["first", "second"],
        )?),
        "/arrays" => arrays()?,
        "/hostile" => hostile()?,
        "/exec" => exec()?,
        "/batch" => batch()?,
        "/options" => options()?,
        "/errors" => errors()?,
        "/unfit" => unfit(),
        "/misfit" => misfit(),
        "/password" => passwords()?,
        _ => return Ok(Response::empty(404)),
    }))
}

fn passwords() -> Result<String> {
    let hash = password::hash("pässword")?;
    let right = password::verify("pässword", &hash)?;
    let wrong = password::verify("password", &hash)?;
    let error = password::verify("password", "none").unwrap_err();
    Ok(format!("[{},{right},{wrong},{}]", quote(&hash[..31]), quote(&error.to_string())))
}

tables::row! {
    /// A row of things.
    #[derive(Debug, PartialEq)]
    struct Thing {
        i: i64,
        r: f64,
        t: String,
        b: bool,
        at: SystemTime,
        j: Value,
        d: Vec<u8>,
    }
}

fn moment() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_769_862_896_789)
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

fn types() -> Result<String> {
    let mut wrong = Vec::new();
    tables::exec(
        "insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)",
        params![i64::MIN, 1.5e300, TEXT, true, moment(), DOCUMENT, BLOB],
    )?;
    let found: Thing = tables::query_as("select * from things", params![])?.remove(0);
    let members = |found: &Value| (found.get("list").cloned(), found.get("text").cloned());
    let items = vec![Value::Integer(1), Value::Real(2.5), Value::Null];
    if members(&found.j) != (Some(Value::Array(items)), Some(Value::Text("ü".into()))) {
        wrong.push(quote(&format!("j: {:?}", found.j)));
    }
    let j = found.j.clone();
    let wanted =
        Thing { i: i64::MIN, r: 1.5e300, t: TEXT.into(), b: true, at: moment(), j, d: BLOB.to_vec() };
    if found != wanted {
        wrong.push(quote(&format!("{found:?}")));
    }
    let row = tables::query(
        "select $1 as a, $2 as b, $3 as c, $4 as d, $5 as e, $6 as f, j from things where d = $7 and j ->> 'text' = $8",
        params![
            u64::MAX / 2,
            &-1_i8,
            String::from("x"),
            Some(2.0),
            'ü',
            Value::Object(vec![("a".into(), Value::Array(vec![Value::Boolean(true)]))]),
            &BLOB[..],
            "ü"
        ],
    )?;
    let seen = (row[0].get::<u64>("a")?, row[0].get::<i8>("b")?, row[0].get::<String>("c")?);
    if seen != (u64::MAX / 2, -1, "x".into()) || row[0].get::<f64>("d")? != 2.0 {
        wrong.push(quote(&row[0].to_string()));
    }
    if row[0].get::<String>("e")? != "ü" || row[0].get::<String>("f")? != r#"{"a":[true]}"# {
        wrong.push(quote(&row[0].to_string()));
    }
    Ok(list(wrong))
}

fn nulls() -> Result<String> {
    let none = None::<i64>;
    tables::exec(
        "insert into things (i, r, t, b, at, j, d) values ($1, $2, $3, $4, $5, $6, $7)",
        params![
            none,
            None::<f64>,
            None::<&str>,
            None::<bool>,
            None::<SystemTime>,
            Value::Null,
            None::<Vec<u8>>
        ],
    )?;
    let rows = tables::query("select i, r, t, b, at, j, d from things", params![])?;
    let there = rows[0].iter().filter(|(_, value)| **value != Value::Null);
    Ok(list(there.map(|(name, _)| quote(name))))
}

fn arrays() -> Result<String> {
    tables::exec("insert into things (d) values (?1), (?1)", params![BLOB])?;
    let join = "select a.id, b.id, ? as x, a.d from things a join things b on b.id = a.id + 1";
    let found = tables::query_arrays(join, params!["first"])?;
    let mut row = found.rows[0].clone();
    row[3] = Value::Boolean(row[3] == Value::Blob(BLOB.to_vec()));
    Ok(format!("[{},{}]", list(found.columns.iter().map(|name| quote(name))), Value::Array(row)))
}

fn hostile() -> Result<String> {
    let name = "'; drop table users; --";
    tables::exec("insert into users (name) values ($1)", params![name])?;
    Ok(tables::to_json(&tables::query("select name from users where name = $1", params![name])?))
}

fn wire(outcome: &Outcome) -> String {
    let Outcome { changes, last_id, rows } = outcome;
    format!("{{\"changes\":{changes},\"last_id\":{last_id},\"rows\":{}}}", tables::to_json(rows))
}

fn exec() -> Result<String> {
    let inserted = tables::exec("insert into users (id, name) values ($1, $2)", params![7, "ada"])?;
    let updated = tables::exec("update users set age = $2 where name = $1", params!["ada", 36])?;
    let returned = tables::exec("insert into users (name) values ($1) returning id, name", params!["bob"])?;
    Ok(list([wire(&inserted), wire(&updated), wire(&returned)]))
}

fn told<T, E: Into<Error>>(result: Result<T, E>) -> String {
    let Err(error) = result.map_err(Into::into) else { return "\"no error\"".into() };
    let Some(refusal) = error.refusal() else { return quote(&error.to_string()) };
    format!(
        "{{\"status\":{},\"code\":{},\"constraint\":{},\"message\":{},\"position\":{},\"statement\":{}}}",
        refusal.status(),
        quote(refusal.code()),
        quote(refusal.constraint()),
        quote(&error.to_string()),
        refusal.position().unwrap_or(0),
        refusal.statement().map_or(-1, |number| number as i64),
    )
}

fn batch() -> Result<String> {
    let insert = |name: &str| Statement::new("insert into users (name) values ($1)", params![name]);
    let count = Statement::new("select count(*) as n from users", params![]);
    let done = tables::batch([insert("ada"), insert("bob"), count])?;
    let failed = tables::batch(["eve", "ada"].map(insert));
    Ok(list([
        list(done.iter().map(wire)),
        told(failed.map_err(|error| Error::from(error).context("adding two")).map(drop)),
    ]))
}

fn options() -> Result<String> {
    let add = "insert into users (name) values ($1) returning id";
    let (once, fresh) = (Options::default().idempotency_key("one"), Options::default().idempotency_key("two \"2\""));
    let several = || [Statement::new(add, params!["bob"]), Statement::new(add, params!["eve"])];
    let exec = [once.exec(add, params!["ada"])?, once.exec(add, params!["ada"])?];
    let batch = [fresh.batch(several())?, fresh.batch(several())?];
    let long = Options::default().idempotency_key(&"k".repeat(256));
    let stale = Options::default().stale_ok(true);
    Ok(list([
        list(exec.iter().map(wire)),
        list(batch.iter().map(|all| list(all.iter().map(wire)))),
        list([told(once.exec(add, params!["max"])), told(long.exec(add, params!["max"]))]),
        tables::to_json(&stale.query("select name from users", params![])?),
        list(stale.batch([Statement::new("select count(*) as n from users", params![])])?.iter().map(wire)),
    ]))
}

fn errors() -> Result<String> {
    tables::exec("insert into users (name) values ('ada')", params![])?;
    Ok(list([
        told(tables::query("select nme from users", params![])),
        told(tables::exec("insert into users (name) values ('ada')", params![])),
        told(tables::query("select $1", params![1, 2])),
        told(tables::query("delete from users", params![])),
    ]))
}

fn unfit() -> String {
    list([
        told(tables::query("select $2, $1", params![1, f64::NAN])),
        told(tables::query(Sql::made("select $1".to_owned()), params![u64::MAX])),
        told(tables::batch([
            Statement::new("select 1", params![]),
            Statement::new("select $1", params![f32::INFINITY]),
        ])),
        told(tables::query("select $1", params![UNIX_EPOCH + Duration::from_secs(1 << 40)])),
    ])
}

fn misfit() -> String {
    let thing = || -> Result<Thing, HostError> {
        Thing::from_row(tables::query("select 1 as i, 'x' as r", params![])?.remove(0))
    };
    let small = || -> Result<u8, HostError> { tables::query("select 300 as n", params![])?[0].get("n") };
    let missing: Result<Vec<Row>, HostError> = tables::query_as("select 1 as n", params![]);
    list([told(thing()), told(small()), told(missing.and_then(|rows| rows[0].get::<i64>("m")))])
}

svc_guest::handler!(handle);
