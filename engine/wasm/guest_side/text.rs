//! Texts: numbers, the fields of blocks, and sentences.

use crate::list::{Bytes, part};


/// Appends a number in decimal.
pub fn push_decimal(text: &mut Bytes, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(part(&digits, at, digits.len()));
}

/// Returns the value of decimal digits. Traps for anything else.
pub fn decimal(text: &[u8]) -> u64 {
    let mut number = 0_u64;
    for digit in text {
        if !digit.is_ascii_digit() {
            crate::malformed();
        }
        number = number.wrapping_mul(10).wrapping_add((digit - b'0').into());
    }
    number
}

/// Takes the bytes before the next 0 from a block. Traps if there is none.
pub fn take<'a>(block: &mut &'a [u8]) -> &'a [u8] {
    let Some(end) = block.iter().position(|byte| *byte == 0) else { crate::malformed() };
    let taken = part(block, 0, end);
    *block = part(block, end + 1, block.len());
    taken
}

/// A sentence under construction.
pub struct Sentence(Bytes);

impl Sentence {
    pub fn new() -> Self {
        Self(Bytes::with_capacity(96))
    }

    pub fn text(mut self, text: &[u8]) -> Self {
        self.0.extend(text);
        self
    }

    pub fn number(mut self, number: u64) -> Self {
        push_decimal(&mut self.0, number);
        self
    }

    pub fn trap(self) -> ! {
        crate::trap(&self.0)
    }
}
