module handler

go 1.27

require github.com/gristmill/gristmill/guest-sdk/go v0.1.0

replace github.com/gristmill/gristmill/guest-sdk/go => ./../../guest-sdk/go
