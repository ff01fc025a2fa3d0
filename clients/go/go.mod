module github.com/gristmill/gristmill/clients/go

go 1.25
