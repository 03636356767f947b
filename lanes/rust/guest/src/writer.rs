//! A body on its way out.

use std::fmt;
use std::io::{self, Write};

use crate::abi::incoming::OutgoingBody;
use crate::abi::streams::{OutputStream, StreamError};
use crate::error::{ErrorKind, HostError};

/// A body that is written piece by piece: each write leaves at once, and waits while the other side is slow.
///
/// A write fails with [`ErrorKind::Gone`] ([`io::ErrorKind::BrokenPipe`]) when the reader is gone.
#[derive(Debug)]
pub struct Writer {
    // The stream goes before the body that it belongs to, so it stands first.
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

    /// End the body well.
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
            StreamError::Closed => HostError::new(ErrorKind::Gone, format!("{} went away", self.reader)).into(),
            StreamError::Failed => HostError::new(ErrorKind::Gone, format!("{} broke off", self.reader)).into(),
        })
    }

    /// Does nothing: every write has left already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Write what `write!` makes as one piece, not as one for each of its arguments.
    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        match arguments.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(fmt::format(arguments).as_bytes()),
        }
    }
}
