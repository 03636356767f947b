//! Percent-encoding (RFC 3986, 2.1) and query parameters (WHATWG URL, 5.1).

/// The first value of a query parameter, decoded.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(key, _)| decode(key, true) == name)
        .map(|(_, value)| decode(value, true))
}

/// Decode `%XX`, and `+` as a space in a query. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3).and_then(byte)).flatten();
        match code {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(if plus && bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(digits[at]).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = "a=1&na%6De=J%C3%BCrgen+M&b&a=2&=x";
        let found = |name| parameter(query, name);
        assert_eq!(found("name").as_deref(), Some("Jürgen M"));
        assert_eq!((found("a").as_deref(), found("b").as_deref()), (Some("1"), Some("")));
        assert_eq!((found("c"), parameter("", "a")), (None, None));
    }

    #[test]
    fn what_is_no_code_stays() {
        assert_eq!(decode("100%", true), "100%");
        assert_eq!(decode("%zz%4", true), "%zz%4");
        assert_eq!(decode("%+1+", false), "%+1+");
        assert_eq!(decode("%ff", true), "\u{fffd}");
        assert_eq!(decode("%ü", true), "%ü");
    }
}
