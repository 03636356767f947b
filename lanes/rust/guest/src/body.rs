//! An incoming body.

use std::io::{self, Read};

use crate::abi::incoming::IncomingBody;
use crate::abi::streams::{InputStream, StreamError};
use crate::error::{ErrorKind, HostError, Result};

const CHUNK: usize = 64 * 1024;

/// The body of a request or a response, read as it arrives. Unread parts are never held in memory.
#[derive(Debug)]
pub struct Body {
    // The stream must be dropped before its body, so it is the first field.
    stream: Option<InputStream>,
    _body: Option<IncomingBody>,
    chunk: Vec<u8>,
    taken: usize,
}

impl Body {
    pub(crate) fn of(body: Option<IncomingBody>) -> Self {
        let stream = body.as_ref().and_then(IncomingBody::stream);
        Self { stream, _body: body, chunk: Vec::new(), taken: 0 }
    }

    /// Wait for the next bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the other side disconnected.
    pub fn chunk(&mut self) -> Result<Option<Vec<u8>>, HostError> {
        if self.taken < self.chunk.len() {
            let rest = self.chunk.split_off(self.taken);
            self.chunk.clear();
            self.taken = 0;
            return Ok(Some(rest));
        }
        let Some(stream) = &self.stream else { return Ok(None) };
        match stream.read(CHUNK) {
            Ok(chunk) => Ok(Some(chunk)),
            Err(error) => {
                self.stream = None;
                match error {
                    StreamError::Closed => Ok(None),
                    StreamError::Failed => Err(HostError::stream(&error, "the body")),
                }
            }
        }
    }

    /// Read the rest.
    ///
    /// # Errors
    ///
    /// If the other side disconnected.
    pub fn bytes(&mut self) -> Result<Vec<u8>, HostError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk()? {
            if all.is_empty() {
                all = chunk;
            } else {
                all.extend_from_slice(&chunk);
            }
        }
        Ok(all)
    }

    /// Read the rest as text.
    ///
    /// # Errors
    ///
    /// If the other side disconnected, or the body is not UTF-8.
    pub fn text(&mut self) -> Result<String, HostError> {
        String::from_utf8(self.bytes()?).map_err(|error| HostError::new(ErrorKind::Invalid, error.to_string()))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.taken == self.chunk.len() {
            match self.chunk()? {
                Some(chunk) => (self.chunk, self.taken) = (chunk, 0),
                None => return Ok(0),
            }
        }
        let rest = &self.chunk[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_in_part_is_not_lost() {
        let mut body = Body { chunk: b"hello".to_vec(), ..Body::of(None) };
        let mut two = [0; 2];
        assert_eq!(body.read(&mut two).unwrap(), 2);
        assert_eq!(body.text().unwrap(), "llo");
        assert_eq!(body.read(&mut two).unwrap(), 0);
        assert_eq!(body.chunk().unwrap(), None);
    }
}
