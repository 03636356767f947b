//! `fields` of `wasi:http/types`: header and trailer fields (RFC 9110 5).
//!
//! Names are lower-case; order and duplicates are preserved. Fields are stored as they cross to the host: name, 0,
//! value, 0 for each. The bytes of a value from 0x80 are the UTF-8 of latin-1.

use crate::list::{Bytes, List, part};
use crate::guest;
use crate::handles::{self, Resource, borrow, own};
use crate::host;
use crate::text::take;
use crate::{export, state};
use alloc::boxed::Box;
use alloc::rc::Rc;

/// Maximum size of one `fields` in bytes: names, values, and `OVERHEAD` for each field.
const MAX_BYTES: usize = 65_536;
const OVERHEAD: usize = 32;
/// Maximum size of all `fields` that the guest holds.
const MAX_HELD_BYTES: usize = 2 << 20;

/// Encoded fields: a part of the request's head, or shared by a message and its views.
#[derive(Clone)]
pub enum Block {
    Head(&'static [u8]),
    Own(Rc<Bytes>),
}

impl Block {
    pub fn new(encoded: Bytes) -> Self {
        Self::Own(Rc::new(encoded))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Head(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }

    fn entries(&self) -> Entries<'_> {
        Entries(self.bytes())
    }

    /// Returns the value of the last content-length, if there is one.
    pub fn declared_length(&self) -> Option<u64> {
        let last = self.entries().filter(|(name, _)| *name == b"content-length").last();
        last.map(|(_, value)| crate::text::decimal(value))
    }
}

/// Iterates over names and encoded values.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        Some((take(&mut self.0), take(&mut self.0)))
    }
}

/// A multimap of names to values. A view of a message has it as its `parent` and is immutable.
pub struct Fields {
    pub block: Block,
    size: usize,
    parent: u32,
}

#[derive(Clone, Copy)]
enum Invalid {
    Syntax,
    Forbidden,
    Immutable,
}

type Checked<T> = Result<T, Invalid>;

/// Returns a view of the fields of a message.
pub fn view(block: Block, parent: u32) -> u32 {
    handles::attach(parent);
    handles::insert(Resource::Fields(Box::new(Fields { block, size: 0, parent })))
}

/// Takes fields from the guest.
pub fn consume(handle: u32) -> Block {
    let fields = own!(handle, Fields);
    handles::detach(fields.parent);
    charge(fields.size, 0);
    fields.block
}

/// Replaces a number of bytes held for the guest by another. Traps above the limit.
fn charge(old: usize, new: usize) {
    let held = &mut state().fields_bytes;
    *held = *held + new - old;
    if *held > MAX_HELD_BYTES {
        crate::trap(b"it holds more than 2 MiB of header fields");
    }
}

fn too_large() -> Invalid {
    host::warn(b"header fields of more than 64 KiB were refused");
    Invalid::Syntax
}

const TOKEN: [u64; 2] = {
    let characters = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut set = [0_u64; 2];
    let mut at = 0;
    while at < characters.len() {
        set[(characters[at] >> 6) as usize] |= 1 << (characters[at] & 63);
        at += 1;
    }
    set
};

/// Returns whether a text is a valid method or field name (RFC 9110 5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| byte < 0x80 && TOKEN[(byte >> 6) as usize] >> (byte & 63) & 1 != 0)
}

/// Returns whether only the host sets a field of this name, because it belongs to a connection.
fn is_forbidden(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection"
            | b"host"
            | b"http2-settings"
            | b"keep-alive"
            | b"proxy-authenticate"
            | b"proxy-authorization"
            | b"proxy-connection"
            | b"transfer-encoding"
            | b"upgrade"
    )
}

/// The fields that a call of the guest builds, and their size. Above the limit they are checked, but not stored.
struct Builder {
    encoded: Bytes,
    size: usize,
}

impl Builder {
    fn with_capacity(capacity: usize) -> Self {
        Self { encoded: Bytes::with_capacity(capacity), size: 0 }
    }

    /// Appends a name of the guest, in lower case and ended by 0.
    fn name(&mut self, at: u32, count: u32) -> Checked<()> {
        let begin = self.encoded.len();
        if count as usize > MAX_BYTES {
            guest::check(at, count.into());
            return Err(too_large());
        }
        guest::append(&mut self.encoded, at, count as usize);
        let Some(name) = self.encoded.get_mut(begin..) else { crate::broken() };
        if !is_token(name) {
            guest::check_utf8(name);
            return Err(Invalid::Syntax);
        }
        name.make_ascii_lowercase();
        if is_forbidden(name) {
            return Err(Invalid::Forbidden);
        }
        self.encoded.push(0);
        Ok(())
    }

    /// Appends a value of the guest without blanks around it, encoded and ended by 0. The name begins at `name`.
    fn value(&mut self, name: usize, at: u32, count: u32) -> Checked<()> {
        if count as usize > MAX_BYTES {
            guest::check(at, count.into());
            return Err(too_large());
        }
        let begin = self.encoded.len();
        guest::append(&mut self.encoded, at, count as usize);
        trim(&mut self.encoded, begin);
        let value = part(&self.encoded, begin, self.encoded.len());
        let raw = value.len();
        let mut joined = 0;
        for byte in value {
            if *byte == 0x7f || (*byte < b' ' && *byte != b'\t') {
                return Err(Invalid::Syntax);
            }
            joined |= byte;
        }
        if part(&self.encoded, name, begin) == b"content-length\0" {
            let digits = value.iter().all(u8::is_ascii_digit);
            if !digits || !(1..=18).contains(&raw) {
                return Err(Invalid::Syntax);
            }
        }
        if joined >= 0x80 {
            self.encode(begin);
        }
        self.encoded.push(0);
        self.size += begin - 1 - name + raw + OVERHEAD;
        if self.size > MAX_BYTES {
            self.encoded.truncate(name);
        }
        Ok(())
    }

    /// Encodes the bytes from a position on.
    fn encode(&mut self, begin: usize) {
        let value = Bytes::from(part(&self.encoded, begin, self.encoded.len()));
        self.encoded.truncate(begin);
        for byte in value.iter() {
            if *byte < 0x80 {
                self.encoded.push(*byte);
            } else {
                self.encoded.extend(&[0xc0 | byte >> 6, byte & 0xbf]);
            }
        }
    }

    /// Appends a field that is encoded already.
    fn copy(&mut self, name: &[u8], value: &[u8]) {
        self.encoded.extend(name);
        self.encoded.push(0);
        self.encoded.extend(value);
        self.encoded.push(0);
        self.size += name.len() + decoded_size(value) + OVERHEAD;
    }

    /// Checks the size.
    fn finish(self) -> Checked<Self> {
        if self.size > MAX_BYTES { Err(too_large()) } else { Ok(self) }
    }

    /// Returns a new resource with these fields.
    fn resource(self) -> u32 {
        charge(0, self.size);
        let fields = Fields { block: Block::new(self.encoded), size: self.size, parent: 0 };
        handles::insert(Resource::Fields(Box::new(fields)))
    }
}

/// Removes blanks around the bytes from a position on.
fn trim(bytes: &mut Bytes, begin: usize) {
    let blank = |bytes: &Bytes, at: usize| matches!(bytes.get(at), Some(b' ' | b'\t'));
    let (mut first, mut end) = (begin, bytes.len());
    while end > begin && blank(bytes, end - 1) {
        end -= 1;
    }
    while first < end && blank(bytes, first) {
        first += 1;
    }
    bytes.truncate(end);
    if first > begin {
        bytes.remove(begin, first);
    }
}

/// Returns the number of bytes of an encoded value.
fn decoded_size(value: &[u8]) -> usize {
    if value.is_ascii() {
        return value.len();
    }
    value.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Copies a value to new memory of the guest; returns its address and size.
fn give_value(value: &[u8]) -> [u32; 2] {
    if value.is_ascii() {
        return [guest::give(value), value.len() as u32];
    }
    let mut decoded = Bytes::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(&byte) = rest.next() {
        let low = if byte < 0x80 { None } else { rest.next() };
        decoded.push(low.map_or(byte, |low| byte << 6 | low & 0x3f));
    }
    [guest::give(&decoded), decoded.len() as u32]
}

impl Fields {
    /// Returns the encoded bytes for a change.
    fn mutable(&mut self) -> Checked<&mut Bytes> {
        match &mut self.block {
            Block::Own(bytes) if self.parent == 0 => Rc::get_mut(bytes).ok_or(Invalid::Immutable),
            _ => Err(Invalid::Immutable),
        }
    }

    /// Replaces all fields.
    fn replace(&mut self, built: Builder) -> Checked<()> {
        let built = built.finish()?;
        charge(self.size, built.size);
        self.size = built.size;
        self.block = Block::new(built.encoded);
        Ok(())
    }

    /// Replaces the values of a name of the guest.
    fn set(&mut self, at: u32, count: u32, values: u32, values_count: u32) -> Checked<()> {
        self.mutable()?;
        let mut name = Builder::with_capacity(32);
        name.name(at, count)?;
        let name = name.encoded;
        guest::check(values, 8 * u64::from(values_count));
        let mut added = Builder::with_capacity(64);
        for index in 0..values_count {
            let (value, size) = guest::pair(values + 8 * index);
            let begin = added.encoded.len();
            added.encoded.extend(&name);
            added.value(begin, value, size)?;
        }
        let mut built = Builder::with_capacity(self.block.bytes().len() + added.encoded.len());
        for (key, value) in self.block.entries() {
            if key != part(&name, 0, name.len() - 1) {
                built.copy(key, value);
            }
        }
        built.encoded.extend(&added.encoded);
        built.size += added.size;
        self.replace(built)
    }

    fn append(&mut self, at: u32, count: u32, value: u32, value_count: u32) -> Checked<()> {
        self.mutable()?;
        let mut added = Builder::with_capacity(64);
        added.name(at, count)?;
        added.value(0, value, value_count)?;
        let size = self.size + added.size;
        if size > MAX_BYTES {
            return Err(too_large());
        }
        charge(self.size, size);
        self.size = size;
        self.mutable()?.extend(&added.encoded);
        Ok(())
    }
}

/// Returns a name of the guest in lower case, for a comparison.
fn wanted(at: u32, count: u32) -> Bytes {
    if count as usize > MAX_BYTES {
        guest::check(at, count.into());
        return Bytes::from(&b"\0"[..]);
    }
    let mut name = guest::string(at, count);
    name.make_ascii_lowercase();
    name
}

fn store_result(result: u32, outcome: Checked<()>) {
    match outcome {
        Ok(()) => guest::store8(result, 0),
        Err(error) => {
            guest::store8(result, 1);
            guest::store8(result + 1, error as u32);
        }
    }
}

export! {
    "wasi:http/types#[constructor]fields"
    fn fields_new() -> u32 {
        Builder::with_capacity(0).resource()
    }

    "wasi:http/types#[static]fields.from-list"
    fn fields_from_list(entries: u32, count: u32, result: u32) {
        guest::check(entries, 16 * u64::from(count));
        let mut built = Builder::with_capacity(64 * count.min(32) as usize);
        let mut build = || {
            for index in 0..count {
                let entry = entries + 16 * index;
                let begin = built.encoded.len();
                let (name, name_size) = guest::pair(entry);
                built.name(name, name_size)?;
                let (value, value_size) = guest::pair(entry + 8);
                built.value(begin, value, value_size)?;
            }
            Ok(())
        };
        match build().and_then(|()| built.finish()) {
            Ok(built) => guest::store_ok_handle(result, built.resource()),
            Err(error) => {
                guest::store8(result, 1);
                guest::store8(result + 4, error as u32);
            }
        }
    }

    "wasi:http/types#[method]fields.get"
    fn fields_get(fields: u32, name: u32, size: u32, result: u32) {
        let block = borrow!(fields, Fields).block.clone();
        let name = wanted(name, size);
        let matching = || block.entries().filter(|(key, _)| *key == &name[..]);
        let count = matching().count();
        if count == 0 {
            return guest::store_empty(result, 4);
        }
        let list = guest::allocate(4, 8 * count);
        let mut words = List::with_capacity(2 * count);
        for (_, value) in matching() {
            words.extend(&give_value(value));
        }
        guest::give_words(&words, list);
        guest::store_list(result, list, count);
    }

    "wasi:http/types#[method]fields.has"
    fn fields_has(fields: u32, name: u32, size: u32) -> u32 {
        let block = &borrow!(fields, Fields).block;
        let name = wanted(name, size);
        block.entries().any(|(key, _)| key == &name[..]).into()
    }

    "wasi:http/types#[method]fields.set"
    fn fields_set(fields: u32, name: u32, size: u32, values: u32, count: u32, result: u32) {
        store_result(result, borrow!(fields, Fields).set(name, size, values, count));
    }

    "wasi:http/types#[method]fields.delete"
    fn fields_delete(fields: u32, name: u32, size: u32, result: u32) {
        store_result(result, borrow!(fields, Fields).set(name, size, 0, 0));
    }

    "wasi:http/types#[method]fields.append"
    fn fields_append(fields: u32, name: u32, size: u32, value: u32, value_size: u32, result: u32) {
        store_result(result, borrow!(fields, Fields).append(name, size, value, value_size));
    }

    "wasi:http/types#[method]fields.entries"
    fn fields_entries(fields: u32, result: u32) {
        let block = borrow!(fields, Fields).block.clone();
        let count = block.entries().count();
        if count == 0 {
            return guest::store_empty(result, 4);
        }
        let list = guest::allocate(4, 16 * count);
        let mut words = List::with_capacity(4 * count);
        for (name, value) in block.entries() {
            words.extend(&[guest::give(name), name.len() as u32]);
            words.extend(&give_value(value));
        }
        guest::give_words(&words, list);
        guest::store_list(result, list, count);
    }

    "wasi:http/types#[method]fields.clone"
    fn fields_clone(fields: u32) -> u32 {
        let block = &borrow!(fields, Fields).block;
        let mut size = 0;
        for (name, value) in block.entries() {
            size += name.len() + decoded_size(value) + OVERHEAD;
        }
        let built = Builder { encoded: block.bytes().into(), size };
        match built.finish() {
            Ok(built) => built.resource(),
            Err(_) => crate::trap(b"header fields of more than 64 KiB were cloned"),
        }
    }

    "drop#fields"
    fn fields_drop(handle: u32) {
        consume(handle);
    }
}
