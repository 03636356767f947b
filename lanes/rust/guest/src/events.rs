//! Server-sent events (WHATWG HTML, 9.2).

use std::io::Write as _;
use std::time::Duration;

use crate::error::{ErrorKind, HostError, Result};
use crate::writer::Writer;

/// One event.
///
/// ```
/// use svc_guest::Event;
///
/// let event = Event::data("first line\nsecond line").id("7").name("tick");
/// assert_eq!(event.encode()?, "event: tick\nid: 7\ndata: first line\ndata: second line\n\n");
/// # Ok::<(), svc_guest::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Event {
    data: String,
    id: Option<String>,
    name: Option<String>,
    retry: Option<Duration>,
}

impl Event {
    /// An event with this data, of any number of lines.
    pub fn data(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Set the id, which a browser sends as `last-event-id` when it reconnects.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Set the name of the event (default: `message`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Set how long a browser waits before it reconnects after the stream ended.
    pub fn retry(mut self, after: Duration) -> Self {
        self.retry = Some(after);
        self
    }

    /// Return the encoded event.
    ///
    /// # Errors
    ///
    /// If id or name has a line break.
    pub fn encode(&self) -> Result<String, HostError> {
        let mut text = String::new();
        for (what, field, value) in [("name", "event", &self.name), ("id", "id", &self.id)] {
            let Some(value) = value else { continue };
            if value.contains(['\n', '\r', '\0']) {
                return Err(HostError::new(ErrorKind::Invalid, format!("the {what} of an event has a line break")));
            }
            line(&mut text, field, value);
        }
        if let Some(after) = self.retry {
            line(&mut text, "retry", &after.as_millis().to_string());
        }
        lines(&mut text, "data", &self.data);
        text.push('\n');
        Ok(text)
    }
}

/// A stream of events; see [`Response::events`](crate::Response::events).
#[derive(Debug)]
pub struct Events<'a> {
    out: &'a mut Writer,
}

impl<'a> Events<'a> {
    pub(crate) fn to(out: &'a mut Writer) -> Self {
        Self { out }
    }

    /// Send an event at once.
    ///
    /// # Errors
    ///
    /// If the client disconnected ([`ErrorKind::Gone`]): return it, to end the stream.
    pub fn send(&mut self, event: &Event) -> Result<(), HostError> {
        Ok(self.out.write_all(event.encode()?.as_bytes())?)
    }

    /// Send a comment, which pages ignore: it prevents an idle timeout of the connection.
    ///
    /// # Errors
    ///
    /// If the client disconnected.
    pub fn comment(&mut self, text: &str) -> Result<(), HostError> {
        let mut comment = String::new();
        lines(&mut comment, "", text);
        comment.push('\n');
        Ok(self.out.write_all(comment.as_bytes())?)
    }
}

/// Write a field for each line of a text; lines end as the standard says: `\r\n`, `\n` or `\r`.
fn lines(text: &mut String, field: &str, value: &str) {
    for each in value.replace("\r\n", "\n").split(['\n', '\r']) {
        line(text, field, each);
    }
}

fn line(text: &mut String, field: &str, value: &str) {
    text.extend([field, ": ", value, "\n"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_several_lines_stays_one_event() {
        let event = Event::data("a\r\nb\rc\n").retry(Duration::from_millis(1500));
        assert_eq!(event.encode().unwrap(), "retry: 1500\ndata: a\ndata: b\ndata: c\ndata: \n\n");
    }

    #[test]
    fn a_name_can_not_smuggle_a_field() {
        let error = Event::data("x").name("a\ndata: b").encode().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, "the name of an event has a line break"));
    }
}
