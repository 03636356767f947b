//! An outgoing body.

use std::fmt;
use std::io::{self, Write};

use crate::abi::incoming::OutgoingBody;
use crate::abi::streams::{OutputStream, StreamError};
use crate::error::{ErrorKind, HostError};

/// A body that is written piece by piece: each write is sent at once, and waits while the reader is slow.
///
/// A write fails with [`ErrorKind::Gone`] ([`io::ErrorKind::BrokenPipe`]) if the reader has disconnected.
#[derive(Debug)]
pub struct Writer {
    // The stream must be dropped before its body, so it is the first field.
    stream: OutputStream,
    body: OutgoingBody,
    reader: &'static str,
}

impl Writer {
    /// `reader` names the other side in errors.
    pub(crate) fn of(body: OutgoingBody, reader: &'static str) -> Self {
        let stream = body.write().expect("a body's stream is taken once");
        Self { stream, body, reader }
    }

    /// Complete the body.
    pub(crate) fn finish(self) -> Result<(), HostError> {
        drop(self.stream);
        self.body.finish().map_err(|code| HostError::new(ErrorKind::Invalid, code.meaning()))
    }
}

impl Write for Writer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        self.stream.write(data).map_err(|error| match error {
            StreamError::Closed => HostError::new(ErrorKind::Gone, format!("{} disconnected", self.reader)).into(),
            StreamError::Failed => HostError::new(ErrorKind::Gone, format!("{} disconnected", self.reader)).into(),
        })
    }

    /// Does nothing: every write was sent already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Write the text of `write!` as one piece, not one for each of its arguments.
    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        match arguments.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(fmt::format(arguments).as_bytes()),
        }
    }
}
