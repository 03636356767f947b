"""Column types, and the conversion of values between the database, JSON, files and the grid."""
