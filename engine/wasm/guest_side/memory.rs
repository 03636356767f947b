//! The allocator, in a memory of at most 4 MiB that belongs to the library alone.
//!
//! Blocks have size classes: multiples of 16 bytes up to 128, four classes for each doubling up to 2 KiB, and powers of
//! two above. Free blocks of a class are a list; they are never joined. The newest block grows and shrinks in place.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::ptr::null_mut;

const PAGE: usize = 65536;
const MAX_PAGES: usize = 64;
/// Pages for the last call of a run that has used up all others.
const RESERVED_PAGES: usize = 2;
const SMALL: usize = 128;
const SMALL_CLASSES: usize = SMALL / 16;
/// Largest block of four classes for each doubling: 128 shifted by 4.
const MEDIUM: usize = SMALL << 4;
const MEDIUM_CLASSES: usize = SMALL_CLASSES + 4 * 4;
const CLASSES: usize = MEDIUM_CLASSES + 11;
const LARGEST: usize = 4 << 20;
/// Bytes at the end of memory that no block gets: packing reads, and unpacking writes, whole blocks.
const SLACK: usize = 64;

struct Heap {
    next: usize,
    end: usize,
    free: [usize; CLASSES],
}

unsafe extern "C" {
    static __heap_base: u8;
}

static mut HEAP: Heap = Heap { next: 0, end: 0, free: [0; CLASSES] };

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Returns the class of a size and the size of its blocks.
#[inline]
const fn class(size: usize) -> (usize, usize) {
    if size <= SMALL {
        let sixteens = size.saturating_sub(1) / 16;
        return (sixteens, (sixteens + 1) * 16);
    }
    let log = (size - 1).ilog2() as usize;
    if size > MEDIUM {
        return (MEDIUM_CLASSES + log - MEDIUM.ilog2() as usize, 2 << log);
    }
    let step = log - 2;
    let part = (size - 1) >> step;
    (SMALL_CLASSES + 4 * (log - 7) + part - 4, (part + 1) << step)
}

impl Heap {
    /// Returns the first free block of a class, or 0.
    fn head(&mut self, class: usize) -> &mut usize {
        match self.free.get_mut(class) {
            Some(head) => head,
            None => crate::broken(),
        }
    }

    #[inline(never)]
    unsafe fn allocate(&mut self, size: usize) -> *mut u8 {
        if size > LARGEST {
            return null_mut();
        }
        let (class, size) = class(size);
        let head = self.head(class);
        let block = *head;
        if block != 0 {
            *head = unsafe { *(block as *const usize) };
            return block as *mut u8;
        }
        if !self.reserve(size) {
            return unsafe { self.larger(class) };
        }
        let block = self.next;
        self.next = block + size;
        block as *mut u8
    }

    #[inline(never)]
    #[cold]
    /// Makes `size` bytes available at `next`, and returns whether that was possible.
    fn reserve(&mut self, size: usize) -> bool {
        if self.next == 0 {
            self.next = (&raw const __heap_base as usize).next_multiple_of(16);
            self.end = memory_size(0) * PAGE - SLACK;
        }
        if self.end.saturating_sub(self.next) >= size {
            return true;
        }
        if memory_size(0) * PAGE != self.end + SLACK {
            // A result of the host took the pages after the end.
            self.next = memory_size(0) * PAGE;
            self.end = self.next - SLACK;
        }
        let pages = (self.next + size).saturating_sub(self.end).div_ceil(PAGE);
        let reserved = if crate::is_trapping() { 0 } else { RESERVED_PAGES };
        if memory_size(0) + pages + reserved > MAX_PAGES || memory_grow(0, pages) == usize::MAX {
            return false;
        }
        self.end += pages * PAGE;
        true
    }

    /// Makes `size` bytes available after the newest block, and returns whether that was possible.
    fn reserve_after(&mut self, size: usize) -> bool {
        let next = self.next;
        self.reserve(size) && self.next == next
    }

    /// Returns a free block of a larger class, or null.
    unsafe fn larger(&mut self, class: usize) -> *mut u8 {
        for head in self.free.iter_mut().skip(class + 1) {
            let block = *head;
            if block != 0 {
                *head = unsafe { *(block as *const usize) };
                return block as *mut u8;
            }
        }
        null_mut()
    }

    #[inline(never)]
    unsafe fn free(&mut self, block: usize, size: usize) {
        let (class, size) = class(size);
        if block + size == self.next {
            self.next = block;
            return;
        }
        let head = self.head(class);
        unsafe { *(block as *mut usize) = *head };
        *head = block;
    }
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { (*(&raw mut HEAP)).allocate(layout.size()) };
        if block.is_null() {
            crate::trap(b"it holds more streams, fields and pollables than fit into 4 MiB");
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { (*(&raw mut HEAP)).free(block as usize, layout.size()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, wanted: usize) -> *mut u8 {
        let (old_class, old) = class(layout.size());
        let (new_class, new) = class(wanted);
        if old_class == new_class {
            return block;
        }
        let heap = unsafe { &mut *(&raw mut HEAP) };
        // A free block is used first: the memory would grow with every block that grows.
        let newest = wanted <= LARGEST && block as usize + old == heap.next && *heap.head(new_class) == 0;
        if newest && (new <= old || heap.reserve_after(new - old)) {
            heap.next = block as usize + new;
            return block;
        }
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(wanted, layout.align()));
            moved.copy_from_nonoverlapping(block, layout.size().min(wanted));
            self.dealloc(block, layout);
            moved
        }
    }
}

/// Returns a block that is never freed.
pub fn block(size: usize) -> *mut u8 {
    unsafe { ALLOCATOR.alloc(Layout::from_size_align_unchecked(size, 16)) }
}

/// Gives the allocator pages that the host's result was written to.
pub fn adopt(block: usize, size: usize) {
    let (mut block, mut left) = (block, size);
    while left >= SMALL {
        // The largest class that fits: halves and quarters suffice, the rest is lost.
        let fitting = 1 << left.ilog2();
        unsafe { (*(&raw mut HEAP)).free(block, fitting) };
        block += fitting;
        left -= fitting;
    }
}

/// Allocates the block in which the head of the request arrives.
#[unsafe(export_name = "realloc")]
extern "C" fn realloc(old: *mut u8, old_size: usize, _align: usize, size: usize) -> *mut u8 {
    unsafe {
        if old_size == 0 {
            return block(size);
        }
        ALLOCATOR.realloc(old, Layout::from_size_align_unchecked(old_size, 16), size.max(1))
    }
}

/// Compares bytes; the compiler calls it for slices.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        let (a, b) = unsafe { (*left.add(at), *right.add(at)) };
        if a != b {
            return a as i32 - b as i32;
        }
        at += 1;
    }
    0
}
