//! Access to the guest: functions of the generated module, at fixed places of the library's table.
//!
//! An address outside of the guest's memory traps there. Results of WASI functions are written in the layout of the
//! canonical ABI.

use crate::list::{Bytes, List};
use crate::Phase;
use core::mem::transmute;

macro_rules! slots {
    ($($index:literal $name:ident($($parameter:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod slots {
            use super::transmute;
            $(#[inline(always)]
            pub fn $name($($parameter: $type),*) $(-> $result)? {
                let function: extern "C" fn($($type),*) $(-> $result)? =
                    unsafe { transmute::<usize, _>($index) };
                function($($parameter),*)
            })*
        }
    };
}

slots! {
    1 load8(at: u32) -> u32;
    2 load32(at: u32) -> u32;
    3 store8(at: u32, value: u32);
    4 store32(at: u32, value: u32);
    5 store64(at: u32, value: u64);
    7 copy_in(to: *mut u8, from: u32, count: usize);
    8 copy_out(to: u32, from: *const u8, count: usize);
    9 allocate(align: u32, size: u32) -> u32;
    10 handle(request: u32, outparam: u32);
    11 pages() -> u32;
    12 pack_in(from: u32, to: *mut u8, count: usize) -> *mut u8;
    13 unpack_out(from: *const u8, to: u32, count: usize);
    14 ascii(at: u32, count: usize) -> u32;
    15 pack_own(from: *const u8, to: *mut u8, count: usize) -> *mut u8;
    16 unpack_own(from: *const u8, to: *mut u8, count: usize);
}

pub use slots::{copy_in, handle, pack_in, pack_own, pages, store8, store32, store64, unpack_out, unpack_own};

/// Returns whether all bytes of a range are below 0x80.
pub fn is_ascii(at: u32, count: usize) -> bool {
    slots::ascii(at, count) != 0
}

pub fn copy_out(to: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        slots::copy_out(to, bytes.as_ptr(), bytes.len());
    }
}

/// Traps if a range is not in the guest's memory.
pub fn check(at: u32, size: u64) {
    if size > 0 {
        let last = u64::from(at) + size - 1;
        if last > u32::MAX.into() {
            crate::trap(b"an address is out of bounds");
        }
        slots::load8(last as u32);
    }
}

/// Appends bytes of the guest.
pub fn append(buffer: &mut Bytes, from: u32, count: usize) {
    if count > 0 {
        buffer.extend_with(count, |to| copy_in(to, from, count));
    }
}

/// Returns bytes of the guest.
pub fn bytes(from: u32, count: u32) -> Bytes {
    check(from, count.into());
    let mut result = List::new();
    append(&mut result, from, count as usize);
    result
}

/// Returns a string of the guest. Traps if it is not UTF-8.
pub fn string(from: u32, count: u32) -> Bytes {
    let result = bytes(from, count);
    check_utf8(&result);
    result
}

pub fn check_utf8(text: &[u8]) {
    if !text.is_ascii() && core::str::from_utf8(text).is_err() {
        crate::trap(b"a string is not valid UTF-8");
    }
}

/// Returns two words at an address: the address and the length of a string or list.
pub fn pair(at: u32) -> (u32, u32) {
    (slots::load32(at), slots::load32(at + 4))
}

/// Returns a list of words, such as handles.
pub fn words(from: u32, count: u32) -> List<u32> {
    let mut result = List::<u32>::with_capacity(count as usize);
    if count > 0 {
        let count = count as usize;
        result.extend_with(count, |to| copy_in(to.cast(), from, 4 * count));
    }
    result
}

/// Allocates memory of the guest, also of no bytes. It must not call WASI meanwhile.
pub fn allocate(align: u32, size: usize) -> u32 {
    crate::set_phase(Phase::Allocating);
    let at = slots::allocate(align, size as u32);
    crate::set_phase(Phase::Running);
    at
}

/// Copies bytes to new memory of the guest and returns their address.
pub fn give(bytes: &[u8]) -> u32 {
    let at = allocate(1, bytes.len());
    copy_out(at, bytes);
    at
}

/// Stores a string or a `list<u8>` at an address.
pub fn store_bytes(at: u32, bytes: &[u8]) {
    store_list(at, give(bytes), bytes.len());
}

/// Stores an empty list at an address. Its memory is allocated too, because guests release it.
pub fn store_empty(at: u32, align: u32) {
    store_list(at, allocate(align, 0), 0);
}

/// Stores address and length of a list at an address.
pub fn store_list(at: u32, items: u32, count: usize) {
    store32(at, items);
    store32(at + 4, count as u32);
}

/// Stores a list of strings, and lists of structures of strings: `words` has an address and a length for each.
pub fn give_words(words: &[u32], at: u32) {
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), 4 * words.len()) };
    copy_out(at, bytes);
}

/// Stores an `option<string>` that is present.
pub fn store_some_bytes(at: u32, bytes: &[u8]) {
    store8(at, 1);
    store_bytes(at + 4, bytes);
}

/// Stores an `option<string>`.
pub fn store_optional_bytes(at: u32, bytes: Option<&[u8]>) {
    match bytes {
        None => store8(at, 0),
        Some(bytes) => store_some_bytes(at, bytes),
    }
}

/// Stores a `result` whose ok value is a handle 4 bytes further on.
pub fn store_ok_handle(at: u32, handle: u32) {
    store8(at, 0);
    store32(at + 4, handle);
}
