module github.com/gristmill/gristmill/guest-sdk/go

go 1.27
