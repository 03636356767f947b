//! `wasi:random`: ChaCha20 (RFC 8439 2.3), with a key from the host and a counter of 64 bits.

use crate::guest;
use crate::text::Sentence;
use crate::{export, list, state};

const MAX_BYTES: u64 = 65_536;
const BLOCK: usize = 64;

pub struct Random {
    /// The key as hexadecimal digits, until it is needed.
    seed: &'static [u8],
    key: [u32; 8],
    counter: u64,
}

impl Random {
    pub const fn new() -> Self {
        Self { seed: &[], key: [0; 8], counter: 0 }
    }

    /// Sets the key, 64 hexadecimal digits.
    pub fn seed(&mut self, digits: &'static [u8]) {
        self.seed = digits;
    }

    #[cold]
    #[inline(never)]
    fn parse_seed(&mut self) {
        let mut digits = self.seed.iter();
        for word in &mut self.key {
            for _ in 0..8 {
                let Some(digit) = digits.next() else { crate::malformed() };
                let Some(value) = char::from(*digit).to_digit(16) else { crate::malformed() };
                *word = *word << 4 | value;
            }
            *word = word.swap_bytes();
        }
        self.seed = &[];
    }

    fn block(&mut self) -> [u32; 16] {
        if !self.seed.is_empty() {
            self.parse_seed();
        }
        let counter = self.counter;
        self.counter += 1;
        let mut input = [0_u32; 16];
        input[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        input[4..12].copy_from_slice(&self.key);
        (input[12], input[13]) = (counter as u32, (counter >> 32) as u32);
        let mut words = input;
        for _ in 0..10 {
            // Constant positions, so that the words are in local variables.
            quarter_round(&mut words, 0, 4, 8, 12);
            quarter_round(&mut words, 1, 5, 9, 13);
            quarter_round(&mut words, 2, 6, 10, 14);
            quarter_round(&mut words, 3, 7, 11, 15);
            quarter_round(&mut words, 0, 5, 10, 15);
            quarter_round(&mut words, 1, 6, 11, 12);
            quarter_round(&mut words, 2, 7, 8, 13);
            quarter_round(&mut words, 3, 4, 9, 14);
        }
        for (word, input) in words.iter_mut().zip(input) {
            *word = word.wrapping_add(input);
        }
        words
    }
}

#[inline(always)]
fn quarter_round(words: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    words[a] = words[a].wrapping_add(words[b]);
    words[d] = (words[d] ^ words[a]).rotate_left(16);
    words[c] = words[c].wrapping_add(words[d]);
    words[b] = (words[b] ^ words[c]).rotate_left(12);
    words[a] = words[a].wrapping_add(words[b]);
    words[d] = (words[d] ^ words[a]).rotate_left(8);
    words[c] = words[c].wrapping_add(words[d]);
    words[b] = (words[b] ^ words[c]).rotate_left(7);
}

/// Returns two numbers of a new block.
#[inline(never)]
fn numbers() -> [u64; 2] {
    let block = state().random.block();
    let number = |at: usize| u64::from(block[at]) | u64::from(block[at + 1]) << 32;
    [number(0), number(2)]
}

fn give_bytes(count: u64, result: u32) {
    if count > MAX_BYTES {
        let sentence = Sentence::new().text(b"get-random-bytes of ").number(count);
        sentence.text(b" bytes; at most 65536 are allowed").trap();
    }
    let count = count as usize;
    if count == 0 {
        return guest::store_empty(result, 1);
    }
    let to = guest::allocate(1, count);
    let mut given = 0;
    while given < count {
        let block = state().random.block();
        let bytes: [u8; BLOCK] = unsafe { core::mem::transmute(block) };
        let size = BLOCK.min(count - given);
        guest::copy_out(to + given as u32, list::part(&bytes, 0, size));
        given += size;
    }
    guest::store_list(result, to, count);
}

export! {
    "wasi:random/random#get-random-bytes"
    fn random_bytes(count: u64, result: u32) {
        give_bytes(count, result);
    }

    "wasi:random/insecure#get-insecure-random-bytes"
    fn insecure_random_bytes(count: u64, result: u32) {
        give_bytes(count, result);
    }

    "wasi:random/random#get-random-u64"
    fn random_u64() -> u64 {
        numbers()[0]
    }

    "wasi:random/insecure#get-insecure-random-u64"
    fn insecure_random_u64() -> u64 {
        numbers()[0]
    }

    "wasi:random/insecure-seed#insecure-seed"
    fn insecure_seed(result: u32) {
        let [first, second] = numbers();
        guest::store64(result, first);
        guest::store64(result + 8, second);
    }
}
