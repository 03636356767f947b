//! Jobs: requests that svc sends later, at least once, with retries. They are rows of the project's tables.
//!
//! ```no_run
//! use svc_guest::{jobs, jobs::Job, tables, Result};
//! use std::time::Duration;
//!
//! fn order(id: i64) -> Result<()> {
//!     let mail = Job::json("/mail", &format!("{{\"order\":{id}}}"));
//!     tables::batch([
//!         tables::Statement::new("INSERT INTO orders (id) VALUES ($1)", &[&id]),
//!         mail.statement(), // in the transaction of the row
//!     ])?;
//!     jobs::add(&Job::new("/report").delay(Duration::from_secs(600)).key("report"))?;
//!     Ok(())
//! }
//! ```
//!
//! A job is a POST to its path, with the id of the job in the header `x-svc-job`.

use std::time::Duration;

use crate::door;
use crate::error::{HostError, Result};
use crate::json::quote;
use crate::tables::{base64, Statement, Value};

const INSERT: &str =
    "INSERT INTO _svc_jobs_add (resource, path, body, delay_s, key, max_tries) VALUES ($1, $2, $3, $4, $5, $6)";

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    path: String,
    body: Value,
    resource: Option<String>,
    delay: Duration,
    key: Option<String>,
    max_tries: Option<i64>,
}

impl Job {
    /// A job without a body.
    pub fn new(path: &str) -> Self {
        Self { path: path.into(), body: Value::Null, resource: None, delay: Duration::ZERO, key: None, max_tries: None }
    }

    /// A job whose body is a text, which should be JSON.
    pub fn json(path: &str, body: &str) -> Self {
        Self { body: Value::Text(body.into()), ..Self::new(path) }
    }

    /// A job whose body is bytes.
    pub fn bytes(path: &str, body: &[u8]) -> Self {
        Self { body: Value::Blob(body.into()), ..Self::new(path) }
    }

    /// The resource that gets the request, instead of the calling one.
    pub fn resource(mut self, name: &str) -> Self {
        self.resource = Some(name.into());
        self
    }

    /// The time from now until the job is due.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The job is not added while another one with this key waits.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.into());
        self
    }

    /// How often svc tries (default: 8). Then the job is dead.
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = Some(tries.into());
        self
    }

    /// A statement for [`tables::batch`](crate::tables::batch) that adds the job in its transaction.
    pub fn statement(&self) -> Statement {
        let resource = self.resource.clone().unwrap_or_else(|| std::env::var("SVC_RESOURCE").unwrap_or_default());
        let delay = self.delay.as_secs_f64();
        Statement::new(INSERT, &[&resource, &self.path, &self.body, &delay, &self.key, &self.max_tries])
    }

    fn document(&self) -> String {
        let mut json = format!("{{\"path\":{},\"delay_s\":{}", quote(&self.path), self.delay.as_secs_f64());
        match &self.body {
            Value::Text(text) => json += &format!(",\"body\":{}", quote(text)),
            Value::Blob(bytes) => json += &format!(",\"base64\":\"{}\"", base64::encode(bytes)),
            _ => {}
        }
        for (name, value) in [("resource", &self.resource), ("key", &self.key)] {
            if let Some(value) = value {
                json += &format!(",\"{name}\":{}", quote(value));
            }
        }
        if let Some(tries) = self.max_tries {
            json += &format!(",\"max_tries\":{tries}");
        }
        json + "}"
    }
}

/// The outcome of [`add`]: if another job with the key waits, `added` is false and `id` is that of the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The id of the job.
    pub id: String,
    /// Whether this call added it.
    pub added: bool,
}

/// Add a job.
///
/// # Errors
///
/// [`ErrorKind::Other`](crate::ErrorKind::Other) if the job is invalid, or if the project has too many.
pub fn add(job: &Job) -> Result<Added, HostError> {
    let answer = ask("add", &job.document())?;
    match answer.get("id") {
        Some(Value::Text(id)) => {
            Ok(Added { id: id.clone(), added: answer.get("added") == Some(&Value::Boolean(true)) })
        }
        _ => Err(door::error("the response of the host has no id")),
    }
}

/// Remove a job by its id, and return whether it was there.
///
/// # Errors
///
/// [`ErrorKind::Other`](crate::ErrorKind::Other) if the tables cannot be written.
pub fn remove(id: &str) -> Result<bool, HostError> {
    removed(&format!("{{\"id\":{}}}", quote(id)))
}

/// Remove the waiting job with a key, and return whether there was one.
///
/// # Errors
///
/// [`ErrorKind::Other`](crate::ErrorKind::Other) if the tables cannot be written.
pub fn remove_key(key: &str) -> Result<bool, HostError> {
    removed(&format!("{{\"key\":{}}}", quote(key)))
}

fn removed(body: &str) -> Result<bool, HostError> {
    Ok(ask("remove", body)?.get("removed") == Some(&Value::Boolean(true)))
}

fn ask(operation: &str, body: &str) -> Result<Value, HostError> {
    door::ask("jobs", "SVC_JOBS_ENDPOINT", &format!("/v1/{operation}"), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_document() {
        let job = Job::bytes("/big", &[255]).resource("worker").key("a\"").max_tries(3);
        let expected = r#"{"path":"/big","delay_s":0,"base64":"/w==","resource":"worker","key":"a\"","max_tries":3}"#;
        assert_eq!(job.document(), expected);
        let late = Job::json("/x", "{}").delay(Duration::from_millis(1500));
        assert_eq!(late.document(), r#"{"path":"/x","delay_s":1.5,"body":"{}"}"#);
    }

    #[test]
    fn a_program_outside_of_svc_gets_an_error() {
        let error = add(&Job::new("/x")).unwrap_err();
        assert_eq!(error.to_string(), "SVC_JOBS_ENDPOINT is not set: this program is not hosted by svc");
    }
}
