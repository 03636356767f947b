//! `error-code` of `wasi:http/types`, and errors of streams.
//!
//! The host's text of an error code is its name, and if it has a payload, a 0 and the payload.

use crate::list::{Bytes, part};
use crate::export;
use crate::guest::{self, store8, store32, store64};
use crate::handles::{self, Resource, borrow, own};
use crate::text::{decimal, push_decimal, take};
use alloc::rc::Rc;

/// The names in declared order, each ended by 0.
const NAMES: &[u8] = b"DNS-timeout\0DNS-error\0destination-not-found\0destination-unavailable\0\
    destination-IP-prohibited\0destination-IP-unroutable\0connection-refused\0connection-terminated\0\
    connection-timeout\0connection-read-timeout\0connection-write-timeout\0connection-limit-reached\0\
    TLS-protocol-error\0TLS-certificate-error\0TLS-alert-received\0HTTP-request-denied\0\
    HTTP-request-length-required\0HTTP-request-body-size\0HTTP-request-method-invalid\0\
    HTTP-request-URI-invalid\0HTTP-request-URI-too-long\0HTTP-request-header-section-size\0\
    HTTP-request-header-size\0HTTP-request-trailer-section-size\0HTTP-request-trailer-size\0\
    HTTP-response-incomplete\0HTTP-response-header-section-size\0HTTP-response-header-size\0\
    HTTP-response-body-size\0HTTP-response-trailer-section-size\0HTTP-response-trailer-size\0\
    HTTP-response-transfer-coding\0HTTP-response-content-coding\0HTTP-response-timeout\0\
    HTTP-upgrade-failed\0HTTP-protocol-error\0loop-detected\0configuration-error\0internal-error\0";
const COUNT: u32 = 39;

pub const CONNECTION_TERMINATED: u32 = 7;
pub const REQUEST_BODY_SIZE: u32 = 17;
pub const RESPONSE_BODY_SIZE: u32 = 28;
pub const PROTOCOL_ERROR: u32 = 35;
pub const INTERNAL_ERROR: u32 = 38;

/// The type of a payload.
enum Payload {
    None,
    DnsError,
    TlsAlert,
    OptionalU64,
    OptionalU32,
    OptionalFieldSize,
    FieldSize,
    OptionalString,
}

const fn payload_of(case: u32) -> Payload {
    match case {
        1 => Payload::DnsError,
        14 => Payload::TlsAlert,
        REQUEST_BODY_SIZE | RESPONSE_BODY_SIZE => Payload::OptionalU64,
        21 | 23 | 26 | 29 => Payload::OptionalU32,
        22 => Payload::OptionalFieldSize,
        24 | 27 | 30 => Payload::FieldSize,
        31 | 32 | INTERNAL_ERROR => Payload::OptionalString,
        _ => Payload::None,
    }
}

/// An error code, and the part of its payload that has a meaning here.
#[derive(Default)]
pub struct ErrorCode {
    case: u32,
    number: Option<u64>,
    text: Option<Bytes>,
}

impl ErrorCode {
    pub fn new(case: u32) -> Self {
        Self { case, ..Self::default() }
    }

    pub fn with_number(case: u32, number: u64) -> Self {
        Self { case, number: Some(number), text: None }
    }

    pub fn with_text(case: u32, text: &[u8]) -> Self {
        Self { case, number: None, text: Some(text.into()) }
    }

    /// Parses the host's text. A name that this version does not know is an internal error.
    pub fn parse(text: &[u8]) -> Self {
        let end = text.iter().position(|byte| *byte == 0);
        let (name, payload) = match end {
            None => (text, None),
            Some(end) => (part(text, 0, end), Some(part(text, end + 1, text.len()))),
        };
        let mut names = NAMES;
        let found = (0..COUNT).find(|_| take(&mut names) == name);
        let Some(case) = found else { return Self::with_text(INTERNAL_ERROR, name) };
        let Some(payload) = payload else { return Self::new(case) };
        match payload_of(case) {
            Payload::OptionalU64 | Payload::OptionalU32 => Self::with_number(case, decimal(payload)),
            Payload::OptionalString | Payload::TlsAlert => Self::with_text(case, payload),
            _ => Self::new(case),
        }
    }

    /// Returns the error code that the guest passes as a response; the first words of the payload are those of
    /// an `option<string>`. Traps for a case that does not exist.
    pub fn lift(case: u32, present: u32, at: u32, size: u32) -> Self {
        if case >= COUNT {
            crate::trap(b"an error-code has an unknown case");
        }
        if present != 0 && matches!(payload_of(case), Payload::OptionalString) {
            return Self::with_text(case, &guest::string(at, size));
        }
        Self::new(case)
    }

    fn name(&self) -> &'static [u8] {
        let mut names = NAMES;
        for _ in 0..self.case {
            take(&mut names);
        }
        take(&mut names)
    }

    /// Returns the text for the host.
    pub fn text(&self) -> Bytes {
        let mut result = Bytes::from(self.name());
        if let Some(number) = self.number {
            result.push(0);
            push_decimal(&mut result, number);
        } else if let Some(text) = &self.text {
            result.push(0);
            result.extend(text);
        }
        result
    }

    /// Stores the value at an address.
    pub fn store(&self, at: u32) {
        let payload = at + 8;
        let text = self.text.as_deref();
        store8(at, self.case);
        match payload_of(self.case) {
            Payload::None => {}
            Payload::DnsError => {
                store8(payload, 0);
                store8(payload + 12, 0);
            }
            Payload::TlsAlert => {
                store8(payload, 0);
                guest::store_optional_bytes(payload + 4, text);
            }
            Payload::OptionalString => guest::store_optional_bytes(payload, text),
            Payload::OptionalU64 => {
                store8(payload, self.number.is_some().into());
                store64(payload + 8, self.number.unwrap_or(0));
            }
            Payload::OptionalU32 => {
                store8(payload, self.number.is_some().into());
                store32(payload + 4, self.number.unwrap_or(0) as u32);
            }
            Payload::OptionalFieldSize => store8(payload, 0),
            Payload::FieldSize => {
                store8(payload, 0);
                store8(payload + 12, 0);
            }
        }
    }
}

/// Why an operation of a stream failed.
pub enum StreamError {
    Closed,
    Failed(Rc<ErrorCode>),
}

impl StreamError {
    /// Stores the error side of a result whose payload is `offset` bytes further on.
    pub fn store(self, result: u32, offset: u32) {
        store8(result, 1);
        match self {
            Self::Closed => store8(result + offset, 1),
            Self::Failed(code) => {
                store8(result + offset, 0);
                store32(result + offset + 4, handles::insert(Resource::Error(code)));
            }
        }
    }
}

/// Stores an `option` that is absent, after a check of the error's handle.
fn store_no_code(error: u32, result: u32) {
    borrow!(error, Error);
    store8(result, 0);
}

export! {
    "wasi:io/error#[method]error.to-debug-string"
    fn error_to_debug_string(error: u32, result: u32) {
        let mut text = Bytes::from(&b"HTTP error: "[..]);
        text.extend(borrow!(error, Error).name());
        guest::store_bytes(result, &text);
    }

    "wasi:http/types#http-error-code"
    fn http_error_code(error: u32, result: u32) {
        let code = borrow!(error, Error).clone();
        store8(result, 1);
        code.store(result + 8);
    }

    "wasi:filesystem/types#filesystem-error-code"
    fn filesystem_error_code(error: u32, result: u32) {
        store_no_code(error, result);
    }

    "wasi:sockets/network#network-error-code"
    fn network_error_code(error: u32, result: u32) {
        store_no_code(error, result);
    }

    "drop#error"
    fn error_drop(handle: u32) {
        own!(handle, Error);
    }
}
