//! The outgoing half of `wasi:http`: requests to other servers and their responses.

use super::area::Area;
use super::error_code::ErrorCode;
use super::fields::Fields;
use super::incoming::{IncomingBody, OutgoingBody, METHODS};
use super::poll::Pollable;
use super::{import, resource};

import! { "wasi:http/types@0.2.4":
    "[resource-drop]outgoing-request" = fn outgoing_request_drop(request: u32);
    "[constructor]outgoing-request" = fn outgoing_request_new(headers: u32) -> u32;
    "[method]outgoing-request.set-method" =
        fn outgoing_request_method(request: u32, case: u32, name: *const u8, length: usize) -> u32;
    "[method]outgoing-request.set-scheme" =
        fn outgoing_request_scheme(request: u32, some: u32, case: u32, name: *const u8, length: usize) -> u32;
    "[method]outgoing-request.set-authority" =
        fn outgoing_request_authority(request: u32, some: u32, text: *const u8, length: usize) -> u32;
    "[method]outgoing-request.set-path-with-query" =
        fn outgoing_request_path(request: u32, some: u32, text: *const u8, length: usize) -> u32;
    "[method]outgoing-request.body" = fn outgoing_request_body(request: u32, result: *mut u8);
    "[resource-drop]future-incoming-response" = fn future_drop(future: u32);
    "[method]future-incoming-response.subscribe" = fn future_subscribe(future: u32) -> u32;
    "[method]future-incoming-response.get" = fn future_get(future: u32, result: *mut u8);
    "[resource-drop]incoming-response" = fn incoming_response_drop(response: u32);
    "[method]incoming-response.status" = fn incoming_response_status(response: u32) -> u32;
    "[method]incoming-response.headers" = fn incoming_response_headers(response: u32) -> u32;
    "[method]incoming-response.consume" = fn incoming_response_consume(response: u32, result: *mut u8);
}

import! { "wasi:http/outgoing-handler@0.2.4":
    "handle" = fn handle(request: u32, options_case: u32, options: u32, result: *mut u8);
}

resource!(OutgoingRequest, outgoing_request_drop);
resource!(IncomingResponse, incoming_response_drop);
resource!(
    /// A future response.
    FutureResponse,
    future_drop
);

impl OutgoingRequest {
    pub(crate) fn new(headers: Fields) -> Self {
        Self(unsafe { outgoing_request_new(headers.into_handle()) })
    }

    /// Set the method. Returns whether it is valid.
    pub(crate) fn set_method(&self, name: &str) -> bool {
        let case = METHODS.iter().position(|known| *known == name).unwrap_or(METHODS.len());
        unsafe { outgoing_request_method(self.0, case as u32, name.as_ptr(), name.len()) == 0 }
    }

    /// Set the URL of the request. Returns whether every part is well-formed.
    pub(crate) fn set_address(&self, encrypted: bool, authority: &str, path: &str) -> bool {
        unsafe {
            outgoing_request_scheme(self.0, 1, u32::from(encrypted), core::ptr::null(), 0) == 0
                && outgoing_request_authority(self.0, 1, authority.as_ptr(), authority.len()) == 0
                && outgoing_request_path(self.0, 1, path.as_ptr(), path.len()) == 0
        }
    }

    /// Take the body; `None` the second time.
    pub(crate) fn body(&self) -> Option<OutgoingBody> {
        let mut area = Area::new();
        unsafe { outgoing_request_body(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| OutgoingBody::of_request(area.word(4)))
    }

    /// Send the request. Its body can still be written if it was taken.
    pub(crate) fn send(self) -> Result<FutureResponse, ErrorCode> {
        let mut area = Area::new();
        unsafe {
            handle(self.into_handle(), 0, 0, area.pointer());
            match area.case(0) {
                0 => Ok(FutureResponse(area.word(8))),
                _ => Err(ErrorCode::read(&area, 8)),
            }
        }
    }
}

impl FutureResponse {
    pub(crate) fn subscribe(&self) -> Pollable {
        Pollable::from_handle(unsafe { future_subscribe(self.0) })
    }

    /// Take the response or the error, if it has arrived.
    pub(crate) fn get(&self) -> Option<Result<IncomingResponse, ErrorCode>> {
        let mut area = Area::new();
        unsafe {
            future_get(self.0, area.pointer());
            // option<result<result<incoming-response, error-code>>>
            match (area.case(0), area.case(8), area.case(16)) {
                (1, 0, 0) => Some(Ok(IncomingResponse(area.word(24)))),
                (1, 0, _) => Some(Err(ErrorCode::read(&area, 24))),
                _ => None,
            }
        }
    }
}

impl IncomingResponse {
    pub(crate) fn status(&self) -> u16 {
        unsafe { incoming_response_status(self.0) as u16 }
    }

    pub(crate) fn headers(&self) -> Fields {
        Fields::from_handle(unsafe { incoming_response_headers(self.0) })
    }

    /// Take the body; `None` the second time.
    pub(crate) fn consume(&self) -> Option<IncomingBody> {
        let mut area = Area::new();
        unsafe { incoming_response_consume(self.0, area.pointer()) };
        (area.case(0) == 0).then(|| IncomingBody::from_handle(area.word(4)))
    }
}
