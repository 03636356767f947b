//! Requests to the Doors of svc.

use crate::client;
use crate::error::{ErrorKind, HostError, Result};
use crate::tables::{document, Value};

/// Return the address of a Door, which svc sets in a variable.
pub(crate) fn endpoint(variable: &str) -> Result<String, HostError> {
    match std::env::var(variable) {
        Ok(endpoint) if !endpoint.is_empty() => Ok(endpoint),
        _ => Err(error(&format!("{variable} is not set: this program is not hosted by svc"))),
    }
}

/// Send a document to a Door, and return its answer. Errors of the Door begin with the name of the module that sends.
pub(crate) fn ask(sender: &str, variable: &str, path: &str, body: &str) -> Result<Value, HostError> {
    let mut response = client::post(endpoint(variable)? + path).json(body).send()?;
    let answer = document(&response.text()?).ok_or_else(|| error("the response of the host is incomplete"))?;
    match (response.status(), answer.get("detail")) {
        (200, _) => Ok(answer),
        (_, Some(Value::Text(detail))) => Err(error(&format!("{sender}: {detail}"))),
        (status, _) => Err(error(&format!("{sender}: the response has status {status}"))),
    }
}

/// Return an error of another kind than that of a connection.
pub(crate) fn error(message: &str) -> HostError {
    HostError::new(ErrorKind::Other, message)
}
