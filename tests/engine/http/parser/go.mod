module parser

go 1.22
