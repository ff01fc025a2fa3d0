package main

import (
	"strconv"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
)

func init() { gristmill.Handle(count) }
func main() {}

var everything [][]byte

func deep(calls int) int { return deep(calls+1) + 1 }

func count(job *gristmill.Job) (any, error) {
	switch string(job.Body.Data) {
	case "progress":
		gristmill.Progress(5000, "half")
		return nil, nil
	case "crash":
		panic("on purpose")
	case "deep":
		return strconv.Itoa(deep(0)), nil
	case "hoard":
		for {
			everything = append(everything, make([]byte, 1<<20))
		}
	}
	if string(job.Body.Data) == "large" {
		if err := gristmill.Checkpoint(make([]byte, 2000)); err != nil {
			return nil, err
		}
	}
	var seen int
	if _, err := gristmill.StateJSON(&seen); err != nil {
		return nil, err
	}
	seen++
	if err := gristmill.SetStateJSON(seen); err != nil {
		return nil, err
	}
	if string(job.Body.Data) == "fail" && job.Attempt == 1 {
		return nil, gristmill.Retry("later", "after the state was set")
	}
	return strconv.Itoa(seen), nil
}
