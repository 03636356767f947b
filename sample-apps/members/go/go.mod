module members

go 1.24
