module guestbook

go 1.24
