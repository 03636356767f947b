module faults

go 1.24
