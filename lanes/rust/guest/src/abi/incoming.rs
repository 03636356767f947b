//! The incoming half of `wasi:http/types`: the request of a run, its response, and bodies.

use super::area::Area;
use super::error_code::ErrorCode;
use super::fields::Fields;
use super::streams::{InputStream, OutputStream};
use super::{import, resource};

import! { "wasi:http/types@0.2.4":
    "[resource-drop]incoming-request" = fn incoming_request_drop(request: u32);
    "[method]incoming-request.method" = fn incoming_request_method(request: u32, result: *mut u8);
    "[method]incoming-request.path-with-query" = fn incoming_request_path(request: u32, result: *mut u8);
    "[method]incoming-request.headers" = fn incoming_request_headers(request: u32) -> u32;
    "[method]incoming-request.consume" = fn incoming_request_consume(request: u32, result: *mut u8);
    "[resource-drop]incoming-body" = fn incoming_body_drop(body: u32);
    "[method]incoming-body.stream" = fn incoming_body_stream(body: u32, result: *mut u8);
    "[resource-drop]response-outparam" = fn response_outparam_drop(place: u32);
    "[static]response-outparam.set" = fn response_outparam_set(
        place: u32, case: u32, response: u32, a: u32, b: u64, c: u32, d: u32, e: u32, f: u32
    );
    "[resource-drop]outgoing-response" = fn outgoing_response_drop(response: u32);
    "[constructor]outgoing-response" = fn outgoing_response_new(headers: u32) -> u32;
    "[method]outgoing-response.set-status-code" = fn outgoing_response_status(response: u32, status: u32) -> u32;
    "[method]outgoing-response.body" = fn outgoing_response_body(response: u32, result: *mut u8);
    "[resource-drop]outgoing-body" = fn outgoing_body_drop(body: u32);
    "[method]outgoing-body.write" = fn outgoing_body_write(body: u32, result: *mut u8);
    "[static]outgoing-body.finish" =
        fn outgoing_body_finish(body: u32, trailers_case: u32, trailers: u32, result: *mut u8);
}

resource!(IncomingRequest, incoming_request_drop);
resource!(IncomingBody, incoming_body_drop);
resource!(ResponseOutparam, response_outparam_drop);
resource!(OutgoingResponse, outgoing_response_drop);
resource!(OutgoingBody, outgoing_body_drop);

/// The cases of `method`, in order; the next one is `other(string)`.
pub(super) const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

impl IncomingRequest {
    pub(crate) fn method(&self) -> String {
        let mut area = Area::new();
        unsafe {
            incoming_request_method(self.0, area.pointer());
            match METHODS.get(usize::from(area.case(0))) {
                Some(&name) => name.to_owned(),
                None => area.string(4),
            }
        }
    }

    pub(crate) fn path_with_query(&self) -> Option<String> {
        let mut area = Area::new();
        unsafe {
            incoming_request_path(self.0, area.pointer());
            area.optional_string(0)
        }
    }

    pub(crate) fn headers(&self) -> Fields {
        Fields::from_handle(unsafe { incoming_request_headers(self.0) })
    }

    /// Take the body; `None` the second time.
    pub(crate) fn consume(&self) -> Option<IncomingBody> {
        let mut area = Area::new();
        unsafe { incoming_request_consume(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| IncomingBody(area.word(4)))
    }
}

impl IncomingBody {
    /// Take the stream, which must be dropped before the body; `None` the second time.
    pub(crate) fn stream(&self) -> Option<InputStream> {
        let mut area = Area::new();
        unsafe { incoming_body_stream(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| InputStream::from_handle(area.word(4)))
    }
}

impl ResponseOutparam {
    /// Send the response to the request. Its body can still be written.
    pub(crate) fn set(self, response: OutgoingResponse) {
        unsafe { response_outparam_set(self.into_handle(), 0, response.into_handle(), 0, 0, 0, 0, 0, 0) }
    }
}

impl OutgoingResponse {
    pub(crate) fn new(headers: Fields) -> Self {
        Self(unsafe { outgoing_response_new(headers.into_handle()) })
    }

    /// Set the status. Returns whether the host accepts it.
    pub(crate) fn set_status(&self, status: u16) -> bool {
        unsafe { outgoing_response_status(self.0, u32::from(status)) == 0 }
    }

    /// Take the body; `None` the second time.
    pub(crate) fn body(&self) -> Option<OutgoingBody> {
        let mut area = Area::new();
        unsafe { outgoing_response_body(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| OutgoingBody(area.word(4)))
    }
}

impl OutgoingBody {
    /// Take over the body of an outgoing request.
    pub(super) fn of_request(handle: u32) -> Self {
        Self(handle)
    }

    /// Take the stream, which must be dropped before the body; `None` the second time.
    pub(crate) fn write(&self) -> Option<OutputStream> {
        let mut area = Area::new();
        unsafe { outgoing_body_write(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| OutputStream::from_handle(area.word(4)))
    }

    /// Complete the body. A body that is dropped instead is incomplete.
    pub(crate) fn finish(self) -> Result<(), ErrorCode> {
        let mut area = Area::new();
        unsafe {
            outgoing_body_finish(self.into_handle(), 0, 0, area.pointer());
            match area.case(0) {
                0 => Ok(()),
                _ => Err(ErrorCode::read(&area, 8)),
            }
        }
    }
}
