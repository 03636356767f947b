module polyglot

go 1.24
