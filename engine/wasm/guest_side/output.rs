//! `output-stream` of `wasi:io/streams`, and the output of channels: bodies of the response and of requests.
//!
//! Bytes wait in the library while that saves calls of the host: until their message is sent, and the first ones of the
//! response together with its head.

use crate::list::Bytes;
use crate::error_codes::{ErrorCode, RESPONSE_BODY_SIZE, StreamError};
use crate::guest::{self, store8, store64};
use crate::handles::{self, Resource, Subscription, borrow, own};
use crate::host::{self, Packed};
use crate::input;
use crate::poll::{self, Source};
use crate::shared::Shared;
use crate::text::Sentence;
use crate::{export, state};
use alloc::rc::Rc;

/// Size at which the host stops to accept bytes.
const BUFFER_BYTES: usize = 262_144;
/// Maximum number of bytes that wait in the library.
const MAX_HELD_BYTES: usize = host::MAX_BYTES;
/// Maximum size of a blocking write.
const MAX_BLOCKING_BYTES: usize = 4096;
/// Writes of this size do not pass through the buffer, if nothing is in it.
const DIRECT_BYTES: usize = 4096;
/// The body that StarlingMonkey writes when its own code has ended a handler.
const ENGINE_FAILED: &[u8] = b"ERROR: no fetch-event handler triggered, was one registered?";
/// The reason of a body that the guest dropped.
const UNFINISHED: &[u8] = b"unfinished";

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The message is not sent yet.
    Held,
    /// The head of the response waits for its first bytes.
    Headed,
    Sent,
    /// A standard stream, whose bytes are printed.
    Printed,
    /// Nothing is sent: the host refused the request.
    Discarded,
}

/// Why no more is sent.
#[derive(Clone, Copy)]
enum Broken {
    /// The client disconnected.
    Closed,
    /// The guest dropped the body unfinished.
    Unfinished,
    /// The guest wrote another number of bytes than it declared.
    Length(u64),
}

/// The output of a channel, or of a standard stream (then `channel` is its number).
pub struct Output {
    channel: u32,
    stage: Stage,
    head: Bytes,
    held: Bytes,
    /// How many bytes the host accepted at its latest answer.
    room: usize,
    total: u64,
    expected: Option<u64>,
    /// The case of `error-code` for another length.
    mismatch: u32,
    broken: Option<Broken>,
    finished: bool,
    /// Whether the host knows that the body is complete: at its end, or at its declared length.
    completed: bool,
    /// Whether the guest has received the error.
    failed: bool,
    /// Whether the call under construction asks for room.
    pub asked: bool,
    pub subscription: Subscription,
}

/// A guest's view of an output. `permit` is what is left of the size allowed by the last check-write.
pub struct OutputStream {
    pub output: Shared<Output>,
    pub parent: u32,
    pub permit: u32,
}

/// Bytes to write.
#[derive(Clone, Copy)]
enum Content<'a> {
    Guest(u32),
    Own(&'a [u8]),
    Zeroes,
}

impl Output {
    /// Returns the output of a new channel.
    pub fn new(expected: Option<u64>, mismatch: u32) -> Self {
        let mut output = Self::with(crate::new_channel(), Stage::Held);
        (output.expected, output.mismatch) = (expected, mismatch);
        output
    }

    /// Returns an output that prints to standard output (1) or standard error (2).
    pub fn printed(stream: u32) -> Self {
        Self::with(stream, Stage::Printed)
    }

    fn with(channel: u32, stage: Stage) -> Self {
        Self {
            channel,
            stage,
            head: Bytes::new(),
            held: Bytes::new(),
            room: BUFFER_BYTES,
            total: 0,
            expected: None,
            mismatch: RESPONSE_BODY_SIZE,
            broken: None,
            finished: false,
            completed: false,
            failed: false,
            asked: false,
            subscription: Subscription::default(),
        }
    }

    pub fn channel(&self) -> u32 {
        self.channel
    }

    /// Returns whether the host must be asked for room.
    fn is_full(&self) -> bool {
        self.space() == 0 && self.broken.is_none()
    }

    /// Returns whether a writer may resume, as far as known.
    pub fn is_ready(&self) -> bool {
        !self.is_full()
    }

    /// Returns how many bytes may be written, as far as known.
    fn space(&self) -> usize {
        match self.stage {
            Stage::Printed | Stage::Discarded => BUFFER_BYTES,
            _ => self.room.saturating_sub(self.held.len()),
        }
    }

    /// Sends what is held, and what is known of the message.
    pub fn send(&mut self) {
        let held = core::mem::take(&mut self.held);
        self.send_packed(Packed::own(&held));
        self.held = held;
        self.held.truncate(0);
    }

    fn send_packed(&mut self, body: Packed) {
        let mut flags = 0;
        if self.stage == Stage::Headed {
            flags |= host::HEAD;
            self.stage = Stage::Sent;
        }
        if self.stage == Stage::Sent && (self.finished || self.expected == Some(self.total)) {
            flags |= host::COMPLETE;
            self.completed = true;
        }
        let head = core::mem::take(&mut self.head);
        let sent = host::send(self.channel, flags, &head, body);
        // Nothing follows a complete body, so nothing waits for room.
        self.room = if self.completed { BUFFER_BYTES } else { sent.room as usize };
        if sent.closed {
            self.close();
        }
    }

    /// Notes that the client has disconnected.
    pub fn close(&mut self) {
        if self.broken.is_none() {
            self.broken = Some(Broken::Closed);
        }
    }

    /// Sends what is held if the head is known.
    fn flush(&mut self) {
        if self.stage == Stage::Headed {
            self.send();
        }
    }

    /// Asks the host for room if there is none.
    pub fn ask(&mut self) {
        if self.is_full() && self.stage != Stage::Held {
            self.send();
        }
    }

    /// Sends what is held before a wait for room.
    pub fn prepare_wait(&mut self) {
        if !self.held.is_empty() {
            self.send();
        }
    }

    /// Returns how many bytes the next write may have.
    fn room(&mut self) -> Result<usize, StreamError> {
        self.ask();
        match self.broken {
            None => Ok(self.space()),
            Some(broken) => Err(self.stream_error(broken)),
        }
    }

    /// Returns the error of an operation: the cause the first time, `closed` afterwards.
    fn stream_error(&mut self, broken: Broken) -> StreamError {
        match broken {
            Broken::Length(total) if !self.failed => {
                self.failed = true;
                StreamError::Failed(Rc::new(ErrorCode::with_number(self.mismatch, total)))
            }
            _ => StreamError::Closed,
        }
    }

    /// Returns whether a write of `count` bytes is more than declared.
    fn exceeds(&self, count: usize) -> bool {
        self.expected.is_some_and(|expected| self.total + count as u64 > expected)
    }

    /// Writes `count` bytes. Fails if that is more than declared.
    fn put(&mut self, bytes: Content, count: usize) -> Result<(), StreamError> {
        let total = self.total + count as u64;
        if self.exceeds(count) {
            self.break_off(Broken::Length(total));
            return Err(self.stream_error(Broken::Length(total)));
        }
        if count == 0 {
            return Ok(());
        }
        let fits = self.held.len() + count <= MAX_HELD_BYTES;
        match self.stage {
            Stage::Discarded => {}
            Stage::Printed => self.print(bytes, count),
            Stage::Held => {
                if !fits {
                    self.send();
                }
                self.hold(bytes, count);
            }
            Stage::Headed if self.held.is_empty() => self.hold(bytes, count),
            _ => {
                if !fits {
                    self.send();
                }
                self.total = total;
                self.send_now(bytes, count);
            }
        }
        self.total = total;
        Ok(())
    }

    /// Appends bytes to those that are held.
    fn hold(&mut self, bytes: Content, count: usize) {
        match bytes {
            Content::Guest(at) => guest::append(&mut self.held, at, count),
            Content::Own(bytes) => self.held.extend(bytes),
            Content::Zeroes => self.held.extend_with(count, |to| unsafe { to.write_bytes(0, count) }),
        }
    }

    fn send_now(&mut self, bytes: Content, count: usize) {
        match bytes {
            Content::Guest(at) if self.held.is_empty() && count >= DIRECT_BYTES => {
                self.send_packed(Packed::guest(at, count));
            }
            Content::Own(bytes) if self.held.is_empty() => self.send_packed(Packed::own(bytes)),
            _ => {
                self.hold(bytes, count);
                self.send();
            }
        }
    }

    fn print(&mut self, bytes: Content, count: usize) {
        if let Content::Guest(at) = bytes {
            return host::print(self.channel, Packed::guest(at, count));
        }
        self.hold(bytes, count);
        host::print(self.channel, Packed::own(&self.held));
        self.held.truncate(0);
    }

    /// Ends the body incomplete.
    fn break_off(&mut self, broken: Broken) {
        self.broken = Some(broken);
        if matches!(self.stage, Stage::Headed | Stage::Sent) {
            self.abort();
        }
    }

    /// Reports to the host that the body ends incomplete.
    fn abort(&mut self) {
        if self.stage == Stage::Headed || !self.held.is_empty() {
            self.send();
        }
        match self.broken {
            Some(Broken::Unfinished) => host::abort(self.channel, UNFINISHED),
            Some(Broken::Length(total)) => {
                host::abort(self.channel, &ErrorCode::with_number(self.mismatch, total).text());
            }
            _ => {}
        }
    }

    /// Marks the body as finished, or as broken if its length differs from the declared one.
    pub fn finish(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if self.expected.is_some_and(|expected| expected != self.total) {
            return self.break_off(Broken::Length(self.total));
        }
        self.finished = true;
        if matches!(self.stage, Stage::Headed | Stage::Sent) && !self.completed {
            self.send();
        }
    }

    /// Returns the error code of a finished body that is broken.
    pub fn error(&self) -> Option<ErrorCode> {
        match self.broken? {
            Broken::Length(total) => Some(ErrorCode::with_number(self.mismatch, total)),
            _ => Some(ErrorCode::new(crate::error_codes::CONNECTION_TERMINATED)),
        }
    }

    /// Marks the body as incomplete, unless it is finished or broken.
    pub fn abandon(&mut self) {
        if !self.finished && !self.completed && self.broken.is_none() {
            self.break_off(Broken::Unfinished);
        }
    }

    /// Begins the response.
    fn begin(&mut self, head: Bytes) {
        self.head = head;
        self.stage = Stage::Headed;
        self.complete();
    }

    /// Begins to send the body of a request that the host accepted.
    pub fn begin_request(&mut self) {
        self.stage = Stage::Sent;
        self.prepare_wait();
        self.complete();
    }

    /// Sends the end, or reports the break, of a body that the guest has completed before its message was sent.
    fn complete(&mut self) {
        if self.finished {
            self.send();
        } else if self.broken.is_some() {
            self.abort();
        }
    }

    /// Drops what is held and all further output.
    pub fn discard(&mut self) {
        self.stage = Stage::Discarded;
        self.held = Bytes::new();
    }

    /// Returns whether the host may report that the client has disconnected.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Sent && !self.completed && self.broken.is_none()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.stage == Stage::Held && self.room < BUFFER_BYTES {
            host::abort(self.channel, UNFINISHED);
        }
    }
}

/// Makes a body the response.
pub fn begin_response(output: Shared<Output>, head: Bytes) {
    output.get().begin(head);
    state().response = Some(output);
}

/// Sends the head of the response and what is held of its body.
pub fn flush_response() {
    if let Some(output) = &state().response {
        output.get().flush();
    }
}

fn store_outcome(result: u32, outcome: Result<(), StreamError>) {
    match outcome {
        Ok(()) => store8(result, 0),
        Err(error) => error.store(result, 4),
    }
}

fn store_count(result: u32, outcome: Result<usize, StreamError>) {
    match outcome {
        Err(error) => error.store(result, 8),
        Ok(count) => {
            store8(result, 0);
            store64(result + 8, count as u64);
        }
    }
}

fn check_write(stream: &mut OutputStream) -> Result<usize, StreamError> {
    let permit = stream.output.get().room()?.min(host::MAX_BYTES);
    stream.permit = permit as u32;
    Ok(permit)
}

/// Ends the run because of a write beyond its permit.
fn trap_beyond(name: &[u8], count: u64, permit: u32) -> ! {
    let sentence = Sentence::new().text(name).text(b" of ").number(count);
    sentence.text(b" bytes where check-write permitted ").number(permit.into()).trap()
}

fn write(stream: &mut OutputStream, bytes: Content, count: u32) -> Result<(), StreamError> {
    let output = stream.output.get();
    output.room()?;
    if count > stream.permit {
        if let Content::Guest(at) = bytes {
            if count as usize == ENGINE_FAILED.len() && *guest::bytes(at, count) == *ENGINE_FAILED {
                crate::trap(ENGINE_FAILED);
            }
        }
        trap_beyond(b"write", count.into(), stream.permit);
    }
    stream.permit -= count;
    output.put(bytes, count as usize)
}

/// Writes up to `MAX_BLOCKING_BYTES`, in parts if there is not room for all.
fn blocking_write(stream: u32, mut bytes: Content, count: u64, name: &[u8]) -> Result<(), StreamError> {
    if count > MAX_BLOCKING_BYTES as u64 {
        let sentence = Sentence::new().text(name).text(b" of ").number(count);
        sentence.text(b" bytes; at most 4096 are allowed").trap();
    }
    let output = borrow!(stream, OutputStream).output.clone();
    let mut left = count as usize;
    loop {
        let room = if left == 0 { output.get().room()? } else { wait_for_room(&output)? };
        let mut part = left.min(room);
        if output.get().exceeds(left) {
            part = left;
        }
        output.get().put(bytes, part)?;
        left -= part;
        if left == 0 {
            output.get().flush();
            return Ok(());
        }
        if let Content::Guest(at) = &mut bytes {
            *at += part as u32;
        }
    }
}

/// Waits until there is room; returns how much.
fn wait_for_room(output: &Shared<Output>) -> Result<usize, StreamError> {
    loop {
        let room = output.get().room()?;
        if room > 0 {
            return Ok(room);
        }
        poll::wait(&[Source::Output(output.clone())]);
    }
}

fn flush(stream: u32) -> Result<Shared<Output>, StreamError> {
    let output = borrow!(stream, OutputStream).output.clone();
    output.get().flush();
    output.get().room()?;
    Ok(output)
}

fn splice(stream: u32, source: u32, limit: u64, blocking: bool) -> Result<usize, StreamError> {
    let output = borrow!(stream, OutputStream).output.clone();
    let input = borrow!(source, InputStream).input.clone();
    let limit = limit.min(host::MAX_BYTES as u64) as usize;
    let blocking = blocking && limit > 0;
    let room = if blocking { wait_for_room(&output)? } else { output.get().room()? };
    let count = input::available(&input, limit.min(room), blocking)?;
    if count == 0 {
        return Ok(0);
    }
    // The client may have disconnected during the wait for the source.
    output.get().room()?;
    let mut outcome = Ok(());
    input::take(&input, count, |bytes| outcome = output.get().put(Content::Own(bytes), count));
    outcome.map(|()| count)
}

export! {
    "wasi:io/streams#[method]output-stream.check-write"
    fn output_check_write(stream: u32, result: u32) {
        store_count(result, check_write(borrow!(stream, OutputStream)));
    }

    "wasi:io/streams#[method]output-stream.write"
    fn output_write(stream: u32, bytes: u32, count: u32, result: u32) {
        guest::check(bytes, count.into());
        store_outcome(result, write(borrow!(stream, OutputStream), Content::Guest(bytes), count));
    }

    "wasi:io/streams#[method]output-stream.blocking-write-and-flush"
    fn output_blocking_write(stream: u32, bytes: u32, count: u32, result: u32) {
        guest::check(bytes, count.into());
        let name = b"blocking-write-and-flush";
        store_outcome(result, blocking_write(stream, Content::Guest(bytes), count.into(), name));
    }

    "wasi:io/streams#[method]output-stream.write-zeroes"
    fn output_write_zeroes(stream: u32, count: u64, result: u32) {
        let stream = borrow!(stream, OutputStream);
        if count > stream.permit.into() {
            trap_beyond(b"write-zeroes", count, stream.permit);
        }
        store_outcome(result, write(stream, Content::Zeroes, count as u32));
    }

    "wasi:io/streams#[method]output-stream.blocking-write-zeroes-and-flush"
    fn output_blocking_write_zeroes(stream: u32, count: u64, result: u32) {
        let name = b"blocking-write-zeroes-and-flush";
        store_outcome(result, blocking_write(stream, Content::Zeroes, count, name));
    }

    "wasi:io/streams#[method]output-stream.flush"
    fn output_flush(stream: u32, result: u32) {
        store_outcome(result, flush(stream).map(|_| ()));
    }

    "wasi:io/streams#[method]output-stream.blocking-flush"
    fn output_blocking_flush(stream: u32, result: u32) {
        let outcome = flush(stream).and_then(|output| wait_for_room(&output));
        store_outcome(result, outcome.map(|_| ()));
    }

    "wasi:io/streams#[method]output-stream.subscribe"
    fn output_subscribe(stream: u32) -> u32 {
        let output = borrow!(stream, OutputStream).output.clone();
        output.get().subscription.add(|| Resource::PollOutput(output.clone()))
    }

    "wasi:io/streams#[method]output-stream.splice"
    fn output_splice(stream: u32, source: u32, limit: u64, result: u32) {
        store_count(result, splice(stream, source, limit, false));
    }

    "wasi:io/streams#[method]output-stream.blocking-splice"
    fn output_blocking_splice(stream: u32, source: u32, limit: u64, result: u32) {
        store_count(result, splice(stream, source, limit, true));
    }

    "drop#output-stream"
    fn output_drop(handle: u32) {
        let stream = own!(handle, OutputStream);
        handles::detach(stream.parent);
    }
}
