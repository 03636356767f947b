//! Lists that the host wrote into this program's memory, by the `cabi_realloc` of std.

/// Take over a list of `count` items. Safety: the host allocated it for this type, and passed it once.
pub(super) unsafe fn list<T>(pointer: u32, count: u32) -> Vec<T> {
    if count == 0 {
        return Vec::new();
    }
    Vec::from_raw_parts(pointer as usize as *mut T, count as usize, count as usize)
}

/// Take over a string; strings of the canonical ABI are valid UTF-8. Safety: as for `list`.
pub(super) unsafe fn string(pointer: u32, count: u32) -> String {
    String::from_utf8_unchecked(list(pointer, count))
}
