//! The tables of the project: SQL without a connection to open or a secret to set.
//!
//! ```no_run
//! use svc_guest::tables::{self, params};
//! use svc_guest::Result;
//!
//! tables::row! {
//!     struct User {
//!         id: i64,
//!         name: String,
//!     }
//! }
//!
//! fn rename(id: i64, name: &str) -> Result<Option<User>> {
//!     tables::exec("update users set name = $2 where id = $1", params![id, name])?;
//!     let users = tables::query_as("select id, name from users where id = $1", params![id])?;
//!     Ok(users.into_iter().next())
//! }
//! ```
//!
//! The dialect is SQLite's. Parameters are `$1`, `$2` and so on, in any order and as often as needed, or `?`. SQL is
//! text in the program's source, so user input can never become SQL; [`Sql::made`] permits SQL that
//! is built at run time, and is visible at the call.

mod response;
pub(crate) mod base64;
mod param;
mod read;
mod refusal;
mod row;
mod time;
mod value;

use crate::client;
use crate::door;
use crate::error::{ErrorKind, HostError, Result};
use crate::json::Value as _;

pub use crate::__params as params;
pub use crate::__row as row;
pub use param::Param;
pub(crate) use read::document;
pub use refusal::Refusal;
pub use row::{to_json, FromRow, Row};
pub use value::{FromValue, Value};

/// SQL. A `&'static str`, a literal for instance, converts to it implicitly.
#[derive(Clone, Debug)]
pub struct Sql(std::borrow::Cow<'static, str>);

impl Sql {
    /// Accept SQL that is built at run time: a choice of columns, an order. Values belong into
    /// parameters.
    pub fn made(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self(text.into())
    }
}

/// The result of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The number of rows that were inserted, updated or deleted.
    pub changes: u64,
    /// The rowid of the last inserted row, or 0.
    pub last_id: i64,
    /// The rows of a `RETURNING` clause, or of a query in a batch.
    pub rows: Vec<Row>,
}

/// One of the statements of a [`batch`].
#[derive(Clone, Debug)]
pub struct Statement(std::result::Result<String, String>);

impl Statement {
    /// A statement and its parameters.
    pub fn new(sql: impl Into<Sql>, params: &[&dyn Param]) -> Self {
        Self(written(&sql.into(), params))
    }
}

/// Options of a request: `Options::default().stale_ok(true).query(…)`. Its methods are the functions of this module.
#[derive(Clone, Debug, Default)]
pub struct Options(String);

impl Options {
    /// Apply a write once: a repeated request with this key, at most 255 characters, gets the stored answer.
    #[must_use]
    pub fn idempotency_key(mut self, key: &str) -> Self {
        self.0.push_str(",\"idempotency_key\":");
        key.write_json(&mut self.0);
        self
    }

    /// Whether a read may miss the last writes of other machines of a fleet, instead of waiting for them.
    #[must_use]
    pub fn stale_ok(mut self, stale_ok: bool) -> Self {
        self.0 += &format!(",\"stale_ok\":{stale_ok}");
        self
    }

    /// See [`query()`].
    pub fn query(&self, sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Vec<Row>, HostError> {
        response::rows(&self.ask("/v1/query", written(&sql.into(), params))?).map_err(unreadable)
    }

    /// See [`query_as()`].
    pub fn query_as<T: FromRow>(
        &self,
        sql: impl Into<Sql>,
        params: &[&dyn Param],
    ) -> Result<Vec<T>, HostError> {
        self.query(sql, params)?.into_iter().map(T::from_row).collect()
    }

    /// See [`exec()`].
    pub fn exec(&self, sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Outcome, HostError> {
        response::outcome(&self.ask("/v1/exec", written(&sql.into(), params))?).map_err(unreadable)
    }

    /// See [`batch()`].
    pub fn batch(&self, statements: impl IntoIterator<Item = Statement>) -> Result<Vec<Outcome>, HostError> {
        let all: std::result::Result<Vec<String>, String> = statements
            .into_iter()
            .enumerate()
            .map(|(at, statement)| statement.0.map_err(|error| format!("statement {}: {error}", at + 1)))
            .collect();
        let body = all.map(|all| format!("{{\"statements\":[{}]}}", all.join(",")));
        response::outcomes(&self.ask("/v1/batch", body)?).map_err(unreadable)
    }

    fn ask(&self, path: &str, body: std::result::Result<String, String>) -> Result<String, HostError> {
        let mut body = body.map_err(|error| HostError::new(ErrorKind::Invalid, error))?;
        body.insert_str(body.len() - 1, &self.0);
        let mut response = client::post(door::endpoint("SVC_TABLES_ENDPOINT")? + path).json(body).send()?;
        let text = response.text()?;
        match response.status() {
            200 => Ok(text),
            status => Err(HostError::refused(Refusal::of(status, &text))),
        }
    }
}

/// Return the rows of a query.
///
/// # Errors
///
/// [`ErrorKind::Refused`] for a rejected statement, with a [`HostError::refusal`].
pub fn query(sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Vec<Row>, HostError> {
    Options::default().query(sql, params)
}

/// Return the rows of a query as values of a type, of `row!` for instance.
///
/// # Errors
///
/// As for [`query`], and [`ErrorKind::Invalid`] for a column that is missing or does not fit.
pub fn query_as<T: FromRow>(sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Vec<T>, HostError> {
    query(sql, params)?.into_iter().map(T::from_row).collect()
}

/// Rows as lists of values. `columns` has their names, which may repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
}

/// Return the rows of a query as lists of values, for joins whose columns share a name.
///
/// # Errors
///
/// As for [`query`].
#[track_caller]
pub fn query_arrays(sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Arrays> {
    let statement = written(&sql.into(), params);
    let body = statement.map(|json| format!("{},\"rows\":\"arrays\"}}", &json[..json.len() - 1]));
    Ok(response::arrays(&Options::default().ask("/v1/query", body)?)?)
}

/// Run a statement that writes. When it returns without an error, the changes are on the disk.
///
/// # Errors
///
/// As for [`query`].
pub fn exec(sql: impl Into<Sql>, params: &[&dyn Param]) -> Result<Outcome, HostError> {
    Options::default().exec(sql, params)
}

/// Run statements in one transaction: all of them, or none. Returns a result for each.
///
/// ```no_run
/// use svc_guest::tables::{self, params, Statement};
///
/// fn transfer(from: i64, to: i64, cents: i64) -> svc_guest::Result<()> {
///     tables::batch([
///         Statement::new("update accounts set cents = cents - $1 where id = $2", params![cents, from]),
///         Statement::new("update accounts set cents = cents + $1 where id = $2", params![cents, to]),
///     ])?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As for [`query`].
pub fn batch(statements: impl IntoIterator<Item = Statement>) -> Result<Vec<Outcome>, HostError> {
    Options::default().batch(statements)
}

/// Write a statement as JSON; the error names the parameter that cannot be sent.
fn written(sql: &Sql, params: &[&dyn Param]) -> std::result::Result<String, String> {
    let mut json = String::with_capacity(sql.0.len() + 32 + 16 * params.len());
    json.push_str("{\"sql\":");
    sql.0.write_json(&mut json);
    json.push_str(",\"params\":[");
    for (at, param) in params.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        param.write(&mut json).map_err(|error| format!("parameter ${} {error}", at + 1))?;
    }
    json.push_str("]}");
    Ok(json)
}

fn unreadable(message: &str) -> HostError {
    HostError::new(ErrorKind::Other, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_one_json_document() {
        let sql = "select $1, \"a\"";
        let statement = Statement::new(sql, params![1, "ü\"", None::<bool>, 2.0, vec![1_u8, 2]]);
        let json = r#"{"sql":"select $1, \"a\"","params":[1,"ü\"",null,2.0,{"base64":"AQI="}]}"#;
        assert_eq!(statement.0.unwrap(), json);
        assert_eq!(
            Statement::new(Sql::made(String::new()), params![]).0.unwrap(),
            r#"{"sql":"","params":[]}"#
        );
    }

    #[test]
    fn an_invalid_parameter_is_named_by_its_number() {
        let statement = Statement::new("select $1, $2", params![1, f64::NAN]);
        assert_eq!(statement.0.unwrap_err(), "parameter $2 is NaN, which no column holds");
        let error = batch([Statement::new("select $1", params![u64::MAX])]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with("statement 1: parameter $1 is 18446744073709551615"));
    }
}
