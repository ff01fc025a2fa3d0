package gristmill

import (
	"context"
	"log/slog"
)

// Lines of [slog] are log lines of the job. The runner adds tenant, topic, job and attempt.
func init() { slog.SetDefault(slog.New(logHandler{})) }

// LevelTrace is below [slog.LevelDebug].
const LevelTrace = slog.LevelDebug - 4

type logHandler struct {
	fields []Pair
	group  string // with its dot
}

// Enabled asks the runner about fine lines only: from info on, that would be one more call for nothing.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || hostLogEnabled(level)
}

func (h logHandler) Handle(_ context.Context, record slog.Record) error {
	fields := append([]Pair(nil), h.fields...)
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendAttr(fields, h.group, attr)
		return true
	})
	hostLog(record.Level, record.Message, fields)
	return nil
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := append([]Pair(nil), h.fields...)
	for _, attr := range attrs {
		fields = appendAttr(fields, h.group, attr)
	}
	return logHandler{fields, h.group}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return logHandler{h.fields, h.group + name + "."}
}

// appendAttr flattens groups: the contract's fields are names and texts.
func appendAttr(fields []Pair, group string, attr slog.Attr) []Pair {
	value := attr.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if attr.Key == "" && value.Any() == nil {
			return fields // slog: an empty attribute is to be ignored
		}
		return append(fields, Pair{group + attr.Key, value.String()})
	}
	if attr.Key != "" {
		group += attr.Key + "."
	}
	for _, inner := range value.Group() {
		fields = appendAttr(fields, group, inner)
	}
	return fields
}
