//! `input-stream` of `wasi:io/streams`, and the input of channels: the request's body and bodies of responses.

use crate::list::{Bytes, part};
use crate::error_codes::{ErrorCode, StreamError};
use crate::guest::{self, store_list, store8, store64};
use crate::handles::{self, Resource, Subscription, borrow, own};
use crate::poll::{self, Source};
use crate::shared::Shared;
use crate::{export, host, state};
use alloc::rc::Rc;

/// Reads of this size go straight to the guest's memory; smaller ones read ahead.
const DIRECT_BYTES: usize = 16_384;
/// Maximum number of bytes read ahead over all channels.
const MAX_AHEAD_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Ended,
    Failed,
}

/// The input of a channel. `state` is what holds after the bytes that were read ahead.
pub struct Input {
    channel: u32,
    ahead: Bytes,
    taken: usize,
    state: State,
    error: Option<Rc<ErrorCode>>,
    /// Whether the host discards the input.
    closed: bool,
    /// Whether the guest has received the error.
    failed: bool,
    /// Whether the host reported bytes or the end, not read since then.
    pub readable: bool,
    /// Whether the host reported the end, not read since then.
    pub at_end: bool,
    /// Whether the call under construction asks for bytes, and for the end.
    pub asked: [bool; 2],
    pub subscription: Subscription,
}

/// A guest's view of an input.
pub struct InputStream {
    pub input: Shared<Input>,
    pub parent: u32,
}

impl Input {
    /// Returns the input of a channel.
    pub fn new(channel: u32) -> Self {
        Self::with(channel, State::Open)
    }

    /// Returns an input without bytes.
    pub fn ended() -> Self {
        Self::with(0, State::Ended)
    }

    fn with(channel: u32, state: State) -> Self {
        Self {
            channel,
            state,
            ahead: Bytes::new(),
            taken: 0,
            error: None,
            closed: false,
            failed: false,
            readable: false,
            at_end: false,
            asked: [false; 2],
            subscription: Subscription::default(),
        }
    }

    pub fn channel(&self) -> u32 {
        self.channel
    }

    fn buffered(&self) -> usize {
        self.ahead.len() - self.taken
    }

    /// Returns whether a read would return at once, as far as known.
    pub fn is_ready(&self) -> bool {
        self.buffered() > 0 || self.state != State::Open || self.readable
    }

    /// Returns whether the input has ended, as far as known.
    pub fn has_ended(&self) -> bool {
        self.state != State::Open || self.at_end
    }

    /// Receives up to `most` bytes from the host.
    fn receive(&mut self, most: usize) -> host::Received {
        let received = host::read(self.channel, most);
        (self.readable, self.at_end) = (false, false);
        match received.state {
            0 => {}
            1 => self.state = State::Ended,
            _ => {
                self.state = State::Failed;
                self.error = None;
            }
        }
        received
    }

    /// Reads ahead if nothing is buffered. `wanted` is the size of the read that needs it.
    fn fill(&mut self, wanted: usize) {
        if self.buffered() > 0 || self.state != State::Open {
            return;
        }
        let ahead = state().ahead_bytes + host::MAX_BYTES;
        let most = if ahead > MAX_AHEAD_BYTES { wanted.max(1) } else { host::MAX_BYTES };
        let received = self.receive(most);
        if received.count > 0 {
            self.ahead = received.to_bytes();
            self.taken = 0;
            state().ahead_bytes += received.count;
        }
    }

    /// Removes bytes that were read ahead.
    fn consume(&mut self, count: usize) {
        self.taken += count;
        state().ahead_bytes -= count;
        if self.taken == self.ahead.len() {
            (self.ahead, self.taken) = (Bytes::new(), 0);
        }
    }

    /// Drops all further input.
    pub fn discard(&mut self) {
        self.consume(self.buffered());
        if self.state == State::Open && !self.closed {
            self.closed = true;
            self.readable = false;
            host::close_input(self.channel);
        }
    }

    /// Returns the error of an input that has ended, if it is incomplete.
    pub fn end(&mut self) -> Option<Rc<ErrorCode>> {
        if self.state == State::Open {
            self.receive(host::MAX_BYTES);
        }
        if self.state == State::Failed && self.error.is_none() {
            let code = ErrorCode::parse(host::error(self.channel).bytes());
            self.error = Some(Rc::new(code));
        }
        self.error.clone()
    }

    /// Returns the error of a read after the end: the cause the first time, `closed` afterwards.
    fn stream_error(&mut self) -> StreamError {
        match if self.failed { None } else { self.end() } {
            None => StreamError::Closed,
            Some(code) => {
                self.failed = true;
                StreamError::Failed(code)
            }
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        state().ahead_bytes -= self.buffered();
        if self.channel != 0 {
            host::forget_input(self.channel);
        }
    }
}

/// Drops all further input of a body that the guest has dropped. The host releases it with the last owner.
pub fn release(input: &Shared<Input>) {
    if input.get().channel == 0 || !input.is_only() {
        input.get().discard();
    }
}

/// Makes bytes available, after a wait if `blocking`. Returns how many of `limit` can be taken.
pub fn available(input: &Shared<Input>, limit: usize, blocking: bool) -> Result<usize, StreamError> {
    loop {
        let flow = input.get();
        flow.fill(limit);
        if flow.buffered() > 0 {
            return Ok(limit.min(flow.buffered()));
        }
        if flow.state != State::Open {
            return Err(flow.stream_error());
        }
        if !blocking || limit == 0 {
            return Ok(0);
        }
        poll::wait(&[Source::Input(input.clone())]);
    }
}

/// Takes bytes that are available and passes them to `write`.
pub fn take(input: &Shared<Input>, count: usize, write: impl FnOnce(&[u8])) {
    let flow = input.get();
    write(part(&flow.ahead, flow.taken, flow.taken + count));
    flow.consume(count);
}

fn read(stream: u32, limit: u64, result: u32, blocking: bool) {
    let input = borrow!(stream, InputStream).input.clone();
    let limit = limit.min(host::MAX_BYTES as u64) as usize;
    if limit >= DIRECT_BYTES {
        let flow = input.get();
        while flow.buffered() == 0 && flow.state == State::Open {
            let received = flow.receive(limit);
            if received.count > 0 {
                let list = guest::allocate(1, received.count);
                received.copy_out(list);
                store8(result, 0);
                return store_list(result + 4, list, received.count);
            }
            if !blocking || flow.state != State::Open {
                break;
            }
            poll::wait(&[Source::Input(input.clone())]);
        }
        if flow.buffered() == 0 && flow.state == State::Open {
            store8(result, 0);
            return guest::store_empty(result + 4, 1);
        }
    }
    match available(&input, limit, blocking) {
        Err(error) => error.store(result, 4),
        Ok(count) => {
            let list = guest::allocate(1, count);
            if count > 0 {
                take(&input, count, |bytes| guest::copy_out(list, bytes));
            }
            store8(result, 0);
            store_list(result + 4, list, count);
        }
    }
}

fn skip(stream: u32, limit: u64, result: u32, blocking: bool) {
    let input = borrow!(stream, InputStream).input.clone();
    let limit = limit.min(host::MAX_BYTES as u64) as usize;
    match available(&input, limit, blocking) {
        Err(error) => error.store(result, 8),
        Ok(count) => {
            take(&input, count, |_| {});
            store8(result, 0);
            store64(result + 8, count as u64);
        }
    }
}

export! {
    "wasi:io/streams#[method]input-stream.read"
    fn input_read(stream: u32, limit: u64, result: u32) {
        read(stream, limit, result, false);
    }

    "wasi:io/streams#[method]input-stream.blocking-read"
    fn input_blocking_read(stream: u32, limit: u64, result: u32) {
        read(stream, limit, result, true);
    }

    "wasi:io/streams#[method]input-stream.skip"
    fn input_skip(stream: u32, limit: u64, result: u32) {
        skip(stream, limit, result, false);
    }

    "wasi:io/streams#[method]input-stream.blocking-skip"
    fn input_blocking_skip(stream: u32, limit: u64, result: u32) {
        skip(stream, limit, result, true);
    }

    "wasi:io/streams#[method]input-stream.subscribe"
    fn input_subscribe(stream: u32) -> u32 {
        let input = borrow!(stream, InputStream).input.clone();
        input.get().subscription.add(|| Resource::PollInput(input.clone()))
    }

    "drop#input-stream"
    fn input_drop(handle: u32) {
        let stream = own!(handle, InputStream);
        handles::detach(stream.parent);
        release(&stream.input);
    }
}
