package main

import (
	"log/slog"

	"handler/gristmill"
)

func init() { gristmill.Handle(greet) }

func main() {}

func greet(job *gristmill.Job) (any, error) {
	var body struct {
		Name string `json:"name"`
	}
	if err := job.JSON(&body); err != nil {
		return nil, err
	}
	slog.Info("greet", "attempt", job.Attempt)
	return map[string]string{"hello": body.Name}, nil
}
