//! Each request runs this program in a new WebAssembly instance, so sessions are in a table.

use sha2::{Digest, Sha256};
use svc_guest::tables::{self, params, Statement};
use svc_guest::{log, password, quote, Request, Response, Result};

const COOKIE: &str = "__Host-session";
const MAX_ATTEMPTS: i64 = 10;
/// The hash of a random password. A log-in for an unknown name is verified against it, so that it takes as long.
const DECOY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$xlWbNrjVJ5F0NSE+Mm4oDA$zPG+CxbkaTOstE5IWAbsOpXX1pVfpsRTqvjtzb35gW4";

fn handle(mut request: Request) -> Result<Response> {
    if request.method() == "POST" && is_foreign(&request) {
        return Ok(problem(403, "Sent by another site"));
    }
    match (request.method(), request.path()) {
        ("POST", "/rust/sign-up") => sign_up(&mut request),
        ("POST", "/rust/log-in") => log_in(&mut request),
        ("POST", "/rust/log-out") => log_out(&request),
        ("GET", "/rust/home") => home(&request),
        _ => Ok(problem(404, "Not found")),
    }
}

fn sign_up(request: &mut Request) -> Result<Response> {
    let (name, secret) = match credentials(request)? {
        Ok(sent) => sent,
        Err(problem) => return Ok(problem),
    };
    let hash = password::hash(&secret)?;
    let insert = "insert into members (name, password) values ($1, $2)";
    match tables::exec(insert, params![name, hash]) {
        Ok(added) => {
            log::info!("member signed up", member = added.last_id);
            start_session(added.last_id, &name, 201)
        }
        Err(error) => match error.refusal().map(|refusal| refusal.constraint()) {
            Some("unique") => Ok(problem(409, "Choose another name")),
            Some("check") => Ok(problem(400, "A name has 2 to 30 characters")),
            _ => Err(error.into()),
        },
    }
}

fn log_in(request: &mut Request) -> Result<Response> {
    let (name, secret) = match credentials(request)? {
        Ok(sent) => sent,
        Err(problem) => return Ok(problem),
    };
    let done = tables::batch([
        Statement::new("delete from attempts where expires < now()", params![]),
        Statement::new("insert into attempts (name) values ($1)", params![name]),
        Statement::new("select count(*) as count from attempts where name = $1", params![name]),
        Statement::new("select id, name, password from members where name = $1", params![name]),
    ])?;
    if done[2].rows[0].get::<i64>("count")? > MAX_ATTEMPTS {
        return Ok(problem(429, "Try again in 15 minutes").with_header("retry-after", "900"));
    }
    let member = done[3].rows.first();
    let hash = member.map_or(Ok(DECOY.to_owned()), |member| member.get("password"))?;
    let valid = password::verify(&secret, &hash)?;
    let Some(member) = member.filter(|_| valid) else {
        return Ok(problem(401, "Wrong name or password"));
    };
    tables::exec("delete from attempts where name = $1", params![name])?;
    start_session(member.get("id")?, &member.get::<String>("name")?, 200)
}

fn log_out(request: &Request) -> Result<Response> {
    tables::exec("delete from sessions where id = $1", params![session_id(request)])?;
    Ok(Response::see_other("/").with_header("set-cookie", cookie("", 0)))
}

fn home(request: &Request) -> Result<Response> {
    let members = tables::query(
        "select name, substr(joined, 1, 10) as joined from sessions join members on members.id = sessions.member
         where sessions.id = $1 and expires > now()",
        params![session_id(request)],
    )?;
    let Some(member) = members.first() else { return Ok(Response::see_other("/")) };
    Ok(Response::html(page(&member.get::<String>("name")?, &member.get::<String>("joined")?))
        .with_header("content-security-policy", "default-src 'self'")
        .with_header("cache-control", "no-store"))
}

/// Read a name and a password from JSON, which SQLite parses. Return a response if they are not usable.
fn credentials(request: &mut Request) -> Result<std::result::Result<(String, String), Response>> {
    let sent = tables::query(
        "select case when json_valid($1) then trim($1 ->> '$.name') end as name,
         case when json_valid($1) then $1 ->> '$.password' end as password",
        params![request.text()?],
    )?;
    let (Ok(name), Ok(secret)) = (sent[0].get::<String>("name"), sent[0].get::<String>("password")) else {
        return Ok(Err(problem(400, "Send a name and a password")));
    };
    if !(8..=200).contains(&secret.chars().count()) {
        return Ok(Err(problem(400, "A password has 8 to 200 characters")));
    }
    Ok(Ok((name, secret)))
}

/// Send a random token to the browser. The table gets its hash, so that a copy of the table opens no session.
fn start_session(member: i64, name: &str, status: u16) -> Result<Response> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let token = hex(&bytes);
    tables::batch([
        Statement::new("delete from sessions where expires < now()", params![]),
        Statement::new("insert into sessions (id, member) values ($1, $2)", params![hashed(&token), member]),
    ])?;
    Ok(Response::json(format!("{{\"name\":{}}}", quote(name)))
        .with_status(status)
        .with_header("set-cookie", cookie(&token, 30 * 86_400)))
}

fn session_id(request: &Request) -> Option<String> {
    let cookies = request.header("cookie")?;
    let pair = |cookie: &str| cookie.split_once('=').filter(|(name, _)| *name == COOKIE).map(|(_, token)| hashed(token));
    cookies.split("; ").find_map(pair)
}

/// No script reads the cookie, and no other site or project can set or send it with a form.
fn cookie(token: &str, seconds: u32) -> String {
    format!("{COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}")
}

/// Browsers name the origin of a page that sends a request. Pages of other origins cannot act for a member.
fn is_foreign(request: &Request) -> bool {
    let origin = request.header("origin");
    origin.is_some_and(|origin| origin.split_once("://").map(|(_, host)| host) != request.header("host"))
}

fn hashed(token: &str) -> String {
    hex(&Sha256::digest(token))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn problem(status: u16, title: &str) -> Response {
    Response::json(format!("{{\"title\":{}}}", quote(title))).with_status(status)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn page(name: &str, joined: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Members</title>
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <main data-lane="rust">
    <p class="lane">A page by Rust, for members</p>
    <h1>Hello, {}</h1>
    <p>You joined on {joined}. Your session is valid in each language:</p>
    <nav><a href="/js/home">JavaScript</a> <a href="/go/home">Go</a> <a href="/rust/home">Rust</a></nav>
    <form method="post" action="/rust/log-out"><button>Log out</button></form>
  </main>
</html>
"#,
        escape(name)
    )
}

svc_guest::handler!(handle);
