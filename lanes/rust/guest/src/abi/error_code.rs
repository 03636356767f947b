//! `error-code` of `wasi:http/types`: why an exchange with another server failed.

use super::area::Area;

/// A description of every case, in the order of the interface.
const MEANINGS: [&str; 39] = [
    "the name server did not answer in time",
    "the name of the server was not found",
    "the server was not found",
    "the server is not available",
    "the address of the server may not be called",
    "no route to the server",
    "the connection was refused",
    "the connection was cut",
    "the connection was not made in time",
    "nothing was received in time",
    "nothing could be sent in time",
    "there are too many connections",
    "the TLS connection failed",
    "the TLS certificate is not valid",
    "the TLS connection was refused by the server",
    "the request was denied: allow its origin with `egress` in svc.toml",
    "the request needs a content-length",
    "the request's body has another length than was announced",
    "the method of the request is not valid",
    "the URL of the request is not valid",
    "the URL of the request is too long",
    "the headers of the request are too large",
    "a header of the request is too large",
    "the trailers of the request are too large",
    "a trailer of the request is too large",
    "the response ended too early",
    "the headers of the response are too large",
    "a header of the response is too large",
    "the body has another length than was announced",
    "the trailers of the response are too large",
    "a trailer of the response is too large",
    "the transfer coding of the response is unknown",
    "the content coding of the response is unknown",
    "the response did not arrive in time",
    "the upgrade of the connection failed",
    "the other side does not speak HTTP properly",
    "the request came back to its sender",
    "the host is not configured for this request",
    "the host failed",
];
const DENIED: u8 = 15;
const INTERNAL: u8 = 38;
const TIMED_OUT: [u8; 5] = [0, 8, 9, 10, 33];

/// An `error-code`. Of the payloads it has only the message of an internal error.
#[derive(Debug)]
pub(crate) struct ErrorCode {
    case: u8,
    text: Option<String>,
}

impl ErrorCode {
    /// Read one. Safety: the host wrote an `error-code` at this offset.
    pub(super) unsafe fn read(area: &Area, offset: usize) -> Self {
        let case = area.case(offset);
        let text = if case == INTERNAL { area.optional_string(offset + 8) } else { None };
        Self { case, text }
    }

    pub(crate) fn denied(&self) -> bool {
        self.case == DENIED
    }

    pub(crate) fn timed_out(&self) -> bool {
        TIMED_OUT.contains(&self.case)
    }

    /// A description of the error.
    pub(crate) fn meaning(&self) -> String {
        let meaning = MEANINGS.get(usize::from(self.case)).copied().unwrap_or("the request failed");
        match &self.text {
            Some(text) => format!("{meaning}: {text}"),
            None => meaning.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_words() {
        let code = |case| ErrorCode { case, text: None };
        assert!(code(DENIED).meaning().contains("egress"));
        assert!(code(DENIED).denied() && !code(6).denied());
        assert!(TIMED_OUT.iter().all(|&case| code(case).meaning().contains("in time")));
        assert_eq!(code(99).meaning(), "the request failed");
        let internal = ErrorCode { case: INTERNAL, text: Some("no memory".to_owned()) };
        assert_eq!(internal.meaning(), "the host failed: no memory");
    }
}
