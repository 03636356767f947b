//! A growing array. Unlike `alloc::vec::Vec` it has no way to panic, so no texts of panics are in the library.

use crate::broken;
use alloc::alloc::{alloc, dealloc, realloc};
use core::alloc::Layout;
use core::mem::needs_drop;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::slice::{from_raw_parts, from_raw_parts_mut};

const FIRST_CAPACITY: usize = 8;

pub struct List<T> {
    at: NonNull<T>,
    size: usize,
    capacity: usize,
}

pub type Bytes = List<u8>;

impl<T> List<T> {
    pub const fn new() -> Self {
        Self { at: NonNull::dangling(), size: 0, capacity: 0 }
    }

    pub fn with_capacity(capacity: usize) -> Self {
        let mut list = Self::new();
        list.resize_to(capacity);
        list
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn layout(capacity: usize) -> Layout {
        match Layout::array::<T>(capacity) {
            Ok(layout) => layout,
            Err(_) => broken(),
        }
    }

    /// Gives the list a larger capacity. The allocator traps when it has no memory.
    fn resize_to(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let layout = Self::layout(capacity);
        let block = if self.capacity == 0 {
            unsafe { alloc(layout) }
        } else {
            unsafe { realloc(self.at.as_ptr().cast(), Self::layout(self.capacity), layout.size()) }
        };
        let Some(at) = NonNull::new(block.cast()) else { broken() };
        (self.at, self.capacity) = (at, capacity);
    }

    /// Makes room for more items, in proportion to those that exist.
    pub fn reserve(&mut self, more: usize) {
        let wanted = self.size.saturating_add(more);
        if wanted > self.capacity {
            self.resize_to(wanted.max(2 * self.capacity).max(FIRST_CAPACITY));
        }
    }

    pub fn push(&mut self, item: T) {
        self.reserve(1);
        unsafe { self.at.as_ptr().add(self.size).write(item) };
        self.size += 1;
    }

    /// Appends `count` items that `fill` writes to an address.
    pub fn extend_with(&mut self, count: usize, fill: impl FnOnce(*mut T)) {
        self.reserve(count);
        fill(unsafe { self.at.as_ptr().add(self.size) });
        self.size += count;
    }

    /// Removes all but the first items.
    pub fn truncate(&mut self, size: usize) {
        while self.size > size {
            self.size -= 1;
            if needs_drop::<T>() {
                unsafe { ptr::drop_in_place(self.at.as_ptr().add(self.size)) };
            } else {
                self.size = size;
            }
        }
    }

    pub fn leak(self) -> &'static [T] {
        let items = unsafe { from_raw_parts(self.at.as_ptr(), self.size) };
        core::mem::forget(self);
        items
    }
}

impl<T: Copy> List<T> {
    /// Removes the items of a range that exists.
    pub fn remove(&mut self, begin: usize, end: usize) {
        if begin > end || end > self.size {
            broken();
        }
        let at = self.at.as_ptr();
        unsafe { at.add(begin).copy_from(at.add(end), self.size - end) };
        self.size -= end - begin;
    }

    pub fn extend(&mut self, items: &[T]) {
        self.extend_with(items.len(), |to| unsafe { to.copy_from_nonoverlapping(items.as_ptr(), items.len()) });
    }
}

impl<T: Copy> From<&[T]> for List<T> {
    fn from(items: &[T]) -> Self {
        let mut list = Self::with_capacity(items.len());
        list.extend(items);
        list
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        unsafe { from_raw_parts(self.at.as_ptr(), self.size) }
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        unsafe { from_raw_parts_mut(self.at.as_ptr(), self.size) }
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        self.truncate(0);
        if self.capacity > 0 {
            unsafe { dealloc(self.at.as_ptr().cast(), Self::layout(self.capacity)) };
        }
    }
}

/// Returns the items of a range that exists.
pub fn part<T>(items: &[T], begin: usize, end: usize) -> &[T] {
    match items.get(begin..end) {
        Some(part) => part,
        None => broken(),
    }
}
