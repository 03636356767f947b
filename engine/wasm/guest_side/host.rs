//! The functions of the host. Texts are UTF-8; bytes that are not ASCII cross packed: 56 bytes in 64 characters.

use crate::list::Bytes;
use crate::guest;
use crate::memory;
use core::slice::from_raw_parts;

/// Maximum number of bytes in one call.
pub const MAX_BYTES: usize = 65536;
/// Size of the buffer for results: `MAX_BYTES` packed, or a text. A longer text gets pages of its own.
const BUFFER: usize = 80_000;
/// Size of a buffer for the head of a response.
const HEAD_BUFFER: usize = 262_144;
/// Bytes beyond the end of a range that packing may read and unpacking may write.
pub const OVERHANG: usize = 56;

mod import {
    #[link(wasm_import_module = "m")]
    unsafe extern "C" {
        pub fn set_buffer(at: *mut u8, size: usize);
    }

    #[link(wasm_import_module = "host")]
    unsafe extern "C" {
        pub fn begin(result: *mut u32);
        pub fn send(
            channel: u32,
            flags: u32,
            head: *const u8,
            head_size: usize,
            body: *const u8,
            body_size: usize,
            count: u32,
        ) -> u64;
        pub fn abort(channel: u32, reason: *const u8, size: usize);
        pub fn refuse(error: *const u8, size: usize);
        pub fn read(channel: u32, most: u32, result: *mut u32);
        pub fn error(channel: u32, result: *mut u32);
        pub fn ready(sources: *const u8, size: usize, result: *mut u64);
        pub fn wait(sources: *const u8, size: usize, deadline: u64, result: *mut u64);
        pub fn now() -> u64;
        pub fn fetch(request: *const u8, size: usize, result: *mut u32);
        pub fn response(channel: u32, result: *mut u32);
        pub fn close(channel: u32, what: u32);
        pub fn print(stream: u32, text: *const u8, size: usize, count: u32);
        pub fn exit(status: u32);
        pub fn trap(text: *const u8, size: usize);
        pub fn warn(text: *const u8, size: usize);
    }
}

static mut SCRATCH: *mut u8 = core::ptr::null_mut();

/// Returns the address of the buffer of `BUFFER` bytes for packed bytes and for results.
pub fn scratch() -> *mut u8 {
    unsafe {
        if SCRATCH.is_null() {
            SCRATCH = memory::block(BUFFER);
        }
        SCRATCH
    }
}

/// A text that the host returned. If it is not in a buffer of its own, it is valid until the next call of the host.
pub struct Text {
    at: usize,
    size: usize,
    buffer: Bytes,
}

impl Text {
    fn from([at, size]: [u32; 2]) -> Self {
        Self { at: at as usize, size: size as usize, buffer: Bytes::new() }
    }

    /// Returns the size of the buffer that was set.
    fn buffer_size(&self) -> usize {
        if self.buffer.capacity() > 0 { HEAD_BUFFER } else { BUFFER }
    }

    pub fn bytes(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        unsafe { from_raw_parts(self.at as *const u8, self.size) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if self.size > self.buffer_size() {
            memory::adopt(self.at, self.size.next_multiple_of(65536));
        }
    }
}

/// Sets the buffer for the result of the next call.
fn set_buffer() {
    unsafe { import::set_buffer(scratch(), BUFFER) }
}

fn text_of(call: impl FnOnce(*mut u32)) -> Text {
    let mut result = [0_u32; 2];
    set_buffer();
    call(result.as_mut_ptr());
    Text::from(result)
}

/// Returns the head of the request, which stays where it is.
pub fn begin() -> &'static [u8] {
    let text = text_of(|result| unsafe { import::begin(result) });
    Bytes::from(text.bytes()).leak()
}

/// Bytes as they cross to the host: themselves, or packed.
pub struct Packed {
    at: *const u8,
    size: usize,
    count: usize,
}

impl Packed {
    /// Prepares at most `MAX_BYTES` bytes of the library. They are followed by `OVERHANG` bytes of its memory.
    pub fn own(bytes: &[u8]) -> Self {
        let count = bytes.len();
        if bytes.is_ascii() {
            return Self { at: bytes.as_ptr(), size: count, count };
        }
        let at = scratch();
        let end = guest::pack_own(bytes.as_ptr(), at, count);
        Self { at, size: end as usize - at as usize, count }
    }

    /// Prepares at most `MAX_BYTES` bytes of the guest.
    pub fn guest(from: u32, count: usize) -> Self {
        let at = scratch();
        if guest::is_ascii(from, count) {
            guest::copy_in(at, from, count);
            return Self { at, size: count, count };
        }
        let end = guest::pack_in(from, at, count);
        Self { at, size: end as usize - at as usize, count }
    }
}

/// What a channel can take after a call of `send`.
pub struct Sent {
    pub room: u32,
    pub closed: bool,
}

pub const HEAD: u32 = 1;
pub const COMPLETE: u32 = 2;

pub fn send(channel: u32, flags: u32, head: &[u8], body: Packed) -> Sent {
    let result = unsafe {
        import::send(
            channel,
            flags,
            head.as_ptr(),
            head.len(),
            body.at,
            body.size,
            body.count as u32,
        )
    };
    crate::clocks::set(result >> 20);
    Sent { room: result as u32 & 0x7ffff, closed: result & (1 << 19) != 0 }
}

pub fn abort(channel: u32, reason: &[u8]) {
    unsafe { import::abort(channel, reason.as_ptr(), reason.len()) }
}

pub fn refuse(error: &[u8]) {
    unsafe { import::refuse(error.as_ptr(), error.len()) }
}

/// Bytes that the host returned, and what is known of the channel after them.
pub struct Received {
    text: Text,
    pub count: usize,
    pub state: u32,
}

impl Received {
    /// Returns the bytes if they were not packed.
    fn plain(&self) -> Option<&[u8]> {
        let bytes = self.text.bytes();
        (bytes.len() == self.count).then_some(bytes)
    }

    /// Writes the bytes to the guest's memory.
    pub fn copy_out(&self, to: u32) {
        match self.plain() {
            Some(bytes) => guest::copy_out(to, bytes),
            None => guest::unpack_out(self.text.at as *const u8, to, self.count),
        }
    }

    /// Returns the bytes in a buffer of their own.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = Bytes::with_capacity(self.count + OVERHANG);
        match self.plain() {
            Some(plain) => bytes.extend(plain),
            None => bytes.extend_with(self.count, |to| {
                guest::unpack_own(self.text.at as *const u8, to, self.count);
            }),
        }
        bytes
    }
}

pub fn read(channel: u32, most: usize) -> Received {
    let mut result = [0_u32; 4];
    set_buffer();
    unsafe { import::read(channel, most as u32, result.as_mut_ptr()) };
    let [at, size, count, state] = result;
    let count = count as usize;
    let fits = size as usize == count || size as usize == count.div_ceil(56) * 64;
    if count > most || !fits {
        crate::malformed();
    }
    Received { text: Text::from([at, size]), count, state }
}

pub fn error(channel: u32) -> Text {
    text_of(|result| unsafe { import::error(channel, result) })
}

/// Asks which sources are ready and updates the clock; waits for one of them if there is a deadline.
pub fn ask(sources: &[u8], deadline: Option<u64>) -> Text {
    let mut result = [0_u64; 2];
    let at = result.as_mut_ptr();
    set_buffer();
    unsafe {
        match deadline {
            None => import::ready(sources.as_ptr(), sources.len(), at),
            Some(deadline) => import::wait(sources.as_ptr(), sources.len(), deadline, at),
        }
    }
    crate::clocks::set(result[0]);
    Text::from([result[1] as u32, (result[1] >> 32) as u32])
}

pub fn now() -> u64 {
    unsafe { import::now() }
}

pub fn fetch(request: &[u8]) -> Text {
    text_of(|result| unsafe { import::fetch(request.as_ptr(), request.len(), result) })
}

pub fn response(channel: u32) -> Text {
    let mut result = [0_u32; 2];
    let mut buffer = Bytes::with_capacity(HEAD_BUFFER);
    unsafe {
        import::set_buffer(buffer.as_mut_ptr(), HEAD_BUFFER);
        import::response(channel, result.as_mut_ptr());
    }
    Text { at: result[0] as usize, size: result[1] as usize, buffer }
}

/// Discards all further input of a channel.
pub fn close_input(channel: u32) {
    unsafe { import::close(channel, 0) }
}

/// Cancels a request whose response was not taken.
pub fn cancel(channel: u32) {
    unsafe { import::close(channel, 1) }
}

/// Releases the input of a channel.
pub fn forget_input(channel: u32) {
    unsafe { import::close(channel, 2) }
}

pub fn print(stream: u32, text: Packed) {
    unsafe { import::print(stream, text.at, text.size, text.count as u32) }
}

pub fn exit(status: u32) -> ! {
    unsafe { import::exit(status) };
    core::arch::wasm32::unreachable()
}

pub fn trap(text: &[u8]) -> ! {
    unsafe { import::trap(text.as_ptr(), text.len()) };
    core::arch::wasm32::unreachable()
}

pub fn warn(text: &[u8]) {
    unsafe { import::warn(text.as_ptr(), text.len()) }
}
