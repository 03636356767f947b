//! The tables' error for a rejected statement.

use std::error::Error as StdError;
use std::fmt;

use super::read::document;
use super::value::Value;

/// The tables' error for a rejected statement; see [`HostError::refusal`](crate::HostError::refusal).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusal {
    status: u16,
    code: String,
    constraint: String,
    title: String,
    detail: String,
    hint: String,
    position: Option<usize>,
    statement: Option<usize>,
}

impl Refusal {
    /// Read a problem document (RFC 9457).
    pub(super) fn of(status: u16, text: &str) -> Self {
        let problem = document(text).unwrap_or(Value::Null);
        let text = |name| match problem.get(name) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let number = |name| match problem.get(name) {
            Some(&Value::Integer(number)) => usize::try_from(number).ok(),
            _ => None,
        };
        let mut refusal = Self {
            status,
            code: text("code"),
            constraint: text("constraint"),
            title: text("title"),
            detail: text("detail"),
            hint: text("hint"),
            position: number("position"),
            statement: number("statement"),
        };
        if refusal.title.is_empty() {
            refusal.title = format!("the response has status {status}");
        }
        refusal
    }

    /// The HTTP status of the response: 4xx for errors of the program.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The kind of error: `sql-error`, `constraint`, `bad-parameters` and so on.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The rule that a row breaks, when the code is `constraint`: `unique`, `primary-key`, `not-null`, `check`,
    /// `foreign-key`, `type` or `trigger`; otherwise an empty string.
    pub fn constraint(&self) -> &str {
        &self.constraint
    }

    /// A description of the error: SQLite's message, if SQLite rejected the statement.
    pub fn message(&self) -> &str {
        if self.detail.is_empty() {
            &self.title
        } else {
            &self.detail
        }
    }

    /// The remedy, if there is one.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The position in the SQL, in characters from 1.
    pub fn position(&self) -> Option<usize> {
        self.position
    }

    /// The index of the statement in a batch, from 0.
    pub fn statement(&self) -> Option<usize> {
        self.statement
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tables: {}", self.message())?;
        if let Some(statement) = self.statement {
            write!(f, ", in statement {}", statement + 1)?;
        }
        if let Some(position) = self.position {
            write!(f, ", at position {position} of the SQL")?;
        }
        Ok(())
    }
}

impl StdError for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_position() {
        let refusal =
            Refusal::of(400, r#"{"title":"t","detail":"no such column: x","code":"sql","position":7}"#);
        assert_eq!(refusal.to_string(), "tables: no such column: x, at position 7 of the SQL");
        assert_eq!((refusal.code(), refusal.position(), refusal.statement()), ("sql", Some(7), None));
        assert_eq!(Refusal::of(502, "<html>").to_string(), "tables: the response has status 502");
    }
}
