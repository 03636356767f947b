module web

go 1.24
