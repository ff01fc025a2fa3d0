package main

import (
	"log/slog"

	gristmill "github.com/gristmill/gristmill/guest-sdk/go"
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
	slog.Info("greet", "name", body.Name)
	return map[string]string{"hello": body.Name}, nil
}
