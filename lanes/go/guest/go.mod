module svc/guest

go 1.24
