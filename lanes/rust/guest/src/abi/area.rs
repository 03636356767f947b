//! The memory for results of the host that do not fit into one number.

use super::memory;

/// Large enough and aligned for every result of the used interfaces; offsets are those of the canonical ABI.
#[repr(C, align(8))]
pub(super) struct Area([u8; 64]);

impl Area {
    pub(super) fn new() -> Self {
        Self([0; 64])
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The case of a variant, a result or an option.
    pub(super) fn case(&self, offset: usize) -> u8 {
        self.0[offset]
    }

    pub(super) fn word(&self, offset: usize) -> u32 {
        u32::from_le_bytes([
            self.0[offset],
            self.0[offset + 1],
            self.0[offset + 2],
            self.0[offset + 3],
        ])
    }

    pub(super) fn long(&self, offset: usize) -> u64 {
        u64::from(self.word(offset)) | u64::from(self.word(offset + 4)) << 32
    }

    /// Take a `list<u8>`. Safety: the host wrote one here, and it was not taken yet.
    pub(super) unsafe fn bytes(&self, offset: usize) -> Vec<u8> {
        memory::list(self.word(offset), self.word(offset + 4))
    }

    /// Take a `string`. Safety: as for `bytes`.
    pub(super) unsafe fn string(&self, offset: usize) -> String {
        memory::string(self.word(offset), self.word(offset + 4))
    }

    /// Take an `option<string>`. Safety: as for `bytes`.
    pub(super) unsafe fn optional_string(&self, offset: usize) -> Option<String> {
        (self.case(offset) == 1).then(|| self.string(offset + 4))
    }
}
