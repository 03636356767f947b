//! Outgoing requests: `wasi:http/types`, `wasi:http/outgoing-handler`.

use crate::list::{Bytes, part};
use crate::bodies::{self, store_error};
use crate::error_codes::{ErrorCode, REQUEST_BODY_SIZE};
use crate::fields::{self, Block, is_token};
use crate::guest::{self, store_optional_bytes, store8, store32, store64};
use crate::handles::{self, Resource, borrow, check_childless, own};
use crate::input::Input;
use crate::output::Output;
use crate::requests::{OTHER_METHOD, end_message, method_name, start_message, store_scheme};
use crate::shared::Shared;
use crate::text::{decimal, push_decimal, take};
use crate::{export, host};
use alloc::boxed::Box;

const OTHER_SCHEME: u32 = 2;

/// A request under construction.
pub struct OutgoingRequest {
    method: u32,
    method_name: Bytes,
    scheme: Option<u32>,
    scheme_name: Bytes,
    authority: Option<Bytes>,
    path: Option<Bytes>,
    headers: Block,
    body: Option<Shared<Output>>,
    pub children: u32,
}

/// Timeouts in nanoseconds for the connection, the first byte, and between bytes.
#[derive(Default)]
pub struct RequestOptions([Option<u64>; 3]);

enum Outcome {
    Pending,
    Failed(ErrorCode),
    Consumed,
}

/// A pending response.
pub struct Future {
    pub channel: u32,
    /// Whether the host reported that the response is available.
    pub available: bool,
    /// Whether the call under construction asks for the response.
    pub asked: bool,
    outcome: Outcome,
}

impl Future {
    pub fn is_ready(&self) -> bool {
        self.available || !matches!(self.outcome, Outcome::Pending)
    }
}

/// A received response.
pub struct IncomingResponse {
    status: u32,
    headers: Block,
    /// The body, until the guest takes it.
    input: Option<Shared<Input>>,
    pub children: u32,
}

impl OutgoingRequest {
    /// Returns the text with which the host sends the request.
    fn text(&self, channel: u32, options: &RequestOptions) -> Bytes {
        let fields = self.headers.bytes();
        let mut text = Bytes::with_capacity(fields.len() + 128);
        push_decimal(&mut text, channel.into());
        text.push(0);
        text.push(if self.body.is_some() { b'1' } else { b'0' });
        text.push(0);
        let method = if self.method == OTHER_METHOD { &self.method_name } else { method_name(self.method) };
        let scheme: &[u8] = match self.scheme {
            None => b"",
            Some(0) => b"http",
            Some(1) => b"https",
            Some(_) => &self.scheme_name,
        };
        let authority = self.authority.as_deref().unwrap_or(b"");
        let path = self.path.as_deref().unwrap_or(b"");
        for part in [method, scheme, authority, path] {
            text.extend(part);
            text.push(0);
        }
        for timeout in options.0 {
            if let Some(timeout) = timeout {
                push_decimal(&mut text, timeout);
            }
            text.push(0);
        }
        text.extend(fields);
        text
    }
}

/// Returns whether a text is a path or query of a request target.
fn is_path(text: &[u8]) -> bool {
    let visible = |byte: &u8| matches!(byte, b'!' | b'"' | b'$'..=b'~');
    matches!(text, [b'/' | b'?', rest @ ..] if rest.iter().all(visible))
}

/// Returns whether a text is a scheme (RFC 3986 3.1).
fn is_scheme(text: &[u8]) -> bool {
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    matches!(text, [first, rest @ ..] if first.is_ascii_alphabetic() && rest.iter().all(valid))
}

/// Returns whether a text is a host and an optional port (RFC 3986 3.2), without user information.
fn is_authority(text: &[u8]) -> bool {
    let literal = text.starts_with(b"[");
    let end = match text.iter().position(|byte| *byte == if literal { b']' } else { b':' }) {
        Some(end) if literal => end + 1,
        Some(end) => end,
        None => text.len(),
    };
    let (host, port) = (part(text, 0, end), part(text, end, text.len()));
    let valid_host = match host {
        [b'[', address @ .., b']'] => {
            let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b":.%".contains(byte);
            !address.is_empty() && address.iter().all(valid)
        }
        name => {
            let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~!$&'()*+,;=%-".contains(byte);
            !name.is_empty() && name.iter().all(valid)
        }
    };
    valid_host && matches!(port, [] | [b':', ..]) && port.iter().skip(1).all(u8::is_ascii_digit)
}

/// Returns a string of the guest if it is present.
fn optional(present: u32, at: u32, size: u32) -> Option<Bytes> {
    (present != 0).then(|| guest::string(at, size))
}

fn store_timeout(options: u32, index: usize, result: u32) {
    let timeout = borrow!(options, RequestOptions).0[index];
    store8(result, timeout.is_some().into());
    store64(result + 8, timeout.unwrap_or(0));
}

fn set_timeout(options: u32, index: usize, present: u32, value: u64) -> u32 {
    borrow!(options, RequestOptions).0[index] = (present != 0).then_some(value);
    0
}

/// Takes the response from the host's text and returns a handle for it.
fn receive(channel: u32, mut text: &[u8]) -> u32 {
    let status = decimal(take(&mut text)) as u32;
    let response = IncomingResponse {
        status,
        headers: Block::new(text.into()),
        input: Some(Shared::new(Input::new(channel))),
        children: 0,
    };
    handles::insert(Resource::IncomingResponse(Box::new(response)))
}

export! {
    "wasi:http/types#[constructor]outgoing-request"
    fn outgoing_request_new(headers: u32) -> u32 {
        let headers = fields::consume(headers);
        start_message();
        let request = OutgoingRequest {
            method: 0,
            method_name: Bytes::new(),
            scheme: None,
            scheme_name: Bytes::new(),
            authority: None,
            path: None,
            headers,
            body: None,
            children: 0,
        };
        handles::insert(Resource::OutgoingRequest(Box::new(request)))
    }

    "wasi:http/types#[method]outgoing-request.body"
    fn outgoing_request_body(request: u32, result: u32) {
        let request = borrow!(request, OutgoingRequest);
        if request.body.is_some() {
            return store8(result, 1);
        }
        let output = Output::new(request.headers.declared_length(), REQUEST_BODY_SIZE);
        let body = Shared::new(output);
        request.body = Some(body.clone());
        bodies::give_outgoing(body, result);
    }

    "wasi:http/types#[method]outgoing-request.method"
    fn outgoing_request_method(request: u32, result: u32) {
        let request = borrow!(request, OutgoingRequest);
        store8(result, request.method);
        if request.method == OTHER_METHOD {
            guest::store_bytes(result + 4, &request.method_name);
        }
    }

    "wasi:http/types#[method]outgoing-request.set-method"
    fn outgoing_request_set_method(request: u32, case: u32, name: u32, size: u32) -> u32 {
        let request = borrow!(request, OutgoingRequest);
        if case == OTHER_METHOD {
            let name = guest::string(name, size);
            if !is_token(&name) {
                return 1;
            }
            request.method_name = name;
        } else if case > OTHER_METHOD {
            crate::trap(b"a method has an unknown case");
        }
        request.method = case;
        0
    }

    "wasi:http/types#[method]outgoing-request.path-with-query"
    fn outgoing_request_path(request: u32, result: u32) {
        store_optional_bytes(result, borrow!(request, OutgoingRequest).path.as_deref());
    }

    "wasi:http/types#[method]outgoing-request.set-path-with-query"
    fn outgoing_request_set_path(request: u32, present: u32, at: u32, size: u32) -> u32 {
        let request = borrow!(request, OutgoingRequest);
        let path = optional(present, at, size);
        let valid = |text: &Bytes| matches!(text[..], [] | [b'*']) || is_path(text);
        if !path.as_ref().is_none_or(valid) {
            return 1;
        }
        request.path = path;
        0
    }

    "wasi:http/types#[method]outgoing-request.scheme"
    fn outgoing_request_scheme(request: u32, result: u32) {
        let request = borrow!(request, OutgoingRequest);
        store8(result, request.scheme.is_some().into());
        if let Some(case) = request.scheme {
            store_scheme(result + 4, case, &request.scheme_name);
        }
    }

    "wasi:http/types#[method]outgoing-request.set-scheme"
    fn outgoing_request_set_scheme(request: u32, present: u32, case: u32, name: u32, size: u32) -> u32 {
        let request = borrow!(request, OutgoingRequest);
        if present == 0 {
            request.scheme = None;
            return 0;
        }
        if case == OTHER_SCHEME {
            let name = guest::string(name, size);
            if !is_scheme(&name) {
                return 1;
            }
            request.scheme_name = name;
        } else if case > OTHER_SCHEME {
            crate::trap(b"a scheme has an unknown case");
        }
        request.scheme = Some(case);
        0
    }

    "wasi:http/types#[method]outgoing-request.authority"
    fn outgoing_request_authority(request: u32, result: u32) {
        store_optional_bytes(result, borrow!(request, OutgoingRequest).authority.as_deref());
    }

    "wasi:http/types#[method]outgoing-request.set-authority"
    fn outgoing_request_set_authority(request: u32, present: u32, at: u32, size: u32) -> u32 {
        let request = borrow!(request, OutgoingRequest);
        let authority = optional(present, at, size);
        if !authority.as_ref().is_none_or(|text| is_authority(text)) {
            return 1;
        }
        request.authority = authority;
        0
    }

    "wasi:http/types#[method]outgoing-request.headers"
    fn outgoing_request_headers(request: u32) -> u32 {
        let block = borrow!(request, OutgoingRequest).headers.clone();
        fields::view(block, request)
    }

    "drop#outgoing-request"
    fn outgoing_request_drop(handle: u32) {
        let request = own!(handle, OutgoingRequest);
        end_message();
        check_childless(request.children, b"an outgoing-request was dropped before its headers");
    }

    "wasi:http/types#[constructor]request-options"
    fn options_new() -> u32 {
        handles::insert(Resource::RequestOptions(Box::default()))
    }

    "wasi:http/types#[method]request-options.connect-timeout"
    fn connect_timeout(options: u32, result: u32) {
        store_timeout(options, 0, result);
    }

    "wasi:http/types#[method]request-options.set-connect-timeout"
    fn set_connect_timeout(options: u32, present: u32, value: u64) -> u32 {
        set_timeout(options, 0, present, value)
    }

    "wasi:http/types#[method]request-options.first-byte-timeout"
    fn first_byte_timeout(options: u32, result: u32) {
        store_timeout(options, 1, result);
    }

    "wasi:http/types#[method]request-options.set-first-byte-timeout"
    fn set_first_byte_timeout(options: u32, present: u32, value: u64) -> u32 {
        set_timeout(options, 1, present, value)
    }

    "wasi:http/types#[method]request-options.between-bytes-timeout"
    fn between_bytes_timeout(options: u32, result: u32) {
        store_timeout(options, 2, result);
    }

    "wasi:http/types#[method]request-options.set-between-bytes-timeout"
    fn set_between_bytes_timeout(options: u32, present: u32, value: u64) -> u32 {
        set_timeout(options, 2, present, value)
    }

    "drop#request-options"
    fn options_drop(handle: u32) {
        own!(handle, RequestOptions);
    }

    "wasi:http/outgoing-handler#handle"
    fn handle(request: u32, has_options: u32, options: u32, result: u32) {
        let request = own!(request, OutgoingRequest);
        let options = if has_options != 0 { own!(options, RequestOptions) } else { Box::default() };
        let sentence = b"an outgoing-request was sent before its headers were dropped";
        check_childless(request.children, sentence);
        end_message();
        let channel = match &request.body {
            Some(body) => body.get().channel(),
            None => crate::new_channel(),
        };
        let failure = {
            let text = host::fetch(&request.text(channel, &options));
            let text = text.bytes();
            (!text.is_empty()).then(|| ErrorCode::parse(text))
        };
        let outcome = match (failure, &request.body) {
            (Some(code), None) => return store_error(result, &code),
            (Some(code), Some(body)) => {
                body.get().discard();
                Outcome::Failed(code)
            }
            (None, body) => {
                if let Some(body) = body {
                    body.get().begin_request();
                }
                Outcome::Pending
            }
        };
        let future = Future { channel, available: false, asked: false, outcome };
        store8(result, 0);
        store32(result + 8, handles::insert(Resource::FutureIncomingResponse(Shared::new(future))));
    }

    "wasi:http/types#[method]future-incoming-response.subscribe"
    fn future_subscribe(future: u32) -> u32 {
        let future = borrow!(future, FutureIncomingResponse).clone();
        handles::insert(Resource::PollFuture(future))
    }

    "wasi:http/types#[method]future-incoming-response.get"
    fn future_get(future: u32, result: u32) {
        let future = borrow!(future, FutureIncomingResponse).clone();
        let future = future.get();
        let mut handle = 0;
        let failure = match core::mem::replace(&mut future.outcome, Outcome::Consumed) {
            Outcome::Consumed => {
                store8(result, 1);
                return store8(result + 8, 1);
            }
            Outcome::Failed(code) => Some(code),
            Outcome::Pending => {
                let text = host::response(future.channel);
                match text.bytes() {
                    [] => {
                        future.outcome = Outcome::Pending;
                        return store8(result, 0);
                    }
                    [b'-', error @ ..] => Some(ErrorCode::parse(error)),
                    [b'+', response @ ..] => {
                        handle = receive(future.channel, response);
                        None
                    }
                    _ => crate::malformed(),
                }
            }
        };
        store8(result, 1);
        store8(result + 8, 0);
        match failure {
            Some(code) => store_error(result + 16, &code),
            None => {
                store8(result + 16, 0);
                store32(result + 24, handle);
            }
        }
    }

    "drop#future-incoming-response"
    fn future_drop(handle: u32) {
        let future = own!(handle, FutureIncomingResponse);
        let future = future.get();
        if matches!(future.outcome, Outcome::Pending) {
            host::cancel(future.channel);
        }
        future.outcome = Outcome::Consumed;
    }

    "wasi:http/types#[method]incoming-response.status"
    fn incoming_response_status(response: u32) -> u32 {
        borrow!(response, IncomingResponse).status
    }

    "wasi:http/types#[method]incoming-response.headers"
    fn incoming_response_headers(response: u32) -> u32 {
        let block = borrow!(response, IncomingResponse).headers.clone();
        fields::view(block, response)
    }

    "wasi:http/types#[method]incoming-response.consume"
    fn incoming_response_consume(response: u32, result: u32) {
        bodies::consume(borrow!(response, IncomingResponse).input.take(), result);
    }

    "drop#incoming-response"
    fn incoming_response_drop(handle: u32) {
        let response = own!(handle, IncomingResponse);
        check_childless(response.children, b"an incoming-response was dropped before its headers");
    }
}
