//! The files of the project: large objects by key. Bodies are streams, so a program needs little memory for them.
//!
//! ```no_run
//! use svc_guest::{files, Request, Response, Result};
//!
//! fn handle(request: Request) -> Result<Response> {
//!     let key = request.decoded_path()[1..].to_owned();
//!     if request.method() == "PUT" {
//!         let kind = request.header("content-type").unwrap_or("application/octet-stream").to_owned();
//!         let file = files::put(&key, &kind, request.into_body())?;
//!         return Ok(Response::text(format!("{} bytes\n", file.size)).with_status(201));
//!     }
//!     Ok(files::response(&key)) // The host sends the file, or the range that the client asks for.
//! }
//! ```

use std::io::{self, Read};
use std::time::Duration;

use crate::client::{self, Request};
use crate::door::{self, error};
use crate::error::{HostError, Result};
use crate::json::quote;
use crate::response::Response;
use crate::tables::Value;

const ENDPOINT: &str = "SVC_FILES_ENDPOINT";

/// The description of a file. `modified` is ISO 8601 in UTC.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct File {
    pub key: String,
    pub size: u64,
    pub etag: String,
    pub modified: String,
}

/// A part of a listing. `cursor` begins the next one, and is empty at the end.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Page {
    pub files: Vec<File>,
    pub prefixes: Vec<String>,
    pub cursor: String,
}

/// Store what `body` reads, as a whole: if it fails, the file before stays.
///
/// # Errors
///
/// If the host refuses it: for an invalid key, a full disk or a quota.
pub fn put(key: &str, kind: &str, mut body: impl Read + 'static) -> Result<File, HostError> {
    let request = request("PUT", &path(key))?.header("content-type", kind).stream(move |out| {
        io::copy(&mut body, out)?;
        Ok(())
    });
    file(&door::answer("files", request)?)
}

/// Return a file, whose bytes are read as they arrive, or `None`.
///
/// # Errors
///
/// For an invalid key, or if the file cannot be read.
pub fn get(key: &str) -> Result<Option<client::Response>, HostError> {
    found(request("GET", &path(key))?)
}

/// Return `length` bytes of a file from `offset` on, or fewer at its end, or `None`.
///
/// # Errors
///
/// As for [`get`], and if the file has no byte at `offset`.
pub fn get_range(key: &str, offset: u64, length: u64) -> Result<Option<client::Response>, HostError> {
    let last = offset.saturating_add(length).saturating_sub(1);
    found(request("GET", &path(key))?.header("range", format!("bytes={offset}-{last}")))
}

/// Remove a file, if it exists.
///
/// # Errors
///
/// For an invalid key, or if the index cannot be written.
pub fn remove(key: &str) -> Result<(), HostError> {
    found(request("DELETE", &path(key))?).map(drop)
}

/// List files whose keys begin with `prefix`, by the bytes of their keys. With a delimiter, keys that contain it after
/// the prefix are in `prefixes`, up to it.
///
/// # Errors
///
/// If the index cannot be read.
pub fn list(prefix: &str, delimiter: &str, cursor: &str) -> Result<Page, HostError> {
    let (prefix, delimiter, cursor) = (escaped(prefix), escaped(delimiter), escaped(cursor));
    let path = format!("files?prefix={prefix}&delimiter={delimiter}&cursor={cursor}");
    let page = door::answer("files", request("GET", &path)?)?;
    let (Some(Value::Array(files)), Some(Value::Array(prefixes))) = (page.get("files"), page.get("prefixes")) else {
        return Err(error("the response of the host is incomplete"));
    };
    Ok(Page {
        files: files.iter().map(file).collect::<Result<_, HostError>>()?,
        prefixes: prefixes.iter().map(text).collect(),
        cursor: page.get("cursor").map(text).unwrap_or_default(),
    })
}

/// Return the path of a signed URL, with which clients may `GET` or `PUT` a file until it expires.
///
/// # Errors
///
/// For an invalid key, method or time.
pub fn sign(key: &str, method: &str, expires: Duration, max_bytes: u64) -> Result<String, HostError> {
    let (key, method, seconds) = (quote(key), quote(method), expires.as_secs());
    let body = format!("{{\"key\":{key},\"method\":{method},\"expires_s\":{seconds},\"max_bytes\":{max_bytes}}}");
    Ok(door::ask("files", ENDPOINT, "/v1/sign", &body)?.get("url").map(text).unwrap_or_default())
}

/// Respond with a file: the host sends it, whole, in part or not at all, as the client asks.
pub fn response(key: &str) -> Response {
    Response::empty(200).with_header("x-svc-file", escaped(key))
}

fn path(key: &str) -> String {
    format!("files/{}", escaped(key))
}

fn request(method: &str, path: &str) -> Result<Request, HostError> {
    Ok(Request::new(method, format!("{}/v1/{path}", door::endpoint(ENDPOINT)?)))
}

fn found(request: Request) -> Result<Option<client::Response>, HostError> {
    let mut response = request.send()?;
    match response.status() {
        404 => Ok(None),
        200..=299 => Ok(Some(response)),
        _ => Err(door::refused("files", &mut response)),
    }
}

fn file(value: &Value) -> Result<File, HostError> {
    match (value.get("key"), value.get("size"), value.get("etag"), value.get("modified")) {
        (Some(key), Some(Value::Integer(size)), Some(etag), Some(modified)) => {
            let size = u64::try_from(*size).unwrap_or_default();
            Ok(File { key: text(key), size, etag: text(etag), modified: text(modified) })
        }
        _ => Err(error("the response of the host is incomplete")),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_percent_encoded() {
        assert_eq!(path("a b/ä"), "files/a%20b%2F%C3%A4");
        assert_eq!(get("a").unwrap_err().to_string(), "SVC_FILES_ENDPOINT is not set: this program is not hosted by svc");
    }
}
