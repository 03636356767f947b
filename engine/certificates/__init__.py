"""Certificates of the service and its projects, from a certificate authority by ACME (RFC 8555)."""
