//! Parameters of statements.

use std::fmt::Write;
use std::time::SystemTime;

use super::base64;
use super::time;
use super::value::Value;
use crate::json::Value as _;

/// A parameter: a text, a number, a boolean, bytes, a [`SystemTime`], a [`Value`], an option of these, where
/// `None` is null. A list of parameters is made with `params!`.
pub trait Param {
    /// Append it as JSON. An error completes the text "parameter $1".
    ///
    /// # Errors
    ///
    /// If no column can store it.
    fn write(&self, json: &mut String) -> Result<(), String>;
}

/// A list of parameters, `$1` first; they are borrowed.
#[doc(hidden)]
#[macro_export]
macro_rules! __params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::tables::Param),*] as &[&dyn $crate::tables::Param]
    };
}

macro_rules! as_they_are {
    ($($type:ty)*) => {$(
        impl Param for $type {
            fn write(&self, json: &mut String) -> Result<(), String> {
                self.write_json(json);
                Ok(())
            }
        }
    )*};
}

as_they_are!(str String char bool i8 i16 i32 i64 isize u8 u16 u32);

macro_rules! wide {
    ($($type:ty)*) => {$(
        impl Param for $type {
            fn write(&self, json: &mut String) -> Result<(), String> {
                let value = i64::try_from(*self);
                value.map_err(|_| format!("is {self}, which is more than an integer holds"))?.write(json)
            }
        }
    )*};
}

wide!(u64 usize i128 u128);

impl Param for f64 {
    fn write(&self, json: &mut String) -> Result<(), String> {
        if !self.is_finite() {
            return Err(format!("is {self}, which no column holds"));
        }
        self.write_json(json);
        Ok(())
    }
}

impl Param for f32 {
    fn write(&self, json: &mut String) -> Result<(), String> {
        f64::from(*self).write(json)
    }
}

impl Param for [u8] {
    fn write(&self, json: &mut String) -> Result<(), String> {
        write!(json, "{{\"base64\":\"{}\"}}", base64::encode(self)).map_err(|error| error.to_string())
    }
}

impl Param for Vec<u8> {
    fn write(&self, json: &mut String) -> Result<(), String> {
        self.as_slice().write(json)
    }
}

impl<const N: usize> Param for [u8; N] {
    fn write(&self, json: &mut String) -> Result<(), String> {
        self.as_slice().write(json)
    }
}

impl Param for SystemTime {
    fn write(&self, json: &mut String) -> Result<(), String> {
        time::iso(*self).ok_or("is a time that no timestamp holds")?.write(json)
    }
}

impl Param for Value {
    /// Arrays and objects are sent as JSON text.
    fn write(&self, json: &mut String) -> Result<(), String> {
        match self {
            Self::Null => json.push_str("null"),
            Self::Boolean(value) => value.write_json(json),
            Self::Integer(value) => value.write_json(json),
            Self::Real(value) => return value.write(json),
            Self::Text(value) => value.write_json(json),
            Self::Blob(value) => return value.write(json),
            Self::Array(_) | Self::Object(_) => self.to_string().write_json(json),
        }
        Ok(())
    }
}

impl<T: Param + ?Sized> Param for &T {
    fn write(&self, json: &mut String) -> Result<(), String> {
        (**self).write(json)
    }
}

impl<T: Param> Param for Option<T> {
    fn write(&self, json: &mut String) -> Result<(), String> {
        match self {
            Some(value) => value.write(json),
            None => {
                json.push_str("null");
                Ok(())
            }
        }
    }
}
