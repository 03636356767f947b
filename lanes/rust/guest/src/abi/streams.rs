//! `wasi:io/streams`: bytes in and out.

use super::area::Area;
use super::poll::Pollable;
use super::{import, resource};

import! { "wasi:io/streams@0.2.4":
    "[resource-drop]input-stream" = fn input_stream_drop(stream: u32);
    "[resource-drop]output-stream" = fn output_stream_drop(stream: u32);
    "[method]input-stream.blocking-read" = fn blocking_read(stream: u32, most: u64, result: *mut u8);
    "[method]output-stream.blocking-write-and-flush" =
        fn blocking_write_and_flush(stream: u32, data: *const u8, length: usize, result: *mut u8);
    "[method]output-stream.check-write" = fn check_write(stream: u32, result: *mut u8);
    "[method]output-stream.write" = fn write(stream: u32, data: *const u8, length: usize, result: *mut u8);
    "[method]output-stream.subscribe" = fn subscribe(stream: u32) -> u32;
}

import! { "wasi:io/error@0.2.4":
    "[resource-drop]error" = fn error_drop(error: u32);
}

/// The maximum size of one `blocking-write-and-flush` (wasi:io, `output-stream`).
const WRITE_LIMIT: usize = 4096;

/// Why a read or write failed.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamError {
    /// The other side closed the stream.
    Closed,
    /// The stream failed.
    Failed,
}

resource!(InputStream, input_stream_drop);
resource!(OutputStream, output_stream_drop);

/// Read the error of the result at 0, with the `stream-error` at `offset`.
fn stream_error(area: &Area, offset: usize) -> StreamError {
    if area.case(offset) != 0 {
        return StreamError::Closed;
    }
    unsafe { error_drop(area.word(offset + 4)) };
    StreamError::Failed
}

impl InputStream {
    /// Wait for bytes, at least one and at most `most`.
    pub(crate) fn read(&self, most: usize) -> Result<Vec<u8>, StreamError> {
        let mut area = Area::new();
        unsafe {
            blocking_read(self.0, most as u64, area.pointer());
            if area.case(0) == 0 {
                return Ok(area.bytes(4));
            }
        }
        Err(stream_error(&area, 4))
    }
}

impl OutputStream {
    /// Send the beginning of `data`, up to the maximum of one call, and return its size.
    pub(crate) fn write(&self, data: &[u8]) -> Result<usize, StreamError> {
        let mut area = Area::new();
        let length = if data.len() <= WRITE_LIMIT {
            unsafe { blocking_write_and_flush(self.0, data.as_ptr(), data.len(), area.pointer()) };
            data.len()
        } else {
            let length = data.len().min(self.room()?);
            unsafe { write(self.0, data.as_ptr(), length, area.pointer()) };
            length
        };
        if area.case(0) == 0 {
            Ok(length)
        } else {
            Err(stream_error(&area, 4))
        }
    }

    /// Wait until bytes can be written, and return how many.
    fn room(&self) -> Result<usize, StreamError> {
        loop {
            let mut area = Area::new();
            unsafe { check_write(self.0, area.pointer()) };
            if area.case(0) != 0 {
                return Err(stream_error(&area, 8));
            }
            match usize::try_from(area.long(8)).unwrap_or(usize::MAX) {
                0 => Pollable::from_handle(unsafe { subscribe(self.0) }).block(),
                room => return Ok(room),
            }
        }
    }
}
