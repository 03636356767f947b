"""The crypto Door: cryptographic operations and password hashes, on OpenSSL and Argon2."""
