package main

import (
	"testing"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

func TestItGreets(t *testing.T) {
	run := gristmill.Fake{}.Run(greet, gristmill.Of(`{"name": "Ada"}`))
	if run.Failure != nil || string(run.Result.Data) != `{"hello":"Ada"}` {
		t.Errorf("it came to %+v: %s", run.Result, run.Message)
	}
}
