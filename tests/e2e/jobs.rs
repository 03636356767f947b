use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use svc_guest::jobs::{self, Job};
use svc_guest::tables::{self, params, Statement};
use svc_guest::{HostError, Request, Response, Result, Writer};

const ORDER: &str = "INSERT INTO orders (id, lane) VALUES ($1, 'rust')";
const RAN: &str = "INSERT INTO runs (lane, path, job, try, body) VALUES ('rust', $1, $2, $3, $4)";

fn handle(mut request: Request) -> Result<Response> {
    if request.path() == "/forever" {
        return Ok(Response::stream(forever));
    }
    if let Some(job) = request.header("x-svc-job").map(str::to_owned) {
        return run(&mut request, &job);
    }
    Ok(match add(&request) {
        Ok(text) => Response::json(text),
        Err(error) => Response::text(error.to_string()).with_status(400),
    })
}

// The code of a job: it fails in its first try if the path says so.
fn run(request: &mut Request, job: &str) -> Result<Response> {
    let body = request.bytes()?;
    let attempt = request.header("x-svc-job-try").unwrap_or_default();
    tables::exec(RAN, params![request.path(), job, attempt, body])?;
    Ok(match (request.path(), attempt) {
        ("/gone", _) => Response::empty(410),
        ("/again", "1") => Response::empty(503).with_header("retry-after", "0"),
        _ => Response::empty(204),
    })
}

// Writes until the client leaves, and a row then.
fn forever(out: &mut Writer) -> Result<()> {
    while out.write_all(b".").is_ok() {
        sleep(Duration::from_millis(10));
    }
    tables::exec(RAN, params!["/forever", "", "", b""])?;
    Ok(())
}

fn add(request: &Request) -> Result<String, HostError> {
    match (request.path(), request.query()) {
        ("/order", id) => {
            let mail = Job::json("/order", r#"{"text":"ü"}"#);
            tables::batch([Statement::new(ORDER, params![id]), mail.statement()])?;
            Ok("true".into())
        }
        ("/remove", key) => Ok(jobs::remove_key(key)?.to_string()),
        (path, key) => {
            let job = Job::bytes(path, &[0, 255]);
            let added = jobs::add(&if key.is_empty() { job } else { job.key(key).delay(Duration::from_secs(3600)) })?;
            Ok(format!(r#"{{"id":"{}","added":{}}}"#, added.id, added.added))
        }
    }
}

svc_guest::handler!(handle);
