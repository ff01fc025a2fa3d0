package main

import (
	"strconv"

	"handler/gristmill"
)

func init() { gristmill.Handle(count) }
func main() {}

func count(job *gristmill.Job) (any, error) {
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
