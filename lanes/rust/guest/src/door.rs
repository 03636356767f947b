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
    answer(sender, client::post(endpoint(variable)? + path).json(body))
}

/// Send a request to a Door, and return its answer.
pub(crate) fn answer(sender: &str, request: client::Request) -> Result<Value, HostError> {
    let mut response = request.send()?;
    if !response.is_success() {
        return Err(refused(sender, &mut response));
    }
    document(&response.text()?).ok_or_else(|| error("the response of the host is incomplete"))
}

/// Return the error for a response that is not a success.
pub(crate) fn refused(sender: &str, response: &mut client::Response) -> HostError {
    let problem = response.text().ok().and_then(|text| document(&text));
    match problem.as_ref().and_then(|problem| problem.get("detail")) {
        Some(Value::Text(detail)) => error(&format!("{sender}: {detail}")),
        _ => error(&format!("{sender}: the response has status {}", response.status())),
    }
}

/// Return an error of another kind than that of a connection.
pub(crate) fn error(message: &str) -> HostError {
    HostError::new(ErrorKind::Other, message)
}
