module handler

go 1.27
