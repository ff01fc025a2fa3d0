module handler

go 1.27

ignore ./gristmill/nethttp // it is compiled only for handlers that import it
