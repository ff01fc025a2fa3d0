package main

import gristmill "github.com/gristmill/gristmill/guest-sdk/go"

func init() { gristmill.Handle(link) }
func main() {}

func link(job *gristmill.Job) (any, error) {
	switch string(job.Body.Data) {
	case "fan":
		first := gristmill.NewJob{Topic: job.Topic, Body: "gather", AfterJobs: []string{job.ID}, RunAfterFailed: true, Open: true}
		batch, err := gristmill.Enqueue(first)
		if err != nil {
			return nil, err
		}
		bad, err := gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Body: "bad", Batch: batch})
		if err != nil {
			return nil, err
		}
		_, err = gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Body: "good", AfterJobs: []string{bad}, Batch: batch})
		return batch, err
	case "gather":
		found, _ := job.Meta("predecessors")
		return found, nil
	case "wrong":
		return gristmill.Enqueue(gristmill.NewJob{Topic: job.Topic, Batch: "no id!"})
	}
	return nil, gristmill.Reject("bad", "as requested")
}
