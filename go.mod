module github.com/verge-id/verge

go 1.26
