//! Hashes of passwords: Argon2id with the parameters that OWASP recommends, computed by the host.
//!
//! ```no_run
//! use svc_guest::{password, Result};
//!
//! fn check(secret: &str) -> Result<bool> {
//!     let hash = password::hash(secret)?;
//!     Ok(password::verify(secret, &hash)?)
//! }
//! ```

use crate::client;
use crate::error::{ErrorKind, HostError, Result};
use crate::json::quote;
use crate::tables::{document, Value};

/// Return a hash of a password with a random salt, in the PHC string format: text without spaces, to store.
///
/// # Errors
///
/// [`ErrorKind::Other`] for a password of more than 4 KiB.
pub fn hash(password: &str) -> Result<String, HostError> {
    match ask("hash", &format!("{{\"password\":{}}}", quote(password)))?.get("hash") {
        Some(Value::Text(hash)) => Ok(hash.clone()),
        _ => Err(error("the response of the host has no hash")),
    }
}

/// Return whether a password belongs to a hash of [`hash()`] or of another Argon2 library.
///
/// # Errors
///
/// [`ErrorKind::Other`] for a hash that is not a PHC string of Argon2.
pub fn verify(password: &str, hash: &str) -> Result<bool, HostError> {
    let body = format!("{{\"password\":{},\"hash\":{}}}", quote(password), quote(hash));
    Ok(ask("verify", &body)?.get("valid") == Some(&Value::Boolean(true)))
}

fn ask(operation: &str, body: &str) -> Result<Value, HostError> {
    let endpoint = std::env::var("SVC_CRYPTO_ENDPOINT").unwrap_or_default();
    if endpoint.is_empty() {
        return Err(error("SVC_CRYPTO_ENDPOINT is not set: this program is not hosted by svc"));
    }
    let mut response = client::post(format!("{endpoint}/v1/password/{operation}")).json(body).send()?;
    let answer = document(&response.text()?).ok_or_else(|| error("the response of the host is incomplete"))?;
    match (response.status(), answer.get("detail")) {
        (200, _) => Ok(answer),
        (_, Some(Value::Text(detail))) => Err(error(&format!("password: {detail}"))),
        (status, _) => Err(error(&format!("password: the response has status {status}"))),
    }
}

fn error(message: &str) -> HostError {
    HostError::new(ErrorKind::Other, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_outside_of_svc_gets_an_error() {
        let error = hash("secret").unwrap_err();
        assert_eq!(error.to_string(), "SVC_CRYPTO_ENDPOINT is not set: this program is not hosted by svc");
        assert!(verify("secret", "$argon2id$").is_err());
    }
}
