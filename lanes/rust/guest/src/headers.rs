//! Header fields as they were received.

use crate::abi::fields::Fields;

/// Header fields of a request or a response, in order, including repeated ones. Names are lower-case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    pub(crate) fn of(fields: &Fields) -> Self {
        Self(fields.entries())
    }

    /// The first value of a header, ignoring the case of `name`; `None` also if it is not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_bytes(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The first value of a header as bytes.
    pub fn get_bytes(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Every value of a header.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> + '_ {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        let pair = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
        let headers = Headers(vec![pair("accept", b"a"), pair("x-odd", b"\xff"), pair("accept", b"b")]);
        assert_eq!(headers.get("Accept"), Some("a"));
        assert_eq!(headers.get_all("ACCEPT").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((headers.get("x-odd"), headers.get_bytes("x-odd")), (None, Some(&b"\xff"[..])));
        assert_eq!(headers.get("host"), None);
    }
}
