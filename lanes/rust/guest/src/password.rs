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

use crate::door;
use crate::error::{HostError, Result};
use crate::json::quote;
use crate::tables::Value;

/// Return a hash of a password with a random salt, in the PHC string format: text without spaces, to store.
///
/// # Errors
///
/// [`ErrorKind::Other`](crate::ErrorKind::Other) for a password of more than 4 KiB.
pub fn hash(password: &str) -> Result<String, HostError> {
    match ask("hash", &format!("{{\"password\":{}}}", quote(password)))?.get("hash") {
        Some(Value::Text(hash)) => Ok(hash.clone()),
        _ => Err(door::error("the response of the host has no hash")),
    }
}

/// Return whether a password belongs to a hash of [`hash()`] or of another Argon2 library.
///
/// # Errors
///
/// [`ErrorKind::Other`](crate::ErrorKind::Other) for a hash that is not a PHC string of Argon2.
pub fn verify(password: &str, hash: &str) -> Result<bool, HostError> {
    let body = format!("{{\"password\":{},\"hash\":{}}}", quote(password), quote(hash));
    Ok(ask("verify", &body)?.get("valid") == Some(&Value::Boolean(true)))
}

fn ask(operation: &str, body: &str) -> Result<Value, HostError> {
    door::ask("password", "SVC_CRYPTO_ENDPOINT", &format!("/v1/password/{operation}"), body)
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
