//! Objects with several owners, such as a body that a stream and its pollables refer to.

use alloc::rc::Rc;
use core::cell::UnsafeCell;

/// A counted reference to a value that every owner may change.
///
/// The library has one thread, and no function of it is entered again before it returns. No reference that `get`
/// returns may live across a call that uses the same object.
pub struct Shared<T>(Rc<UnsafeCell<T>>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Rc::new(UnsafeCell::new(value)))
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn get(&self) -> &mut T {
        unsafe { &mut *self.0.get() }
    }

    /// Returns whether this is the only owner.
    pub fn is_only(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
