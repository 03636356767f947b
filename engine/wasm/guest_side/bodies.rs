//! Message bodies of `wasi:http/types`.

use crate::error_codes::ErrorCode;
use crate::fields;
use crate::guest::{store8, store_ok_handle};
use crate::handles::{self, Resource, Trailers, borrow, check_childless, own};
use crate::input::{self, Input, InputStream};
use crate::output::{Output, OutputStream};
use crate::poll::{self, Source};
use crate::shared::Shared;
use crate::{export, host};

/// A request's or response's body that the guest reads; its stream can be taken once.
pub struct IncomingBody {
    pub input: Shared<Input>,
    pub children: u32,
    pub consumed: bool,
}

/// A body that the guest writes. Dropping it unfinished ends the message incomplete.
pub struct OutgoingBody {
    pub output: Shared<Output>,
    pub children: u32,
    pub consumed: bool,
}

/// Returns the body of a received message, once, to `result`.
pub fn consume(input: Option<Shared<Input>>, result: u32) {
    let Some(input) = input else { return store8(result, 1) };
    let body = IncomingBody { input, children: 0, consumed: false };
    store_ok_handle(result, handles::insert(Resource::IncomingBody(body)));
}

/// Returns a new body of a message under construction to `result`.
pub fn give_outgoing(output: Shared<Output>, result: u32) {
    let body = OutgoingBody { output, children: 0, consumed: false };
    store_ok_handle(result, handles::insert(Resource::OutgoingBody(body)));
}

/// Stores the error side of a result whose payload is an error code.
pub fn store_error(result: u32, code: &ErrorCode) {
    store8(result, 1);
    code.store(result + 8);
}

export! {
    "wasi:http/types#[method]incoming-body.stream"
    fn incoming_body_stream(handle: u32, result: u32) {
        let body = borrow!(handle, IncomingBody);
        if core::mem::replace(&mut body.consumed, true) {
            return store8(result, 1);
        }
        let input = body.input.clone();
        handles::attach(handle);
        let stream = InputStream { input, parent: handle };
        store_ok_handle(result, handles::insert(Resource::InputStream(stream)));
    }

    "wasi:http/types#[static]incoming-body.finish"
    fn incoming_body_finish(handle: u32) -> u32 {
        let body = own!(handle, IncomingBody);
        let sentence = b"an incoming-body was finished before its input-stream was dropped";
        check_childless(body.children, sentence);
        body.input.get().discard();
        let trailers = Trailers { input: body.input, consumed: false };
        handles::insert(Resource::FutureTrailers(trailers))
    }

    "drop#incoming-body"
    fn incoming_body_drop(handle: u32) {
        let body = own!(handle, IncomingBody);
        check_childless(body.children, b"an incoming-body was dropped before its input-stream");
        input::release(&body.input);
    }

    "wasi:http/types#[method]future-trailers.get"
    fn trailers_get(handle: u32, result: u32) {
        let Trailers { input, consumed } = borrow!(handle, FutureTrailers);
        if !poll::is_ready(&Source::End(input.clone())) {
            return store8(result, 0);
        }
        store8(result, 1);
        if core::mem::replace(consumed, true) {
            return store8(result + 8, 1);
        }
        store8(result + 8, 0);
        match input.get().end() {
            Some(code) => store_error(result + 16, &code),
            None => {
                store8(result + 16, 0);
                store8(result + 24, 0);
            }
        }
    }

    "wasi:http/types#[method]outgoing-body.write"
    fn outgoing_body_write(handle: u32, result: u32) {
        let body = borrow!(handle, OutgoingBody);
        if core::mem::replace(&mut body.consumed, true) {
            return store8(result, 1);
        }
        let output = body.output.clone();
        handles::attach(handle);
        let stream = OutputStream { output, parent: handle, permit: 0 };
        store_ok_handle(result, handles::insert(Resource::OutputStream(stream)));
    }

    "wasi:http/types#[static]outgoing-body.finish"
    fn outgoing_body_finish(handle: u32, has_trailers: u32, trailers: u32, result: u32) {
        let body = own!(handle, OutgoingBody);
        if has_trailers != 0 {
            fields::consume(trailers);
        }
        let sentence = b"an outgoing-body was finished before its output-stream was dropped";
        check_childless(body.children, sentence);
        if has_trailers != 0 {
            host::warn(b"the guest set trailers; they are not sent");
        }
        let output = body.output.get();
        output.finish();
        match output.error() {
            None => store8(result, 0),
            Some(code) => store_error(result, &code),
        }
    }

    "drop#outgoing-body"
    fn outgoing_body_drop(handle: u32) {
        let body = own!(handle, OutgoingBody);
        check_childless(body.children, b"an outgoing-body was dropped before its output-stream");
        body.output.get().abandon();
    }
}
