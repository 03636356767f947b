//! Incoming requests and the guest's responses: `wasi:http/types`.

use crate::list::Bytes;
use crate::bodies::{self, store_error};
use crate::error_codes::{ErrorCode, INTERNAL_ERROR, PROTOCOL_ERROR, RESPONSE_BODY_SIZE};
use crate::fields::{self, Block};
use crate::guest::{store_bytes, store_some_bytes, store8};
use crate::handles::{self, Resource, borrow, check_childless, own};
use crate::output::{self, Output};
use crate::shared::Shared;
use crate::text::push_decimal;
use crate::{export, host, state};
use alloc::boxed::Box;

const MAX_UNSENT: u32 = 128;
const NOT_MODIFIED: u32 = 304;

/// Names of the methods in declared order, each ended by 0.
const METHODS: &[u8] = b"GET\0HEAD\0POST\0PUT\0DELETE\0CONNECT\0OPTIONS\0TRACE\0PATCH\0";
/// The case of a method with another name.
pub const OTHER_METHOD: u32 = 9;

/// The request that the run answers.
pub struct IncomingRequest {
    pub children: u32,
    pub consumed: bool,
}

/// A response under construction.
pub struct OutgoingResponse {
    status: u32,
    headers: Block,
    body: Option<Shared<Output>>,
    pub children: u32,
}

impl OutgoingResponse {
    /// Returns a body of the declared length. For HEAD and 304, content-length describes another response.
    fn new_body(&self) -> Output {
        let announces_another = state().method == b"HEAD" || self.status == NOT_MODIFIED;
        let expected = if announces_another { None } else { self.headers.declared_length() };
        Output::new(expected, RESPONSE_BODY_SIZE)
    }
}

/// Counts a message that the guest creates. Traps above the limit.
pub fn start_message() {
    let unsent = &mut state().unsent;
    if *unsent >= MAX_UNSENT {
        crate::trap(b"it holds more than 128 requests and responses that it did not send");
    }
    *unsent += 1;
}

/// Counts a message less, because it was sent or dropped.
pub fn end_message() {
    state().unsent -= 1;
}

/// Returns the name of a method other than `OTHER_METHOD`.
pub fn method_name(case: u32) -> &'static [u8] {
    let mut names = METHODS;
    for _ in 0..case {
        crate::text::take(&mut names);
    }
    crate::text::take(&mut names)
}

/// Stores a scheme: 0 for HTTP, 1 for HTTPS, 2 for another with its name.
pub fn store_scheme(at: u32, case: u32, name: &[u8]) {
    store8(at, case);
    if case == 2 {
        store_bytes(at + 4, name);
    }
}

export! {
    "wasi:http/types#[method]incoming-request.method"
    fn request_method(request: u32, result: u32) {
        borrow!(request, IncomingRequest);
        let name = state().method;
        let case = (0..OTHER_METHOD).find(|case| method_name(*case) == name);
        store8(result, case.unwrap_or(OTHER_METHOD));
        if case.is_none() {
            store_bytes(result + 4, name);
        }
    }

    "wasi:http/types#[method]incoming-request.path-with-query"
    fn request_path(request: u32, result: u32) {
        borrow!(request, IncomingRequest);
        store_some_bytes(result, state().target);
    }

    "wasi:http/types#[method]incoming-request.scheme"
    fn request_scheme(request: u32, result: u32) {
        borrow!(request, IncomingRequest);
        let scheme = state().scheme;
        let case = match scheme {
            b"http" => 0,
            b"https" => 1,
            _ => 2,
        };
        store8(result, 1);
        store_scheme(result + 4, case, scheme);
    }

    "wasi:http/types#[method]incoming-request.authority"
    fn request_authority(request: u32, result: u32) {
        borrow!(request, IncomingRequest);
        store_some_bytes(result, state().authority);
    }

    "wasi:http/types#[method]incoming-request.headers"
    fn request_headers(request: u32) -> u32 {
        borrow!(request, IncomingRequest);
        fields::view(Block::Head(state().fields), request)
    }

    "wasi:http/types#[method]incoming-request.consume"
    fn request_consume(request: u32, result: u32) {
        let request = borrow!(request, IncomingRequest);
        let first = !core::mem::replace(&mut request.consumed, true);
        bodies::consume(first.then(|| state().input().clone()), result);
    }

    "drop#incoming-request"
    fn request_drop(handle: u32) {
        let request = own!(handle, IncomingRequest);
        check_childless(request.children, b"an incoming-request was dropped before its headers");
        if !request.consumed {
            state().input().get().discard();
        }
    }

    "wasi:http/types#[static]response-outparam.set"
    fn outparam_set(
        outparam: u32, is_error: u32, value: u32, present: u32, text: u64, size: u32, _fourth: u32, _fifth: u32,
        _sixth: u32
    ) {
        own!(outparam, ResponseOutparam);
        if is_error != 0 {
            return host::refuse(&ErrorCode::lift(value, present, text as u32, size).text());
        }
        let mut response = own!(value, OutgoingResponse);
        let sentence = b"an outgoing-response was given before its headers were dropped";
        check_childless(response.children, sentence);
        end_message();
        let body = match response.body.take() {
            Some(body) => body,
            None => {
                let body = Shared::new(response.new_body());
                body.get().finish();
                body
            }
        };
        let fields = response.headers.bytes();
        let mut head = Bytes::with_capacity(fields.len() + 8);
        push_decimal(&mut head, response.status.into());
        head.push(0);
        head.extend(fields);
        output::begin_response(body, head);
    }

    "wasi:http/types#[method]response-outparam.send-informational"
    fn send_informational(outparam: u32, status: u32, headers: u32, result: u32) {
        borrow!(outparam, ResponseOutparam);
        fields::consume(headers);
        let text = b"informational responses are not supported";
        let code = match status & 0xffff {
            100..=199 => ErrorCode::with_text(INTERNAL_ERROR, text),
            _ => ErrorCode::new(PROTOCOL_ERROR),
        };
        store_error(result, &code);
    }

    "drop#response-outparam"
    fn outparam_drop(handle: u32) {
        own!(handle, ResponseOutparam);
    }

    "wasi:http/types#[constructor]outgoing-response"
    fn response_new(headers: u32) -> u32 {
        let headers = fields::consume(headers);
        start_message();
        let response = OutgoingResponse { status: 200, headers, body: None, children: 0 };
        handles::insert(Resource::OutgoingResponse(Box::new(response)))
    }

    "wasi:http/types#[method]outgoing-response.status-code"
    fn response_status(response: u32) -> u32 {
        borrow!(response, OutgoingResponse).status
    }

    "wasi:http/types#[method]outgoing-response.set-status-code"
    fn response_set_status(response: u32, status: u32) -> u32 {
        let response = borrow!(response, OutgoingResponse);
        let status = status & 0xffff;
        let valid = (200..=599).contains(&status);
        if valid {
            response.status = status;
        }
        (!valid).into()
    }

    "wasi:http/types#[method]outgoing-response.headers"
    fn response_headers(response: u32) -> u32 {
        let block = borrow!(response, OutgoingResponse).headers.clone();
        fields::view(block, response)
    }

    "wasi:http/types#[method]outgoing-response.body"
    fn response_body(response: u32, result: u32) {
        let response = borrow!(response, OutgoingResponse);
        if response.body.is_some() {
            return store8(result, 1);
        }
        let body = Shared::new(response.new_body());
        response.body = Some(body.clone());
        bodies::give_outgoing(body, result);
    }

    "drop#outgoing-response"
    fn response_drop(handle: u32) {
        let response = own!(handle, OutgoingResponse);
        end_message();
        check_childless(response.children, b"an outgoing-response was dropped before its headers");
    }
}
