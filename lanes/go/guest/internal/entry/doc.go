package entry
