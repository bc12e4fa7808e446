//! Lowercase hexadecimal text of bytes and of SHA-256 digests.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of `bytes` as 64 lowercase hexadecimal digits.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns `bytes` as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digits = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(digits, |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_64_lowercase_digits() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
        assert_eq!(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
